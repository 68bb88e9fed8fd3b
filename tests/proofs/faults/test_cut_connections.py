"""The server ends the connection before any one statement: a start, and a read, begin again."""

import logging
import select
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oslo_config import cfg
from sqlalchemy import Connection, event, text

from placement import db_api, errors, wsgi
from placement.db import schema
from placement.db.database import Database
from placement.db.engine import make_engine
from placement.db.lost_connections import LostConnections
from placement.db.transport import Message, Observer
from tests.proofs.promise.stage import driver_id
from tests.support.databases import ROUTES, opened, scratch_route
from tests.support.effort import LONG
from tests.support.processes import PATIENCE
from tests.support.recorder import Hook
from tests.support.service import Service, configure

USUAL = ("postgresql", "pymysql")
END = {"postgresql": "SELECT pg_terminate_backend({})", "mysql": "KILL {}"}
HOST = "10000000-0000-4000-8000-000000000001"
READS = (
    "/resource_providers",
    "/traits",
    f"/resource_providers/{HOST}/usages",
    "/allocation_candidates?resources=VCPU:1",
)
GOODBYE_S = 10.0 * PATIENCE
LINE = (
    "Connections to the database that were lost since the last such line: {}; transactions begun again "
    "after that: {}."
)


@pytest.fixture(params=[route for route in ROUTES if route in USUAL or (LONG and route != "sqlite")])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with scratch_route(request.param) as made:
        yield made


class Cutter:
    """Ends the connection of each message that it sees for the first time, before it is sent.

    A message is new if it never followed this one before; by default messages are told apart by their
    first word, in the long mode by all. SQLAlchemy's own statements count like those of the transport.
    ``cut``: the connections that it has ended, each with its message.
    """

    def __init__(self, director: Database) -> None:
        self._director = director
        self._last: dict[int, str] = {}
        self._seen: set[tuple[str, str]] = set()
        self.cut: dict[int, str] = {}

    def watch(self, database: Database) -> None:
        """See what goes to a database."""
        event.listen(database.engine, "before_cursor_execute", self._raw)
        database.observers.append(Hook(self._sent))

    def _raw(self, connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        self._look(connection, statement)

    def _sent(self, connection: Connection, sent: Message) -> None:
        self._look(connection, "; ".join(each.text for each in sent.statements))

    def _look(self, connection: Connection, text: str) -> None:
        driver = connection.connection.dbapi_connection
        number = driver_id(self._director.dialect, driver)
        if not LONG:
            text = text.split()[0]
        step = self._last.get(number, ""), text
        if step not in self._seen and number not in self.cut:
            self.cut[number] = text
            end(self._director, driver)
        self._seen.add(step)
        self._last[number] = text


def end(director: Database, driver: Any) -> None:
    """End this connection at the server."""
    with director.engine.connect() as connection:
        number = driver_id(director.dialect, driver)
        connection.exec_driver_sql(END[director.dialect].format(number))
    if director.dialect == "postgresql":
        select.select([driver], [], [], GOODBYE_S)


@pytest.fixture
def cutter(url: str) -> Iterator[Cutter]:
    with opened(url) as director:
        yield Cutter(director)


@pytest.fixture
def start(
    url: str, cutter: Cutter, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Any]]:
    """The start of a worker in this process, all of whose messages the cutter sees."""
    usual = db_api.open_database

    def watched(conf: cfg.ConfigOpts, *, patient: bool = False) -> Database:
        database = usual(conf, patient=patient)
        cutter.watch(database)
        return database

    monkeypatch.setattr(db_api, "open_database", watched)
    # What belongs to a process of its own.
    monkeypatch.setattr(wsgi.log, "setup", lambda *_, **__: None)
    monkeypatch.setattr(logging, "captureWarnings", lambda _: None)
    monkeypatch.setattr(wsgi, "_settle", lambda: None)
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", url)
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP", "true")
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__MAX_RETRIES", "1000")
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__RETRY_INTERVAL", "0")
    monkeypatch.setenv("OS_API__AUTH_STRATEGY", "noauth2")

    def run() -> Any:
        try:
            return wsgi.start(cfg.ConfigOpts(), [])
        finally:
            db_api.reset()

    db_api.reset()
    yield run
    db_api.reset()


def test_a_start_survives_a_cut_before_each_statement(
    start: Callable[[], Any], cutter: Cutter
) -> None:
    """Of the upgrade of an empty database, of the standard names, and of the check of rights."""
    assert start() is not None

    assert {text.split()[0] for text in cutter.cut.values()} > {"CREATE", "INSERT", "COMMIT", "DELETE"}


def test_a_read_survives_a_cut_before_each_statement(
    url: str, cutter: Cutter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also before the COMMIT of a snapshot: a read has no outcome to be unsure of."""
    monkeypatch.setattr("placement.db.database.RETRY_WAIT_S", 0.0)
    database = Database(make_engine(url), attempts=lambda: 100)
    schema.sync(database)
    service = Service(configure(placement_database__connection=url), database)
    body = {"uuid": HOST, "name": "host"}
    assert service.request("POST", "/resource_providers", json=body).status_int == 201
    cutter.watch(database)
    for path in READS:
        answer = service.request("GET", path, version="1.39")
        assert answer.status_int == 200, answer.text
    database.dispose()

    assert "COMMIT" in cutter.cut.values()


class Ender(Observer):
    """Ends the connection before the next message that has a statement which begins with ``text``."""

    def __init__(self, director: Database) -> None:
        self._director = director
        self.text = ""

    def before(self, connection: Connection, sent: Message) -> None:
        if self.text and any(each.text.startswith(self.text) for each in sent.statements):
            self.text = ""
            end(self._director, connection.connection.dbapi_connection)


def test_lost_connections_are_told_at_once_and_then_once_a_minute(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest by whoever uses the database next, who may lose nothing himself."""
    caplog.set_level(logging.WARNING, "placement.db.lost_connections")
    now_s = 1000.0
    with opened(url) as director, opened(url) as database:
        ender = Ender(director)
        database.lost = LostConnections(lambda: now_s)
        database.observers.append(ender)

        def told(ended: str, use: Callable[..., Any] = database.read) -> list[str]:
            caplog.clear()
            ender.text = ended
            assert use(lambda access: access.value(text("SELECT 1"))) == 1
            assert not ender.text
            return [line.partition(" The last error: ")[0] for line in caplog.messages]

        assert told("SELECT") == [LINE.format(1, 1)]
        assert "SELECT" not in caplog.messages[0]
        now_s += 59
        for use in (database.read, database.snapshot, database.write):
            assert told("SELECT", use) == []
        with pytest.raises(errors.OutcomeUnknown):
            told("COMMIT", database.write)
        assert caplog.messages == []
        now_s += 1
        assert told("") == [LINE.format(4, 3)]
        now_s += 600
        assert told("") == []
        assert told("SELECT", database.snapshot) == [LINE.format(1, 1)]
