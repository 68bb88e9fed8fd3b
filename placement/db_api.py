"""The process's database, made from the configuration."""

import logging
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from oslo_config import cfg
from sqlalchemy import exc
from sqlalchemy.engine import URL

from placement import errors, installed
from placement.db import address, character_sets, deadlines, driver_errors, refusals
from placement.db.database import Database
from placement.db.engine import make_engine

LOG = logging.getLogger(__name__)

T = TypeVar("T")

_lock = threading.Lock()
_database: Database | None = None


def configure(conf: cfg.ConfigOpts) -> None:
    """Make the process's database from ``conf`` without connecting to it.

    A second call changes nothing and logs a warning.

    :raises sqlalchemy.exc.ArgumentError: the URL cannot be parsed.
    """
    global _database
    with _lock:
        if _database is not None:
            LOG.warning("TransactionFactory already started, not reconfiguring.")
            return
        _database = open_database(conf)


def watch_writes(conf: cfg.ConfigOpts, database: Database) -> None:
    """Install the watchers of writes that ``conf`` asks for."""
    modules = installed.find_modules("watchers").values()
    database.watchers = tuple(each for module in modules for each in module.list_watchers(conf))


def is_configured() -> bool:
    """Return whether the process has its database."""
    return _database is not None


def database(conf: cfg.ConfigOpts | None = None) -> Database:
    """Return the process's database, configured from ``conf`` if it is not yet.

    :raises RuntimeError: it is not configured and ``conf`` is not given.
    """
    global _database
    with _lock:
        if _database is None:
            if conf is None:
                raise RuntimeError("call placement.db_api.configure(conf) first")
            _database = open_database(conf)
        return _database


def reset() -> None:
    """Close the process's database and forget it, so that another can be configured."""
    global _database
    with _lock:
        close_connections()
        _database = None


def close_connections() -> None:
    """Close the open connections of the process's database; later statements open new ones.

    A command calls this at its end: the server logs a connection that is not closed as aborted.
    """
    if _database is not None:
        _database.dispose()


def open_database(conf: cfg.ConfigOpts, *, patient: bool = False) -> Database:
    """Return a new database made from ``conf``, independent of the process's one.

    No connection is made. Options of a request (``allocation_conflict_retry_count``) are read from
    ``conf`` when they are needed.

    :param patient: statements have no time limit, as commands need it.
    :raises sqlalchemy.exc.ArgumentError: the URL cannot be parsed.
    """
    options = conf.placement_database
    given = {
        "pool_size": options.max_pool_size,
        "max_overflow": options.max_overflow,
        "pool_timeout": options.pool_timeout,
        "pool_recycle": options.connection_recycle_time,
    }
    # An unset option keeps the library's default.
    pool = {name: value for name, value in given.items() if value is not None}
    engine = make_engine(
        _with_parameters(options.connection, options.connection_parameters),
        sqlite_synchronous=options.sqlite_synchronous,
        mysql_sql_mode=options.mysql_sql_mode,
        pool=pool,
        patient=patient,
    )
    level = options.connection_debug
    shown = logging.DEBUG if level >= 100 else logging.INFO if level >= 50 else logging.WARNING
    logging.getLogger("sqlalchemy.engine").setLevel(shown)
    opened = Database(
        engine,
        attempts=lambda: conf.placement.allocation_conflict_retry_count,
        deadline_s=options.attempts_deadline,
    )
    if options.connection_trace:
        opened.watch.comment = _innermost_functions
    return opened


def when_reachable(conf: cfg.ConfigOpts, target: Database, work: Callable[[], T]) -> T:
    """Connect, and return ``work()``; repeat both within ``max_retries`` and ``retry_interval``.

    All attempts together take no longer than the retries with their intervals and one more attempt. A
    connection that ``work`` loses costs one retry, and restarts the time. An error that another attempt
    cannot fix (wrong credentials, missing database, a file without write permission) is raised at once.

    :param work: can run several times.
    :raises sqlalchemy.exc.DBAPIError: no connection could be made, or the last one was lost.
    :raises errors.Unavailable: the last connection was lost.
    """
    options = conf.placement_database
    interval_s, longest_s = options.retry_interval, _longest_attempt_s(options)
    left = options.max_retries if options.max_retries >= 0 else float("inf")
    end = time.monotonic() + left * interval_s + longest_s
    while True:
        try:
            deadlines.connect(target.engine, min(longest_s, end - time.monotonic()))
            try:
                return work()
            finally:
                end = time.monotonic() + left * interval_s + longest_s
        except (exc.DBAPIError, errors.Unavailable) as error:
            if left < 1 or time.monotonic() + interval_s >= end or not may_become_reachable(error):
                raise
            _report(error, left, interval_s, end)
        left -= 1
        time.sleep(interval_s)


def _report(error: Exception, left: float, interval_s: int, end: float) -> None:
    """Log a failed attempt, and how many more can follow until ``end``."""
    endless = left == float("inf")
    cause = driver_errors.cause(error)
    LOG.warning(
        "The database cannot be reached. %s attempts left, %s s apart%s. (%s)",
        "any number of" if endless else int(left),
        interval_s,
        "" if endless else f", for {end - time.monotonic():.0f} s more at the most",
        " ".join(str(getattr(cause, "orig", None) or cause).split()),
    )


def connect_once(conf: cfg.ConfigOpts, target: Database) -> None:
    """Try to connect once, in bounded time.

    :raises sqlalchemy.exc.DBAPIError: no connection could be made.
    """
    deadlines.connect(target.engine, _longest_attempt_s(conf.placement_database))


def character_set_notes(conf: cfg.ConfigOpts, target: Database) -> list[str]:
    """Return a sentence on names that a reachable database cannot hold, and one for each unused parameter."""
    return [
        *character_sets.find_unused(_url(conf.placement_database)),
        *character_sets.find_narrow(target.engine),
    ]


def _url(options: Any) -> URL:
    return address.parse(_with_parameters(options.connection, options.connection_parameters))


def _longest_attempt_s(options: Any) -> float:
    return deadlines.longest_attempt_s(_url(options))


def may_become_reachable(error: BaseException) -> bool:
    """Return whether another attempt to connect may succeed."""
    return refusals.passes(driver_errors.cause(error))


def _with_parameters(connection: str, parameters: str) -> str:
    if not parameters:
        return connection
    joint = "&" if address.parse(connection).query else "?"
    return connection + joint + parameters


def _innermost_functions() -> str:
    """Return the innermost functions of the service that sent a statement."""
    own = [
        frame
        for frame in traceback.extract_stack(limit=40)
        if "/placement/" in frame.filename and not frame.filename.endswith(_BELOW)
    ]
    # Drivers that format parameters into the text would fail on a percent sign.
    return ", ".join(f"{frame.name}:{frame.lineno}" for frame in own[-3:]).replace("%", "")


_BELOW = ("/placement/db_api.py", "/placement/db/database.py", "/placement/db/transport.py")
"""Files through which every statement goes."""
