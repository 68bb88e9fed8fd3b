"""The split of time inside a request: the application called in this process, without HTTP.

    python -m benchmarks.inside DATABASE --cloud flat-10k-busy --scenario claim

DATABASE is the SQLAlchemy URL of a database that holds the cloud. For each scenario: wall time and
CPU time of a request, how much of both lies between handing a statement to the driver and having
its rows or its acknowledgement ready, and the number of statements, BEGIN and COMMIT included. CPU time
means the same on a busy machine as on a quiet one, nearly. Of a search for candidates, also the wall
time in the engine and in writing the answer; what the driver takes of it is asking whether anything
changed. ``--profile`` adds cProfile's view.
"""

import argparse
import cProfile
import io
import pstats
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from types import ModuleType
from typing import Any

from oslo_config import cfg
from sqlalchemy import Engine

from benchmarks.clients import percentile
from benchmarks.clouds import cloud_named
from benchmarks.connection import Answer, Connection
from benchmarks.scenarios import GROUPS, plan
from benchmarks.target import NEWEST, Target, expect
from placement import conf as configuration
from placement import deploy
from placement.conf import library_defaults
from placement.handlers import candidate_answer
from placement.objects import allocation_candidate

WARM_UP = 3


class Inside(Connection):
    """Stands for a connection: hands requests to a WSGI application as a web server does."""

    def __init__(self, application: Callable[..., Any], headers: dict[str, str]) -> None:
        super().__init__("http://inside", headers)
        self._application = application
        self._environ = {
            "SERVER_NAME": "inside",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "HTTP_HOST": "inside",
            "REMOTE_ADDR": "127.0.0.1",
            "SCRIPT_NAME": "",
            "wsgi.url_scheme": "http",
            "wsgi.version": (1, 0),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
        } | {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}

    def exchange(
        self, method: str, path: str, body: bytes | None = None, version: str | None = None
    ) -> Answer:
        """Call the application."""
        place, _, query = path.partition("?")
        environ = self._environ | {
            "REQUEST_METHOD": method,
            "PATH_INFO": place,
            "QUERY_STRING": query,
            "CONTENT_LENGTH": str(len(body or b"")),
            "wsgi.input": io.BytesIO(body or b""),
        }
        if body is not None:
            environ["CONTENT_TYPE"] = "application/json"
        seen: list[str] = []

        def start_response(status: str, _headers: Any, _error: Any = None) -> None:
            seen.append(status)

        pieces = self._application(environ, start_response)
        try:
            content = b"".join(pieces)
        finally:
            getattr(pieces, "close", lambda: None)()
        return Answer(int(seen[0][:3]), b"", content)


@dataclass(frozen=True)
class InsideTarget(Target):
    """A target whose connections are calls."""

    application: Any = None

    def connect(self) -> Connection:
        """Return a stand-in of a connection."""
        return Inside(self.application, self.headers)


@dataclass
class Driver:
    """What was spent below SQLAlchemy since the last reset, in seconds."""

    statements: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0

    def watch(self, engine: Engine) -> None:
        """Stand before the driver of the engine: a listener would change how statements are run."""
        run = engine.dialect.do_execute

        def timed(*arguments: Any) -> None:
            self.statements += 1
            wall, cpu = time.perf_counter(), time.thread_time()
            try:
                run(*arguments)
            finally:
                self.wall_s += time.perf_counter() - wall
                self.cpu_s += time.thread_time() - cpu

        engine.dialect.do_execute = timed  # type: ignore[method-assign]

    def reset(self) -> None:
        """Forget what was seen."""
        self.statements, self.wall_s, self.cpu_s = 0, 0.0, 0.0


