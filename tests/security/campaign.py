"""A campaign: hostile requests to the service behind a real web server, and what must hold meanwhile.

No answer is a 5xx of the service, nobody gets in who may not, a provider that no request may touch
stays as it is, no log holds a traceback, and the server answers others before and after.
"""

import contextlib
import http.client
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.security.hostile import Attacker, Hostile
from tests.support import deployment
from tests.support.campaign import CampaignReport
from tests.support.databases import scratch_database
from tests.support.deployment import Site, shipped
from tests.support.described import SOMEBODY
from tests.support.processes import public_folder
from tests.support.world import World

LOGGED_ERROR = re.compile(r"Traceback|CRITICAL|status: 5\d\d")
SERVERS_OWN = frozenset({501, 505})
"""What a web server says of a transfer coding or a version of HTTP that it does not know."""

POLICY = """\
"placement:traits:list": "!"
"placement:resource_providers:create": "role:nobody"
"placement:allocations:delete": "role:nobody"
"placement:claims:confirm": "role:nobody"
"placement:holds:list": "!"
"placement:insight:survival": "role:nobody"
"placement:insight:plans": "role:nobody"
"placement:insight:changes": "role:nobody"
"placement:insight:history": "!"
"""
CLOSED = {
    ("GET", "/traits"),
    ("POST", "/resource_providers"),
    ("DELETE", "/allocations/{consumer_uuid}"),
    ("POST", "/-/claims/confirm"),
    ("POST", "/-/claims/{consumer_uuid}/confirm"),
    ("GET", "/-/holds"),
    ("GET", "/-/survival"),
    ("POST", "/-/plans"),
    ("GET", "/-/changes"),
    ("GET", "/-/history"),
}
OPTIONS = "[insight]\nenabled = true\nhistory_days = 30\n"
TIMEOUT_S = 30
NO_ANSWER = 599


@contextlib.contextmanager
def _apache(folder: Path, environment: dict[str, str]) -> Iterator[tuple[Site, list[Path]]]:
    text = shipped("apache/placement-uwsgi.conf", folder)
    with (
        deployment.uwsgi(folder, environment) as service,
        deployment.apache(folder, {}, text, "proxy", "proxy_uwsgi", "reqtimeout") as site,
    ):
        yield site, [service.master.log]


@contextlib.contextmanager
def _nginx(
    name: str, folder: Path, environment: dict[str, str]
) -> Iterator[tuple[Site, list[Path]]]:
    serve = {"uwsgi": deployment.uwsgi, "gunicorn": deployment.gunicorn}[name]
    with (
        serve(folder, environment) as service,
        deployment.nginx(folder, shipped(f"nginx/placement-{name}.conf", folder)) as site,
    ):
        yield site, [service.master.log]


@contextlib.contextmanager
def _alone(
    serve: Callable[..., contextlib.AbstractContextManager[Site]],
    folder: Path,
    environment: dict[str, str],
) -> Iterator[tuple[Site, list[Path]]]:
    with serve(folder, environment) as site:
        yield site, [site.master.log]


Serve = Callable[[Path, dict[str, str]], contextlib.AbstractContextManager[tuple[Site, list[Path]]]]
SERVERS: dict[str, Serve] = {
    "placement-api": partial(_alone, deployment.builtin),
    "uwsgi": partial(_alone, partial(deployment.uwsgi, http=True)),
    "gunicorn": partial(_alone, partial(deployment.gunicorn, http=True)),
    "apache+uwsgi": _apache,
    "nginx+uwsgi": partial(_nginx, "uwsgi"),
    "nginx+gunicorn": partial(_nginx, "gunicorn"),
}

TAKES_UNDERSCORES = {"uwsgi"}
"""By itself it takes them for dashes in names of headers: that is the token then. Front ends drop such."""


@dataclass
class HostileReport(CampaignReport):
    """``statuses`` of the answers; 0 is a connection that was closed without one."""

    statuses: Counter[int] = field(default_factory=Counter)

    def notes(self) -> Iterator[str]:
        """Yield the statuses."""
        answers = ", ".join(f"{status}: {n}" for status, n in sorted(self.statuses.items()))
        yield f"{sum(self.statuses.values())} requests ({answers})"


def run(server: str, database: str, count: int, seed: int) -> HostileReport:
    """Send so many requests, and say what they met and what they broke."""
    report, began = HostileReport(f"{server} on {database}", seed), time.monotonic()
    with public_folder("placement-hostile-") as folder, _database(database, folder) as url:
        environment = deployment.prepare(folder, url, OPTIONS)
        with SERVERS[server](folder, environment) as (site, logs):
            world = World(site)
            # For the claims of those who may: no request asks for what the victim has.
            world.host(SOMEBODY, VCPU=10**6)
            victim = world.host(PGPU=8)
            before = _state(site, victim)
            (folder / "policy.yaml").write_text(POLICY)
            attacker = Attacker(seed, site.prefix, victim, CLOSED)
            for _ in range(count):
                _attack(server, site, attacker.draw(), report)
            (folder / "policy.yaml").write_text("")
            if _state(site, victim) != before:
                report.violations.append("the victim is changed")
            for log in logs:
                text = log.read_text(errors="replace")
                report.violations += [
                    f"log: {text[max(0, found.start() - 300) : found.end() + 700]}"
                    for found in LOGGED_ERROR.finditer(text)
                ]
    report.seconds = time.monotonic() - began
    return report


@contextlib.contextmanager
def _database(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder}/placement.sqlite"
    else:
        with scratch_database(kind) as url:
            yield url


def _state(site: Site, victim: str) -> list[object]:
    paths = ("", "/inventories", "/usages", "/aggregates", "/traits", "/allocations")
    answers = [site.send("GET", f"/resource_providers/{victim}{p}") for p in paths]
    return [(answer.status, answer.text) for answer in answers]


def _attack(server: str, site: Site, hostile: Hostile, report: HostileReport) -> None:
    status = _status(site, hostile)
    report.statuses[status] += 1
    said = f"{status} to {hostile.data[:500]!r}"
    if status >= 500 and status not in SERVERS_OWN and hostile.whole:
        report.violations.append(said)
    shows_token = server in TAKES_UNDERSCORES and b"X_Auth_Token: admin" in hostile.data
    if 200 <= status < 300 and not (hostile.may_succeed or shows_token):
        report.violations.append(f"let in: {said}")
    if not 200 <= status < 300 and hostile.must_succeed:
        report.violations.append(f"turned away: {said}")


def _status(site: Site, hostile: Hostile) -> int:
    """Return the status of the answer, 0 for none."""
    port = int(site.url.split("/")[2].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(hostile.data)
            if not hostile.whole:
                connection.shutdown(socket.SHUT_WR)
        with contextlib.closing(http.client.HTTPResponse(connection)) as response:
            try:
                response.begin()
            except (http.client.HTTPException, ConnectionError):
                return 0
            except TimeoutError:
                return NO_ANSWER
            return response.status
