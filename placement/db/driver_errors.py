"""What an error of a database means: try again, gone away, takes no writes.

The codes are those of the three engines; SQLAlchemy has wrapped the driver's exception.
"""

import re

from sqlalchemy import exc

from placement import errors

POSTGRESQL_CONFLICTS = frozenset({"40001", "40P01", "55P03", "22012"})
"""serialization_failure, deadlock_detected, lock_not_available; division_by_zero: the way in which a
statement says that a generation is another (:mod:`placement.db.message`)."""

MYSQL_CONFLICTS = frozenset({1205, 1213, 1020, 1412, 3101})
"""Lock wait timeout, deadlock (and Galera certification), row changed since read, table rebuilt since
the transaction began, rolled back."""

SQLITE_CONFLICTS = frozenset({5, 6})
"""SQLITE_BUSY, SQLITE_LOCKED (primary result codes)."""

POSTGRESQL_GONE = frozenset({"57P01", "57P02", "57P03", "08000", "08003", "08006", "25P03"})
"""admin_shutdown, crash_shutdown, cannot_connect_now, connection failures, idle inside a transaction."""

MYSQL_GONE = frozenset({1047, 1053, 1180, 1927, 2002, 2003, 2006, 2013, 4031})
"""Galera node not ready, shutdown, error during COMMIT (the Galera node is losing the others), killed,
cannot connect, gone away, lost, idle too long."""

POSTGRESQL_TOO_LONG = frozenset({"57014"})
MYSQL_TOO_LONG = frozenset({1969, 3024})
"""The server ended a statement at its deadline (PostgreSQL: or somebody cancelled it)."""

POSTGRESQL_READ_ONLY = frozenset({"25006", "53100"})
MYSQL_READ_ONLY = frozenset({1021, 1036, 1290, 1836, 1114})
SQLITE_READ_ONLY = frozenset({8, 13})
"""SQLITE_READONLY, SQLITE_FULL."""

POSTGRESQL_REFUSED = frozenset({"28000", "28P01", "3D000"})
MYSQL_REFUSED = frozenset({1044, 1045, 1049, 1698})
"""No right to this database, wrong credentials, no such database, wrong way to log in."""

POSTGRESQL_NO_RIGHT = frozenset({"42501"})
MYSQL_NO_RIGHT = frozenset({1142, 1143, 1227})
"""No right to the table, to a column, to do this at all."""

SQLITE_REFUSED = frozenset({14, 26})
"""SQLITE_CANTOPEN, SQLITE_NOTADB."""

REFUSED_TEXT = re.compile(
    r"authentication failed|role .* does not exist|database .* does not exist|no pg_hba.conf entry"
)


def _codes(error: BaseException) -> tuple[str | None, int | None, int | None]:
    """Return (PostgreSQL SQLSTATE, MySQL error number, SQLite primary code); at most one is set."""
    origin = error.orig if isinstance(error, exc.DBAPIError) else None
    sqlstate = getattr(origin, "pgcode", None) or getattr(origin, "sqlstate", None)
    extended = getattr(origin, "sqlite_errorcode", None)
    args = getattr(origin, "args", ())
    number = args[0] if args and isinstance(args[0], int) and extended is None else None
    return sqlstate, number, extended & 0xFF if extended is not None else None


def _is(
    error: BaseException, sqlstates: frozenset[str], numbers: frozenset[int], codes: frozenset[int]
) -> bool:
    sqlstate, number, code = _codes(error)
    return sqlstate in sqlstates or number in numbers or code in codes


def is_conflict(error: BaseException) -> bool:
    """The database rolled the transaction back because of another one."""
    return _is(error, POSTGRESQL_CONFLICTS, MYSQL_CONFLICTS, SQLITE_CONFLICTS)


def is_disconnect(error: BaseException) -> bool:
    """The connection is gone, or none could be made."""
    if not isinstance(error, exc.DBAPIError):
        return False
    if error.connection_invalidated or _is(error, POSTGRESQL_GONE, MYSQL_GONE, frozenset()):
        return True
    # psycopg2 gives a failed connect no SQLSTATE and no cursor.
    return isinstance(error, exc.OperationalError) and error.statement is None


def is_refused(error: BaseException) -> bool:
    """The server, or the file system, answered that this connection is not allowed at all.

    psycopg2 gives a failed connect no SQLSTATE, so its text decides; in a language other than
    English the answer is "no".
    """
    text = str(error.orig) if isinstance(error, exc.DBAPIError) else ""
    refused = REFUSED_TEXT.search(text) is not None
    return refused or _is(error, POSTGRESQL_REFUSED, MYSQL_REFUSED, SQLITE_REFUSED)


def lacks_rights(error: BaseException) -> bool:
    """This user of the database may not do what the statement does."""
    return _is(error, POSTGRESQL_NO_RIGHT, MYSQL_NO_RIGHT, frozenset())


def is_read_only(error: BaseException) -> bool:
    """The database takes no writes: read-only, or its disk is full."""
    return _is(error, POSTGRESQL_READ_ONLY, MYSQL_READ_ONLY, SQLITE_READ_ONLY)


def took_too_long(error: BaseException) -> bool:
    """The server ended the statement because of a deadline."""
    return _is(error, POSTGRESQL_TOO_LONG, MYSQL_TOO_LONG, frozenset())


KINDS = ("conflict", "disconnect", "read_only", "pool_timeout", "outcome_unknown", "other")
"""What an error can be for those who watch the service."""


def kind(error: BaseException) -> str:
    """Return which of :data:`KINDS` the error is."""
    if isinstance(error, errors.OutcomeUnknown):
        return "outcome_unknown"
    if isinstance(error, exc.TimeoutError):
        return "pool_timeout"
    if is_conflict(error):
        return "conflict"
    if is_disconnect(error):
        return "disconnect"
    return "read_only" if is_read_only(error) else "other"


def may_repeat(error: BaseException) -> bool:
    """Nothing of the transaction took effect and a fresh attempt may succeed."""
    return is_conflict(error) or is_disconnect(error)
