"""The meaning of a database's error, such as a conflict, a lost connection, or a missing right.

The codes are those of the three engines; SQLAlchemy has wrapped the driver's exception.
"""

import re
from typing import NamedTuple

from sqlalchemy import exc

from placement import errors


class ErrorCodes(NamedTuple):
    """The codes of one kind of error: a predicate on errors.

    SQLSTATEs of PostgreSQL, error numbers of MySQL, primary result codes of SQLite.
    """

    postgresql: frozenset[str]
    mysql: frozenset[int]
    sqlite: frozenset[int] = frozenset()

    def __call__(self, error: BaseException) -> bool:
        """Return whether the driver's error has one of the codes."""
        sqlstate, number, code = _codes(error)
        return sqlstate in self.postgresql or number in self.mysql or code in self.sqlite


is_conflict = ErrorCodes(
    # serialization_failure, deadlock_detected, lock_not_available; division_by_zero is how a statement
    # reports that a generation has moved (placement.db.transport).
    frozenset({"40001", "40P01", "55P03", "22012"}),
    # Lock wait timeout, deadlock (and Galera certification), row changed since read, table rebuilt since
    # the transaction began, rolled back.
    frozenset({1205, 1213, 1020, 1412, 3101}),
    # SQLITE_BUSY, SQLITE_LOCKED.
    frozenset({5, 6}),
)
"""The database rolled the transaction back because of another one."""

took_too_long = ErrorCodes(frozenset({"57014"}), frozenset({1969, 3024}))
"""The server ended a statement at its deadline (PostgreSQL: or an operator cancelled it)."""

is_read_only = ErrorCodes(
    frozenset({"25006", "53100"}),
    frozenset({1021, 1036, 1290, 1836, 1114, 3098}),
    # SQLITE_READONLY, SQLITE_FULL.
    frozenset({8, 13}),
)
"""The database does not accept writes: read-only, disk full, or its group of servers refuses our tables."""

is_of_replica = ErrorCodes(frozenset(), frozenset({1290, 1836}))
"""The server does not accept writes, but another one may: after a failover this one is a replica."""

lacks_rights = ErrorCodes(frozenset({"42501"}), frozenset({1142, 1143, 1227}))
"""The database user lacks the right to run the statement, on this table or at all."""

lacks_database = ErrorCodes(frozenset(), frozenset({1044}))
"""The user of MySQL lacks rights on this database, which may not exist."""

lacks_table = ErrorCodes(frozenset({"42P01"}), frozenset({1146}))
"""The table does not exist."""

is_unstorable = ErrorCodes(
    # untranslatable_character; string_data_right_truncation, where SQL_ASCII counts bytes.
    frozenset({"22P05", "22001"}),
    # Illegal mix of collations (a look-up by such a name; MySQL: cannot convert), incorrect string value,
    # impossible conversion.
    frozenset({1267, 1270, 1271, 1366, 3854, 3988}),
)
"""A value has characters that the database cannot hold, or is not of the type of its column."""

is_out_of_range = ErrorCodes(
    # numeric_value_out_of_range, sequence_generator_limit_exceeded.
    frozenset({"22003", "2200H"}),
    # Out of range for a column, and for an expression; no number for the next row.
    frozenset({1264, 1690, 1467}),
)
"""A number exceeds the bound of its column. SQLite does not report this, and makes it a float instead."""

_is_gone = ErrorCodes(
    # admin_shutdown, crash_shutdown, cannot_connect_now, connection failures, idle inside a transaction.
    frozenset({"57P01", "57P02", "57P03", "08000", "08003", "08006", "25P03"}),
    # Galera node not ready, shutdown, error during COMMIT (the Galera node is losing the others), killed,
    # cannot connect, gone away, lost, offline mode, error in a hook (the member is losing its group), idle
    # too long, all blocked (while an operator switches the primary).
    frozenset({1047, 1053, 1180, 1927, 2002, 2003, 2006, 2013, 3032, 3100, 4031, 4094}),
)

_is_taken = ErrorCodes(frozenset({"23505"}), frozenset())


def find_table_of_taken_id(error: BaseException) -> str | None:
    """Return the PostgreSQL table whose sequence gave a taken id; None for any other error."""
    diagnosis = getattr(error.orig, "diag", None) if isinstance(error, exc.DBAPIError) else None
    if diagnosis is None or not _is_taken(error):
        return None
    # A key with several columns does not count, since no sequence gives its values.
    is_of_id = "(id)=" in (diagnosis.message_detail or "")
    table: str | None = diagnosis.table_name
    return table if is_of_id and diagnosis.constraint_name == f"{table}_pkey" else None


_ERROR_DURING_COMMIT, _ROLLED_BACK = 1180, 3101
_LOST_CERTIFICATION = re.compile(r"\b149\b")
"""The engine's number for a deadlock in the text of error 1180. The words are in the server's language."""


def _codes(error: BaseException) -> tuple[str | None, int | None, int | None]:
    """Return (PostgreSQL SQLSTATE, MySQL error number, SQLite primary code); at most one is set."""
    origin = error.orig if isinstance(error, exc.DBAPIError) else None
    # The attribute pgcode is psycopg2's.
    sqlstate = getattr(origin, "pgcode", None) or getattr(origin, "sqlstate", None)
    extended = getattr(origin, "sqlite_errorcode", None)
    args = getattr(origin, "args", ())
    # PyMySQL and mysqlclient raise (number, text).
    number = args[0] if args and isinstance(args[0], int) and extended is None else None
    if number == _ERROR_DURING_COMMIT and _LOST_CERTIFICATION.search(str(args[1:])):
        number = _ROLLED_BACK
    # The low byte of an extended code is the primary one (sqlite.org/rescode.html), so SQLITE_BUSY_SNAPSHOT
    # is SQLITE_BUSY too.
    return sqlstate, number, extended & 0xFF if extended is not None else None


def cause(error: BaseException) -> BaseException:
    """Return the driver's error that made the database unavailable, or the error itself."""
    return (error.__cause__ or error) if isinstance(error, errors.Unavailable) else error


def is_disconnect(error: BaseException) -> bool:
    """Return whether the connection is lost or could not be made."""
    if not isinstance(error, exc.DBAPIError):
        return False
    # SQLAlchemy recognises most by their texts, but not a node that answers and refuses work.
    if _is_gone(error) or (error.connection_invalidated and not is_of_replica(error)):
        return True
    # psycopg2 gives a failed connect neither SQLSTATE nor cursor.
    return isinstance(error, exc.OperationalError) and error.statement is None


def is_lost(error: BaseException) -> bool:
    """Return whether an existing connection is lost."""
    return is_disconnect(error) and isinstance(error, exc.DBAPIError) and error.statement is not None


def origin(error: BaseException) -> BaseException:
    """Return the driver's own error, whose text contains neither statement nor parameters."""
    error = cause(error)
    return (error.orig or error) if isinstance(error, exc.DBAPIError) else error


def classify(error: BaseException) -> str:
    """Return the kind of the error, an entry of :data:`placement.telemetry.DATABASE_ERRORS`."""
    if isinstance(error, errors.OutcomeUnknown):
        return "outcome_unknown"
    if isinstance(error, exc.TimeoutError):
        return "pool_timeout"
    # The order is that of the repeats: an error that is repeated as a conflict counts as a conflict.
    if is_conflict(error):
        return "conflict"
    if is_disconnect(error):
        return "disconnect"
    return "read_only" if is_read_only(error) else "other"


def may_repeat(error: BaseException) -> bool:
    """Return whether nothing of the transaction took effect and a fresh attempt may succeed."""
    return is_conflict(error) or is_disconnect(error)
