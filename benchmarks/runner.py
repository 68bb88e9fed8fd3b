"""The run: each cloud on each target; a scenario runs on all in turn, so that noise hits all."""

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import make_url

from benchmarks import bulk, clients, databases, floor, loading, profiles, servers
from benchmarks.clients import Measurement
from benchmarks.clouds import Cloud, cloud_named
from benchmarks.scenarios import Scenario, fetching, plan
from benchmarks.target import Target, memory_of, negotiate
from benchmarks.writes import spread_claims

FRESH_STARTS = 3
NULL_BYTES = (0, 1_000, 100_000, 1_100_000)


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line, beside targets and clouds."""

    seconds: float
    client_counts: tuple[int, ...]
    groups: tuple[str, ...]
    bulk: bool
    keep: bool
    load: bool
    template: servers.Template
    administration: str | None
    headers: dict[str, str]
    version: tuple[int, int]
    logs: Path
    profile: bool = False
    scenario: re.Pattern[str] = re.compile("")


@dataclass
class Row:
    """One line of the results: a scenario on a cloud with so many clients, on each target."""

    cloud: str
    hosts: int
    ledger: int
    group: str
    scenario: str
    clients: int
    by_target: dict[str, Measurement] = field(default_factory=dict)


@dataclass
class Results:
    """Everything that was measured."""

    rows: list[Row] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    targets: dict[str, dict[str, Any]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        rows = [
            {
                **{key: value for key, value in vars(row).items() if key != "by_target"},
                "by_target": {name: one.as_dict() for name, one in row.by_target.items()},
            }
            for row in self.rows
        ]
        return {"targets": self.targets, "rows": rows, "notes": self.notes}


Tell = Callable[[str], None]


class Runner:
    """Runs clouds and collects results.

    :param tell: gets a line of text whenever something has been measured.
    """

    def __init__(self, options: Options, tell: Tell, row_done: Callable[[Row], None]) -> None:
        self.options = options
        self.results = Results()
        self._tell = tell
        self._row_done = row_done

    def note(self, what: str, target: str, cloud: str, **values: Any) -> None:
        """Keep and tell a result that is not a table row."""
        self.results.notes.append({"what": what, "target": target, "cloud": cloud, **values})
        shown = ", ".join(
            f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in values.items()
        )
        self._tell(f"{target}: {what}: {shown}")

    def overhead(self) -> None:
        """Measure the client and the web server against an application that does nothing."""
        log = self.options.logs / "null.log"
        template = self.options.template
        with servers.running(
            template, servers.NULL, servers.environment("sqlite://"), log
        ) as server:
            target = negotiate("null", server.url, self.options.headers, pids=(server.process.pid,))
            for size in NULL_BYTES:
                make = _answering(size) if size else spread_claims(target, cloud_named("tiny"))
                found = clients.run(target, make, seconds=min(1.0, self.options.seconds))
                self.note(
                    "client overhead",
                    template.command,
                    "",
                    request="PUT, 204" if not size else f"GET, {size} bytes",
                    median_ms=found.median_ms,
                    client_cpu_ms=found.client_cpu_ms,
                    server_cpu_ms=found.server_cpu_ms,
                )

    def cloud(
        self, cloud: Cloud, kinds: list[str], loaded: list[str], urls: list[tuple[str, str]]
    ) -> None:
        """Run one cloud on a scratch database and server of each kind, on servers of loaded
        databases, and on each URL."""
        with contextlib.ExitStack() as stack:
            targets = [stack.enter_context(self._own(kind, cloud)) for kind in kinds]
            for database in loaded:
                kind = make_url(database).get_backend_name()
                log = self.options.logs / f"{kind}.log"
                targets.append(self._fresh(stack, kind, database, cloud, log))
            targets += [stack.enter_context(self._foreign(*place, cloud)) for place in urls]
            for target in targets:
                self.results.targets.setdefault(
                    target.name,
                    {
                        "url": target.url,
                        "microversion": "{}.{}".format(*target.version),
                        **target.about,
                    },
                )
            for scenario in plan(cloud, self.options.groups):
                if not self.options.scenario.search(scenario.name):
                    continue
                self._scenario(scenario, cloud, targets)
            if "floor" in self.options.groups and cloud.claim:
                for target in targets:
                    if target.database:
                        found = floor.measure(target.database, cloud, self.options.seconds)
                        self.note("hand-written claim", target.name, cloud.name, **asdict(found))
            for target in targets:
                self._memory(target, cloud, "memory after all")

    @contextlib.contextmanager
    def _own(self, kind: str, cloud: Cloud) -> Iterator[Target]:
        """Make a database, load it through a first server, and yield a fresh one."""
        options = self.options
        log = options.logs / f"{kind}.log"
        with databases.scratch(kind, options.administration) as url:
            with servers.running(
                options.template, servers.SERVICE, servers.environment(url), log
            ) as server:
                target = self._negotiate(kind, server, url)
                self._load(target, cloud)
            with contextlib.ExitStack() as stack:
                yield self._fresh(stack, kind, url, cloud, log)

    def _negotiate(self, kind: str, server: servers.Server, database: str) -> Target:
        target = negotiate(
            kind,
            server.url,
            self.options.headers,
            wanted=self.options.version,
            pids=(server.process.pid,),
            database=database,
        )
        about = {
            "server": self.options.template.command,
            "workers": self.options.template.workers,
            "database": databases.settings(database),
        }
        return replace(target, about={**target.about, **about})

    def _fresh(
        self, stack: contextlib.ExitStack, kind: str, url: str, cloud: Cloud, log: Path
    ) -> Target:
        """Start new servers and time their first searches; keep the last one."""
        options = self.options
        repeats = FRESH_STARTS if "fresh" in options.groups else 1
        for left in range(repeats - 1, -1, -1):
            server = servers.start(options.template, servers.SERVICE, servers.environment(url), log)
            if not left:
                stack.callback(servers.stop, server)
            target = self._negotiate(kind, server, url)
            if "fresh" in options.groups:
                self._first_search(target, cloud, server.start_s)
            if left:
                servers.stop(server)
        return target

    def _first_search(self, target: Target, cloud: Cloud, start_s: float) -> None:
        before = memory_of(target)
        query = f"/allocation_candidates?{cloud.questions[0].query}"
        times = []
        with target.connect() as connection:
            for _ in range(2):
                begun = time.perf_counter()
                answer = connection.exchange("GET", query)
                times.append(1e3 * (time.perf_counter() - begun))
        after = memory_of(target)
        self.note(
            "fresh worker",
            target.name,
            cloud.name,
            status=answer.status,
            start_s=start_s,
            first_search_ms=times[0],
            second_search_ms=times[1],
            pss_before_mib=before.pss_mib if before else None,
            pss_after_mib=after.pss_mib if after else None,
        )

    @contextlib.contextmanager
    def _foreign(self, name: str, url: str, cloud: Cloud) -> Iterator[Target]:
        """Load the cloud on somebody's endpoint, yield it, and take the cloud away again."""
        target = negotiate(name, url, self.options.headers, wanted=self.options.version)
        loaded = self.options.load and not loading.is_loaded(target, cloud)
        if loaded:
            self._load(target, cloud)
        try:
            yield target
        finally:
            if loaded and not self.options.keep:
                loading.unload(target, cloud)

    def _load(self, target: Target, cloud: Cloud) -> None:
        if self.options.bulk and target.database:
            seconds = bulk.load(target, cloud)
            self.note(
                "loaded by bulk SQL",
                target.name,
                cloud.name,
                seconds=seconds,
                ledger_rows=cloud.ledger,
            )
            return
        providers = loading.load_providers(target, cloud)
        self._add(cloud, "load", "providers over HTTP, each with 3 PUTs", providers, target)
        if cloud.consumers_per_host:
            consumers = loading.load_consumers(target, cloud)
            self._add(cloud, "load", "consumers over HTTP, 100 a POST", consumers, target)

    def _add(self, cloud: Cloud, group: str, name: str, found: Measurement, target: Target) -> None:
        row = Row(
            cloud.name, cloud.hosts, cloud.ledger, group, name, found.clients, {target.name: found}
        )
        self.results.rows.append(row)
        self._row_done(row)

    def _scenario(self, scenario: Scenario, cloud: Cloud, targets: list[Target]) -> None:
        for count in scenario.clients or self.options.client_counts:
            row = Row(cloud.name, cloud.hosts, cloud.ledger, scenario.group, scenario.name, count)
            for target in targets:
                if target.version >= scenario.since:
                    row.by_target[target.name] = self._measure(scenario, cloud, target, count)
            if row.by_target:
                self.results.rows.append(row)
                self._row_done(row)

    def _measure(self, scenario: Scenario, cloud: Cloud, target: Target, count: int) -> Measurement:
        make = scenario.make(target, cloud)
        clients.run(target, make, seconds=0, operations=2, accepted=scenario.accepted)
        make = scenario.make(target, cloud)

        def measured() -> Measurement:
            with self._profiled(scenario, cloud, target, count):
                return clients.run(
                    target,
                    make,
                    clients=count,
                    seconds=self.options.seconds,
                    accepted=scenario.accepted,
                )

        if not scenario.claims_beside:
            return measured()
        with clients.beside(target, spread_claims(target, cloud), scenario.claims_beside) as beside:
            found = measured()
        self.note(
            "claims beside",
            target.name,
            cloud.name,
            per_second=beside[0].per_second,
            median_ms=beside[0].median_ms,
            failures=beside[0].failures,
        )
        return found

    @contextlib.contextmanager
    def _profiled(
        self, scenario: Scenario, cloud: Cloud, target: Target, count: int
    ) -> Iterator[None]:
        if not (self.options.profile and target.pids):
            yield
            return
        words = re.sub(r"[^a-z0-9]+", "-", f"{scenario.name} {count}".lower()).strip("-")
        raw = self.options.logs / f"profile-{cloud.name}-{target.name}-{words}.txt"
        with profiles.sampled(target, self.options.seconds, raw):
            yield
        text = profiles.shown(*profiles.summed(raw))
        self._tell(f"{target.name}: profile of {scenario.name}, {count} clients: {raw}\n{text}")

    def _memory(self, target: Target, cloud: Cloud, when: str) -> None:
        found = memory_of(target)
        if found:
            self.note(when, target.name, cloud.name, **asdict(found))


def _answering(size: int) -> clients.Maker:
    return fetching(lambda _cloud, _draw: f"/{size}")(None, None)  # type: ignore[arg-type]
