"""What the database receives is the same whether or not anything watches.

PROMISE 10. Every kind of write is sent from the same state, through a proxy that records what the driver
sends: quiet, with the log of SQL at INFO, and with a recorder. What differs from time to time is made equal:
the clock, random numbers, revisions, and the next id of each table.
"""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import make_url

from placement.db import models, schema
from placement.db.database import Database
from tests.proofs.faults.proxy import Proxy
from tests.proofs.promise.claim_scenes import AT_ONCE, REQUESTS_OF_CLAIMS
from tests.proofs.promise.scenes import REQUESTS, Scene
from tests.proofs.promise.solo import Solo, pin
from tests.proofs.promise.stage import Stage
from tests.support import recorder
from tests.support.databases import scratch_route

PORT = {"postgresql": 5432, "mysql": 3306}
FIRST_ID = 1_000_000
ENDS = (b"COMMIT\0", b"COMMIT", b"ROLLBACK\0", b"ROLLBACK")
MOMENT = re.compile(rb"\b\d{13}\b")
"""Milliseconds, by the clock of the database."""
SQL_LOG = logging.getLogger("sqlalchemy.engine")


class StoppedClock(datetime):
    """Always the same moment."""

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return datetime(2026, 5, 4, 3, 2, 1, tzinfo=tz or UTC)


class Wire:
    """A stage whose player reaches its database through a recording proxy."""

    def __init__(self, place: Stage, proxy: Proxy) -> None:
        self.place, self._proxy = place, proxy

    def received(self, solo: Solo, turns: int) -> bytes:
        """Send the orders of a scene; return the bytes that the database has received."""
        # Claims name the revisions that they have seen.
        self.place.turns = turns
        solo.begin()
        self.place.db.read(lambda reader: self._number_from(reader.connection))
        self._proxy.received = bytearray()
        solo.send()
        received, self._proxy.received = bytes(self._proxy.received), None
        return MOMENT.sub(b"a moment", received)

    def _number_from(self, connection: Any) -> None:
        """Let the next row of each table get the same id."""
        for table in models.whole_metadata().sorted_tables:
            if table.autoincrement_column is None:
                continue
            if self.place.kind == "mysql":
                statement = f"ALTER TABLE {table.name} AUTO_INCREMENT = {FIRST_ID}"
            else:
                sequence = f"pg_get_serial_sequence('{table.name}', 'id')"
                statement = f"SELECT setval({sequence}, {FIRST_ID}) WHERE {sequence} IS NOT NULL"
            connection.exec_driver_sql(statement)


@pytest.fixture(scope="module", params=["postgresql", "pymysql", "mysqlclient"])
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    with scratch_route(request.param, schema.HEAD) as named:
        url = make_url(named)
        proxy = Proxy(url.port or PORT[url.get_backend_name()])
        url = url.set(host="127.0.0.1", port=proxy.port)
        if url.get_backend_name() == "postgresql":
            url = url.update_query_dict({"sslmode": "disable"})
        place = Stage(request.param, url.render_as_string(hide_password=False), players=1)
        try:
            yield Wire(place, proxy)
        finally:
            place.close()
            proxy.close()


@contextmanager
def logged(_db: Database) -> Iterator[None]:
    """Write the log of SQL, to nowhere."""
    before, handler = SQL_LOG.level, logging.NullHandler()
    SQL_LOG.addHandler(handler)
    SQL_LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        SQL_LOG.setLevel(before)
        SQL_LOG.removeHandler(handler)


WATCHES: dict[str, Callable[[Database], AbstractContextManager[Any]]] = {
    "the log of SQL": logged,
    "a recorder": recorder.messages,
}


SCENES = (*REQUESTS, *REQUESTS_OF_CLAIMS, *AT_ONCE)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name.replace(" ", "-"))
def test_the_database_receives_the_same_bytes(
    wire: Wire, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "datetime", StoppedClock)
    monkeypatch.setattr("secrets.randbits", lambda _bits: 5)
    monkeypatch.setattr("secrets.randbelow", lambda _most: 5)
    pin(monkeypatch, scene)
    solo = Solo(wire.place, scene)
    turns = wire.place.turns
    # What a process remembers it has read by then.
    wire.received(solo, turns)

    quiet = wire.received(solo, turns)
    # Otherwise the last is a look outside a transaction: for groups that have ended, or at the log.
    last = max(map(quiet.rfind, (b"consumer_groups", b"provider_changes")))
    assert quiet.endswith(ENDS) or last > quiet.rindex(b"COMMIT")
    for name, watch in WATCHES.items():
        with watch(wire.place.players[0].db):
            watched = wire.received(solo, turns)
        assert watched == quiet, f"with {name}"
