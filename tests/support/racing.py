"""Several server processes on one database, and clients that send at the same moment over HTTP."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, TypeVar

from placement.db import invariants
from placement.db.database import Database
from placement.db.engine import make_engine
from tests.support.campaign import Servers
from tests.support.client import HANGS_S, VERSION, Answer, Client
from tests.support.databases import KINDS, scratch_database, until_exit
from tests.support.effort import LONG, in_one_process
from tests.support.processes import Process, public_folder
from tests.support.service import empty

T = TypeVar("T")

SETTINGS = """\
[api]
auth_strategy = noauth2
[placement_database]
connection = {connection}
sqlite_synchronous = false
sync_on_startup = true
[placement]
{options}
"""

WITHOUT_SCRUB = "[placement_database]\nscrub_share = 0"
"""The option with which nothing is changed without a request: for tests that know what there must be."""

SERVING_CLAIMS = "[insight]\nenabled = true"
"""Options with which servers serve what is under ``/-/`` too."""

READ_COMMITTED = "init_command=SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"


in_arenas = partial(in_one_process, "arena")
"""Kinds as parameters of a fixture."""

ARENAS = in_arenas(*KINDS, *(["mysql-read-committed"] if LONG else []))
"""What ``race_database`` takes. The two of MariaDB differ in what sessions begin with: the server's
default, REPEATABLE READ, or what an operator has set. The service overrules both when it connects
(tests/db/test_database_isolation.py), so that only the long mode tries the second."""


@contextlib.contextmanager
def race_database(kind: str) -> Iterator[str]:
    """Make an empty database, yield its SQLAlchemy URL for the default driver, and drop it."""
    with scratch_database(kind.partition("-")[0]) as url:
        url = url.replace("mysql+pymysql", "mysql")
        yield f"{url}?{READ_COMMITTED}" if kind.endswith("read-committed") else url


@dataclass
class Arena:
    """Servers on one database.

    ``db`` is the database as the test itself looks at it, beside the servers.
    """

    ports: Sequence[int]
    db: Database
    processes: Sequence[Process] = ()
    _clients: list[Client] = field(default_factory=list)

    def clients(self, count: int) -> list[Client]:
        """Return that many clients, spread over the servers."""
        while len(self._clients) < count:
            self._clients.append(Client(self.ports[len(self._clients) % len(self.ports)]))
        return self._clients[:count]

    def send(self, method: str, path: str, body: Any = None, version: str = VERSION) -> Answer:
        """Send one request through the first client."""
        return self.clients(1)[0].send(method, path, body, version)

    def race(self, works: Sequence[Callable[[Client], T]], patience_s: float = HANGS_S) -> list[T]:
        """Run every work in a thread with a client of its own, all at once; return their results."""
        start = threading.Barrier(len(works))
        results: list[Any] = [None] * len(works)
        failures: list[BaseException] = []

        def run(place: int, client: Client) -> None:
            try:
                start.wait(HANGS_S)
                results[place] = works[place](client)
            except BaseException as failure:
                failures.append(failure)

        clients = self.clients(len(works))
        threads = [threading.Thread(target=run, args=each) for each in enumerate(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience_s)
            assert not thread.is_alive(), "a client hangs"
        if failures:
            raise failures[0]
        return results

    def hang_up(self) -> None:
        """Close the clients' connections: the next request opens a new one."""
        for client in self._clients:
            client.close()

    def close(self) -> None:
        """Close all connections."""
        self.hang_up()
        self.db.dispose()

    def assert_sound(self) -> None:
        """No invariant of the promise is violated."""
        assert invariants.violations(self.db) == []


@contextlib.contextmanager
def arena(kind: str, servers: int = 3, options: str = "") -> Iterator[Arena]:
    """Start servers at the same moment on an empty database, which they fill themselves."""
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(race_database(kind))
        folder = stack.enter_context(public_folder("placement-race-"))
        settings = SETTINGS.format(connection=connection.replace("%", "%%"), options=options)
        running = Servers(folder, [settings] * servers)
        stack.callback(running.stop)
        running.start(*running.ports)
        made = Arena(running.ports, Database(make_engine(connection)), [*running.processes.values()])
        stack.callback(made.close)
        yield made


@contextlib.contextmanager
def emptied_arena(kind: str) -> Iterator[Arena]:
    """Yield three servers, which the tests of this process share, on an emptied database.

    To start three servers takes longer than most races. They serve insight too.
    """
    yield emptied(_standing_arena(kind))


def emptied(place: Arena) -> Arena:
    """Return servers that other tests have used, with an empty database."""
    # The servers may have closed connections that were idle since an earlier test.
    place.hang_up()
    empty(place.db)
    return place


@cache
def _standing_arena(kind: str) -> Arena:
    return until_exit(arena(kind, options=f"{SERVING_CLAIMS}\n{WITHOUT_SCRUB}"))
