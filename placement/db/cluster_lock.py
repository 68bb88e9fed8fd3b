"""A lock that all nodes of a cluster share: a row that certification lets only one node write.

GET_LOCK of MariaDB and MySQL holds on one server only. Changes of tables end every transaction, so the row
names the holder of the lock, and the holder increments a count in the row each second. A thread does this,
because a change of a large table is one long statement; the thread ends with the lock.
"""

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, exc, text

from placement.db import driver_errors
from placement.db.engine import is_in_cluster

TABLE = "schema_lock"

BEAT_S = 1.0
SILENCE_S = 10.0
"""If the holder does not count during two such times, it is presumed dead and the lock free."""

_CREATE = text(
    f"CREATE TABLE IF NOT EXISTS {TABLE} (id INTEGER NOT NULL PRIMARY KEY, holder VARCHAR(32) NOT NULL,"
    " beat BIGINT NOT NULL) ENGINE=InnoDB"
)
_FREE = text(f"INSERT IGNORE INTO {TABLE} VALUES (1, '', 0)")  # noqa: S608
_LOOK = text(f"SELECT holder, beat FROM {TABLE} WHERE id = 1")  # noqa: S608
_STEP = text(
    f"UPDATE {TABLE} SET holder = :new, beat = beat + 1"  # noqa: S608
    " WHERE id = 1 AND holder = :holder AND beat = :beat"
)
_BEAT = text(f"UPDATE {TABLE} SET beat = beat + 1 WHERE id = 1 AND holder = :holder")  # noqa: S608
_RELEASE = text(f"UPDATE {TABLE} SET holder = '' WHERE id = 1 AND holder = :holder")  # noqa: S608


@contextmanager
def held(connection: Connection, wait_s: float) -> Iterator[bool]:
    """Hold the lock of this database in the block, if the server is in a cluster; yield whether it was given.

    A process that was presumed dead and continues finds the work of its successor: each step of a revision
    checks first.
    """
    if not is_in_cluster(connection.connection):
        yield True
        return
    _make(connection, wait_s)
    me = secrets.token_hex(16)
    if not _take(connection, me, wait_s):
        yield False
        return
    done = threading.Event()
    beating = threading.Thread(target=_beat, args=(connection.engine, me, done), daemon=True)
    beating.start()
    try:
        yield True
    finally:
        done.set()
        beating.join()
        if not connection.invalidated:
            _write(connection, _RELEASE, holder=me)


def _make(connection: Connection, wait_s: float) -> None:
    """Make the table and the row if they are missing; another node may be making them too."""
    give_up = time.monotonic() + wait_s
    while True:
        try:
            if connection.execute(_LOOK).first():
                return
            _write(connection, _FREE)
        except exc.DBAPIError as error:
            if driver_errors.lacks_table(error):
                _write(connection, _CREATE)
            elif not driver_errors.is_conflict(error) or time.monotonic() > give_up:
                raise


def _read(connection: Connection) -> tuple[str, int] | None:
    """Return the holder and its beat; None if Galera has ended the statement.

    When another node changes a table, Galera ends all statements that use it, reads too.
    """
    try:
        holder, beat = connection.execute(_LOOK).one()
    except exc.DBAPIError as error:
        if not driver_errors.is_conflict(error):
            raise
        return None
    return holder, beat


def _take(connection: Connection, me: str, wait_s: float) -> bool:
    give_up = time.monotonic() + wait_s
    last, since, has_knocked = ("", 0), time.monotonic(), False
    while time.monotonic() < give_up:
        now = _read(connection)
        if now is None:
            time.sleep(BEAT_S / 4)
            continue
        holder, beat = now
        if now != last:
            last, since, has_knocked = now, time.monotonic(), False
        is_silent = time.monotonic() - since > SILENCE_S
        if not holder or (is_silent and has_knocked):
            if _write(connection, _STEP, holder=holder, beat=beat, new=me):
                return True
        elif is_silent and _write(connection, _STEP, holder=holder, beat=beat, new=holder):
            # Galera lets no client write while a table changes. Now that this node can write, the holder's
            # node can, too.
            last, since, has_knocked = (holder, beat + 1), time.monotonic(), True
        time.sleep(BEAT_S / 4)
    return False


def _beat(engine: Engine, me: str, done: threading.Event) -> None:
    while not done.wait(BEAT_S):
        try:
            with engine.connect() as connection:
                _write(connection, _BEAT, holder=me)
        except exc.SQLAlchemyError:
            # A node that is away for a moment need not lose the lock: the next count succeeds.
            continue


def _write(connection: Connection, statement: object, **parameters: object) -> bool:
    """Return whether the row had the values that the statement expects, on all nodes."""
    try:
        return connection.execute(statement, parameters).rowcount == 1  # type: ignore[call-overload]
    except exc.DBAPIError as error:
        if not driver_errors.is_conflict(error):
            raise
        return False
