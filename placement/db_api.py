"""The database of this process, made from the configuration."""

import logging
import threading
import time
import traceback
from typing import Any

import tenacity
from oslo_config import cfg
from sqlalchemy import Engine, event, exc, make_url

from placement.db import driver_errors, first_connection
from placement.db.database import Database
from placement.db.engine import make_engine

LOG = logging.getLogger(__name__)

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


def is_configured() -> bool:
    """The process has its database."""
    return _database is not None


def database(conf: cfg.ConfigOpts | None = None) -> Database:
    """Return the process's database, configured from ``conf`` if nobody did it before.

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
        if _database is not None:
            _database.dispose()
        _database = None


def close_connections() -> None:
    """Close what the process's database keeps open; it opens others when it is asked again.

    For commands in their end: a server notes a connection that is gone without a word as aborted.
    """
    if _database is not None:
        _database.dispose()


def open_database(conf: cfg.ConfigOpts, *, patient: bool = False) -> Database:
    """Return a new database made from ``conf``, independent of the process's one.

    No connection is made. Options of a request (``allocation_conflict_retry_count``) are read from
    ``conf`` when they are needed.

    :param patient: for commands, whose statements may take as long as they take.
    :raises sqlalchemy.exc.ArgumentError: the URL cannot be parsed.
    """
    options = conf.placement_database
    try:
        engine = make_engine(
            _with_parameters(options.connection, options.connection_parameters),
            sqlite_synchronous=options.sqlite_synchronous,
            mysql_sql_mode=options.mysql_sql_mode,
            pool=_pool(options),
            patient=patient,
        )
    except ValueError as error:
        # A port, or a deadline, that is no number.
        raise exc.ArgumentError(str(error)) from error
    _set_verbosity(options.connection_debug)
    if options.connection_trace:
        _trace(engine)
    return Database(
        engine,
        attempts=lambda: conf.placement.allocation_conflict_retry_count,
        deadline_s=options.attempts_deadline,
    )


def wait_until_reachable(conf: cfg.ConfigOpts, target: Database) -> None:
    """Connect once; try again as ``max_retries`` and ``retry_interval`` say.

    All attempts together take no longer than the retries with their intervals and one attempt more.

    What another attempt cannot mend (wrong credentials, no such database, a file that may not be
    written) is raised at once.

    :raises sqlalchemy.exc.DBAPIError: no connection could be made.
    """
    options = conf.placement_database
    retries = options.max_retries
    longest_s = _longest_attempt_s(options)
    whole_s = float("inf") if retries < 0 else retries * options.retry_interval + longest_s
    end = time.monotonic() + whole_s

    def attempt() -> None:
        first_connection.connect(target.engine, min(longest_s, end - time.monotonic()))

    def is_over(state: tenacity.RetryCallState) -> bool:
        if retries < 0:
            return False
        next_one = time.monotonic() + options.retry_interval
        return state.attempt_number > retries or next_one >= end

    def report(state: tenacity.RetryCallState) -> None:
        left = "any number of" if retries < 0 else retries - state.attempt_number + 1
        error = state.outcome.exception() if state.outcome else None
        reason = " ".join(str(getattr(error, "orig", error)).split())
        LOG.warning(
            "The database cannot be reached. %s attempts left, %s s apart%s. (%s)",
            left,
            options.retry_interval,
            "" if retries < 0 else f", for {end - time.monotonic():.0f} s more at the most",
            reason,
        )

    tenacity.Retrying(
        retry=tenacity.retry_if_exception(may_become_reachable),
        stop=is_over,
        wait=tenacity.wait_fixed(options.retry_interval),
        before_sleep=report,
        reraise=True,
    )(attempt)


def connect_once(conf: cfg.ConfigOpts, target: Database) -> None:
    """Connect without another try, in bounded time.

    :raises sqlalchemy.exc.DBAPIError: no connection could be made.
    """
    first_connection.connect(target.engine, _longest_attempt_s(conf.placement_database))


def _longest_attempt_s(options: Any) -> float:
    url = make_url(_with_parameters(options.connection, options.connection_parameters))
    return first_connection.longest_attempt_s(url)


def may_become_reachable(error: BaseException) -> bool:
    """Another attempt to connect may succeed."""
    return (
        isinstance(error, exc.DBAPIError)
        and driver_errors.is_disconnect(error)
        and not driver_errors.is_refused(error)
        and not driver_errors.is_read_only(error)
    )


def _with_parameters(connection: str, parameters: str) -> str:
    if not parameters:
        return connection
    joint = "&" if make_url(connection).query else "?"
    return connection + joint + parameters


def _pool(options: Any) -> dict[str, Any]:
    """Keyword arguments of ``create_engine``; what is not set keeps the library's default."""
    given = {
        "pool_size": options.max_pool_size,
        "max_overflow": options.max_overflow,
        "pool_timeout": options.pool_timeout,
        "pool_recycle": options.connection_recycle_time,
    }
    return {name: value for name, value in given.items() if value is not None}


def _set_verbosity(level: int) -> None:
    logger = logging.getLogger("sqlalchemy.engine")
    if level >= 100:
        logger.setLevel(logging.DEBUG)
    elif level >= 50:
        logger.setLevel(logging.INFO)
    else:
        logger.setLevel(logging.WARNING)


def _trace(engine: Engine) -> None:
    """Append the innermost function of the service to each statement as a comment."""

    @event.listens_for(engine, "before_cursor_execute", retval=True)
    def add_stack(
        _connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any
    ) -> tuple[str, Any]:
        own = [
            frame
            for frame in traceback.extract_stack(limit=40)
            if "/placement/" in frame.filename and not frame.filename.startswith(__file__)
        ]
        # Drivers that format parameters into the text would trip over a percent sign.
        places = ", ".join(f"{frame.name}:{frame.lineno}" for frame in own[-3:]).replace("%", "")
        return f"{statement} -- {places}", parameters
