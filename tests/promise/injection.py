"""Errors as the three databases really give them, at one statement of a request.

PostgreSQL and MariaDB are made to raise each error themselves, on the connection in question and inside
its transaction, so that driver, codes and the state of the transaction afterwards are real; connections
are ended by the server. SQLite's errors carry the codes that its library sets.
"""

import contextlib
import select
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import event

from placement.db.database import Database
from tests.promise.stage import Stage, driver_id

GOODBYE_S = 10.0

Meaning = Literal["conflict", "gone", "fatal", "refused"]
"""To begin again; the connection is lost; nothing helps; the database takes no writes."""


@dataclass(frozen=True)
class Fault:
    """One error of one database.

    ``code``: SQLSTATE, error number or result code. ``ends``: the database has rolled the whole
    transaction back by itself.
    """

    name: str
    meaning: Meaning
    code: Any = None
    ends: bool = True


FAULTS: dict[str, tuple[Fault, ...]] = {
    "postgresql": (
        Fault("serialization failure", "conflict", "40001"),
        Fault("deadlock", "conflict", "40P01"),
        Fault("lock not available", "conflict", "55P03"),
        Fault("connection lost", "gone"),
        Fault("internal error", "fatal", "XX000"),
        Fault("read-only transaction", "refused", "25006"),
        Fault("disk full", "refused", "53100"),
    ),
    "mysql": (
        Fault("deadlock", "conflict", 1213),
        Fault("lock wait timeout", "conflict", 1205, ends=False),
        Fault("record has changed", "conflict", 1020),
        Fault("connection lost", "gone"),
        Fault("unknown error", "fatal", 1105, ends=False),
        Fault("read-only server", "refused", 1290, ends=False),
        Fault("disk full", "refused", 1021, ends=False),
    ),
    "sqlite": (
        Fault("busy", "conflict", sqlite3.SQLITE_BUSY, ends=False),
        Fault("busy snapshot", "conflict", sqlite3.SQLITE_BUSY_SNAPSHOT, ends=False),
        Fault("locked", "conflict", sqlite3.SQLITE_LOCKED, ends=False),
        Fault("input/output error", "fatal", sqlite3.SQLITE_IOERR),
        Fault("malformed", "fatal", sqlite3.SQLITE_CORRUPT, ends=False),
        Fault("read-only file", "refused", sqlite3.SQLITE_READONLY, ends=False),
        Fault("disk full", "refused", sqlite3.SQLITE_FULL),
    ),
}


@dataclass
class Injection:
    """Where a fault strikes: at the ``place``-th statement, or at all with its text if ``always``.

    ``after``: the statement has taken effect.
    """

    fault: Fault
    place: int
    text: str
    after: bool = False
    always: bool = False
    seen: int = 0
    struck: int = 0

    def strikes(self, statement: str) -> bool:
        """Say whether it is this statement's turn; statements are counted as they come."""
        here = statement == self.text if self.always else self.seen == self.place
        self.seen += 1
        self.struck += here
        return here


@contextlib.contextmanager
def recorded(db: Database) -> Iterator[list[str]]:
    """Yield a list that fills with the statements sent, with those around transactions."""
    statements: list[str] = []

    def record(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    event.listen(db.engine, "before_cursor_execute", record)
    try:
        yield statements
    finally:
        event.remove(db.engine, "before_cursor_execute", record)


@contextlib.contextmanager
def injected(place: Stage, db: Database, injection: Injection) -> Iterator[None]:
    """Let the injection strike among the statements of ``db``."""

    def strike(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if injection.strikes(statement):
            _raise(place, connection, injection.fault)

    name = "after_cursor_execute" if injection.after else "before_cursor_execute"
    event.listen(db.engine, name, strike)
    try:
        yield
    finally:
        event.remove(db.engine, name, strike)


def _raise(place: Stage, connection: Any, fault: Fault) -> None:
    driver = connection.connection.dbapi_connection
    if place.kind == "sqlite":
        _raise_sqlite(driver, fault)
    elif fault.meaning == "gone":
        end(place, driver)
        driver.cursor().execute("SELECT 1")
    elif place.kind == "postgresql":
        driver.cursor().execute(
            f"DO $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '{fault.code}'; END $$"
        )
    else:
        cursor = driver.cursor()
        if fault.ends:
            cursor.execute("ROLLBACK")
        cursor.execute(f"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {fault.code}")


def end(place: Stage, driver: Any) -> None:
    """Let the server end a connection of the driver, and wait until its last words are there."""
    number = driver_id(place.kind, driver)
    postgresql = place.kind == "postgresql"
    statement = f"SELECT pg_terminate_backend({number})" if postgresql else f"KILL {number}"
    place.db.read(lambda c: c.exec_driver_sql(statement))
    if postgresql:
        select.select([driver.fileno()], [], [], GOODBYE_S)


def _raise_sqlite(driver: Any, fault: Fault) -> None:
    if fault.ends and driver.in_transaction:
        driver.execute("ROLLBACK")
    kinds = {"fatal": sqlite3.DatabaseError}
    error = kinds.get(fault.meaning, sqlite3.OperationalError)(f"injected: {fault.name}")
    error.sqlite_errorcode = fault.code
    raise error