class Stopwatch:
    """Adds up the wall time spent in one function, replaced in its module or class for good."""

    def __init__(self, owner: ModuleType | type, name: str) -> None:
        self.wall_s = 0.0
        original = getattr(owner, name)

        def timed(*arguments: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return original(*arguments, **options)
            finally:
                self.wall_s += time.perf_counter() - began

        setattr(owner, name, timed)


@dataclass
class Watches:
    """Where the time of a request goes."""

    driver: Driver
    engine: Stopwatch
    render: Stopwatch

    def reset(self) -> None:
        """Forget what was seen."""
        self.driver.reset()
        self.engine.wall_s = self.render.wall_s = 0.0


@dataclass(frozen=True)
class Split:
    """One request: milliseconds in all and by part, and statements."""

    wall_ms: float
    cpu_ms: float
    driver_wall_ms: float
    driver_cpu_ms: float
    engine_ms: float
    render_ms: float
    statements: int


def application_on(database: str) -> tuple[Any, Engine]:
    """Return the application configured for the database, and its engine."""
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    library_defaults.set_for(conf)
    conf.set_override("connection", database, group="placement_database")
    conf.set_override("auth_strategy", "noauth2", group="api")
    conf([], project="placement", default_config_files=[], default_config_dirs=[])
    from placement import db_api

    opened = db_api.open_database(conf)
    return deploy.loadapp(conf, database=opened), opened.engine


def measured(
    operation: Callable[[int], Answer],
    watches: Watches,
    seconds: float,
    accepted: tuple[int, ...],
) -> list[Split]:
    """Repeat the operation for so long; return the split of each.

    :raises Unusable: an answer is not as expected.
    """
    found = []
    number = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or number <= 2 * WARM_UP:
        watches.reset()
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            answer = operation(number)
        except StopIteration:
            break
        wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
        expect(answer, *accepted)
        driver = watches.driver
        if number >= WARM_UP:
            found.append(
                Split(
                    1e3 * wall,
                    1e3 * cpu,
                    1e3 * driver.wall_s,
                    1e3 * driver.cpu_s,
                    1e3 * watches.engine.wall_s,
                    1e3 * watches.render.wall_s,
                    driver.statements,
                )
            )
        number += 1
    return found


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inside", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("database")
    parser.add_argument("--cloud", default="flat-10k-busy")
    parser.add_argument("--only", default=",".join(GROUPS))
    parser.add_argument("--scenario", default="", help="regular expression")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--profile", type=int, default=0, metavar="LINES")
    chosen = parser.parse_args()
    application, engine = application_on(chosen.database)
    driver = Driver()
    driver.watch(engine)
    watches = Watches(
        driver,
        Stopwatch(allocation_candidate, "search"),
        Stopwatch(candidate_answer.CandidateAnswer, "pieces"),
    )
    headers = {
        "X-Auth-Token": "admin",
        "OpenStack-API-Version": "placement {}.{}".format(*NEWEST),
        "Accept": "application/json",
    }
    target = InsideTarget("inside", "", headers, NEWEST, application=application)
    cloud = cloud_named(chosen.cloud)
    columns = ("wall", "p99", "cpu", "drv wall", "drv cpu", "rest cpu", "engine", "render")
    print(f"{'median of each column but p99, ms':<50}", end="")
    print("".join(f" {column:>8}" for column in columns), f"{'statements':>10}")
    for scenario in plan(cloud, tuple(chosen.only.split(","))):
        if not re.search(chosen.scenario, scenario.name) or scenario.claims_beside:
            continue
        operation = scenario.make(target, cloud)(target.connect(), 0)
        splits = measured(operation, watches, chosen.seconds, scenario.accepted)
        print(f"{scenario.name:<50} {_line(splits)}", flush=True)
        if chosen.profile:
            operation = scenario.make(target, cloud)(target.connect(), 0)
            profile = cProfile.Profile()
            profile.runcall(measured, operation, watches, chosen.seconds, scenario.accepted)
            pstats.Stats(profile).strip_dirs().sort_stats("cumulative").print_stats(chosen.profile)
            pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(chosen.profile)
    return 0


def _line(splits: list[Split]) -> str:
    def middle(value: Callable[[Split], float]) -> float:
        return median(map(value, splits))

    parts = (
        middle(lambda one: one.wall_ms),
        percentile(sorted(one.wall_ms for one in splits), 0.99),
        middle(lambda one: one.cpu_ms),
        middle(lambda one: one.driver_wall_ms),
        middle(lambda one: one.driver_cpu_ms),
        middle(lambda one: one.cpu_ms - one.driver_cpu_ms),
        middle(lambda one: one.engine_ms),
        middle(lambda one: one.render_ms),
    )
    statements = middle(lambda one: one.statements)
    return "".join(f" {part:>8.2f}" for part in parts) + f" {statements:>10.0f}"


if __name__ == "__main__":
    sys.exit(main())
