"""Errors as the three databases really give them, before, in or after one message of a request.

PostgreSQL, MariaDB and MySQL are made to raise each error themselves, on the connection in question
and inside its transaction, so that driver, codes and the state of the transaction afterwards are real;
connections are ended by the server. In the middle of a message stands a statement that raises the error,
after a ROLLBACK if the database does that. SQLite's errors carry the codes that its library sets.
"""

import contextlib
import select
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from placement.db import transport
from placement.db.database import Database
from placement.db.dialects import BEGIN_WRITE
from placement.db.transport import Message
from tests.proofs.promise.stage import Stage, driver_id
from tests.support.databases import is_mariadb
from tests.support.processes import PATIENCE
from tests.support.recorder import Execute, Hook, observed, replaced_driver

GOODBYE_S = 10.0 * PATIENCE
SERVER_SHUTDOWN = 1053

BEGIN = {text for texts in BEGIN_WRITE.values() for text in texts}

Meaning = Literal["conflict", "gone", "fatal", "refused", "replica"]
"""To begin again; the connection is lost; nothing helps; the database takes no writes; this server takes
none, and another may."""


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
        Fault("read-only server", "replica", 1290, ends=False),
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


Texts = tuple[str, ...]
"""A message as the text of its statements, without their parameters."""


@dataclass
class Injection:
    """Where a fault strikes: in the message with this number, or in each with these texts if ``always``.

    ``at``: before which of its statements, those before which have taken effect; the number of statements:
    after the last. ``began_again``: a transaction that writes has begun after the last strike, without this
    message.
    """

    fault: Fault
    number: int
    texts: Texts
    at: int = 0
    always: bool = False
    seen: int = 0
    struck: int = 0
    began_again: bool = False

    @property
    def is_after(self) -> bool:
        """The whole message has taken effect."""
        return self.at == len(self.texts)

    def strikes(self, texts: Texts) -> bool:
        """Count a message as it comes; say whether it is the one."""
        here = texts == self.texts if self.always else self.seen == self.number
        self.seen += 1
        self.struck += here
        self.began_again = not here and (self.began_again or not BEGIN.isdisjoint(texts))
        return here


def texts_of(sent: Message) -> Texts:
    """Return the texts of the statements of a message."""
    return tuple(each.text for each in sent.statements)


@contextlib.contextmanager
def recorded(db: Database) -> Iterator[list[Texts]]:
    """Yield a list that fills with the messages sent, with the statements around transactions."""
    sent: list[Texts] = []
    with observed(db, Hook(lambda _connection, message: sent.append(texts_of(message)))):
        yield sent


@contextlib.contextmanager
def injected(place: Stage, db: Database, injection: Injection) -> Iterator[None]:
    """Let the injection strike among the messages of ``db``."""
    # Several threads may send.
    announced = threading.local()

    def announce(_connection: Any, sent: Message) -> None:
        announced.message = sent

    def run(execute: Execute, cursor: Any, text: str | bytes, parameters: Any) -> None:
        sent = announced.message
        if not injection.strikes(texts_of(sent)):
            execute(cursor, text, parameters)
        elif injection.at == 0:
            _fail_before(place, injection.fault, cursor)
            # Only a connection that is lost leaves the error to the message.
            execute(cursor, text, parameters)
        elif injection.is_after:
            execute(cursor, text, parameters)
            transport.read_counts(db.engine.dialect.driver, cursor, sent.statements)
            connection = cursor.connection
            _fail_before(place, injection.fault, connection.cursor())
            connection.cursor().execute("SELECT 1")
        else:
            statements = list(sent.statements)
            failing = _failing(place.kind, injection.fault, cursor.connection)
            statements[injection.at : injection.at] = map(transport.QueuedStatement, failing)
            execute(cursor, *transport.make_message(db.engine.dialect.driver, cursor, statements))

    with (
        observed(db, Hook(announce)),
        replaced_driver(db, run),
    ):
        yield


def _fail_before(place: Stage, fault: Fault, cursor: Any) -> None:
    """Raise the fault, or lose the connection, before the next statement of a connection."""
    if place.kind == "sqlite":
        _raise_sqlite(cursor.connection, fault)
    elif fault.meaning == "gone":
        _end(place, cursor.connection)
    else:
        for statement in _failing(place.kind, fault, cursor.connection):
            cursor.execute(statement)


def _failing(kind: str, fault: Fault, driver: Any) -> list[str]:
    """Return statements of which the last fails like this on this connection of the driver."""
    if kind == "postgresql":
        if fault.meaning == "gone":
            return ["SELECT pg_terminate_backend(pg_backend_pid())"]
        return [f"DO $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '{fault.code}'; END $$"]
    if fault.meaning == "gone" and is_mariadb():
        return [f"KILL {driver_id(kind, driver)}"]
    # MySQL says so to whom another connection kills, and something else to whom kills itself.
    code = fault.code or SERVER_SHUTDOWN
    signal = f"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {code}"
    return ["ROLLBACK", signal] if fault.ends else [signal]


def _end(place: Stage, driver: Any) -> None:
    """Let the server end a connection of the driver, and wait until its last words are there."""
    number = driver_id(place.kind, driver)
    postgresql = place.kind == "postgresql"
    statement = f"SELECT pg_terminate_backend({number})" if postgresql else f"KILL {number}"
    place.db.read(lambda c: c.connection.exec_driver_sql(statement))
    if postgresql:
        select.select([driver.fileno()], [], [], GOODBYE_S)


def _raise_sqlite(driver: Any, fault: Fault) -> None:
    if fault.ends and driver.in_transaction:
        driver.execute("ROLLBACK")
    kinds = {"fatal": sqlite3.DatabaseError}
    error = kinds.get(fault.meaning, sqlite3.OperationalError)(f"injected: {fault.name}")
    error.sqlite_errorcode = fault.code
    raise error
