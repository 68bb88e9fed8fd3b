"""How long the service waits for its database: for a connection, a lock, a statement, a packet.

A server that refuses says so at once. One that is frozen, or behind a cable that was pulled, says
nothing, and a driver left to itself waits for ever. The server is asked to give up first, because it
then says why; the driver after it, because the server may be what is frozen.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.engine import URL

from placement.db import dialects, failover
from placement.db.watchdog import watch

CONNECT_S = 10
"""One server; of several each has :data:`placement.db.failover.CONNECT_TIMEOUT_S`."""

LOCK_S = 10
STATEMENT_S = 30
READ_S = 35
"""More than ``STATEMENT_S``: a server that lives answers first."""

IDLE_TRANSACTION_S = 15
"""After this the server ends a transaction whose worker is frozen or cut off, with the locks it holds.

Such a worker may have waited for a lock itself, for ``LOCK_S``. Both together are less than the 30 s of
``attempts_deadline``: whoever waits for its locks gets them in time.
"""

KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


@dataclass(frozen=True)
class Deadlines:
    """Seconds; 0 waits for ever.

    ``read`` and ``write``: for the next packet, counted by the driver (PostgreSQL: ``read`` for the
    whole statement). The others are counted by the server.
    """

    connect: int
    read: int
    write: int
    statement: int
    lock: int
    idle_transaction: int


NONE = Deadlines(CONNECT_S, 0, 0, 0, 0, 0)
"""For commands that change the schema or look at everything: only a connection is waited for in vain."""


def take(url: URL, *, patient: bool = False) -> tuple[URL, Deadlines]:
    """Return the URL without what only we understand, and the deadlines that it names.

    :param patient: the defaults are :data:`NONE`.
    :raises ValueError: a deadline is no whole number.
    """
    several = len(hosts(url)) > 1
    connect = failover.CONNECT_TIMEOUT_S if several else CONNECT_S
    usual = Deadlines(connect, READ_S, READ_S, STATEMENT_S, LOCK_S, IDLE_TRANSACTION_S)
    usual = NONE if patient else usual
    found = Deadlines(
        **{name: _seconds(url, name, getattr(usual, name)) for name in Deadlines.__annotations__}
    )
    ours = ["statement_timeout", "lock_timeout", "idle_transaction_timeout"]
    if url.get_backend_name() == "postgresql":
        ours += ["read_timeout", "write_timeout"]
    return url.difference_update_query(ours), found


def hosts(url: URL) -> tuple[str, ...]:
    """Return the hosts that the parameter ``host`` names, with their ports; none without it."""
    named = url.query.get("host", ())
    return tuple(named.split(",")) if isinstance(named, str) else named


def _seconds(url: URL, name: str, usual: int) -> int:
    text = url.query.get(f"{name}_timeout")
    if text is None:
        return usual
    try:
        return int(str(text))
    except ValueError:
        raise ValueError(f"{name}_timeout is no whole number of seconds: {text}") from None


def arguments(url: URL, deadlines: Deadlines) -> dict[str, Any]:
    """Return what the driver is told of them; what the URL says in the driver's own words stands."""
    if url.get_backend_name() == "postgresql":
        given = {
            "connect_timeout": deadlines.connect,
            "tcp_user_timeout": deadlines.write * 1000,
            **KEEPALIVE,
        }
    else:
        given = {
            f"{name}_timeout": getattr(deadlines, name) for name in ("connect", "read", "write")
        }
    return {name: value for name, value in given.items() if value and name not in url.query}


def set_up(engine: Engine, deadlines: Deadlines) -> None:
    """Tell the server of each new connection, and watch those drivers that cannot give up."""
    if engine.dialect.name in dialects.MYSQL:
        statement = _mysql(deadlines)
    else:
        statement = _postgresql(deadlines)
        if deadlines.read:
            watch(engine, deadlines.read)
    if not statement:
        return

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(statement)
        cursor.close()


def _postgresql(deadlines: Deadlines) -> str:
    """Set what nobody has set for this server, database, user or connection."""
    wanted = {
        "statement_timeout": deadlines.statement,
        "lock_timeout": deadlines.lock,
        "idle_in_transaction_session_timeout": deadlines.idle_transaction,
    }
    calls = [
        f"CASE current_setting('{name}') WHEN '0' THEN set_config('{name}', '{value}s', false) END"
        for name, value in wanted.items()
        if value
    ]
    return f"SELECT {', '.join(calls)}" if calls else ""


def _mysql(deadlines: Deadlines) -> str:
    """What only MariaDB has stands in comments to MySQL, where ``read`` alone ends a statement."""
    settings = ["autocommit = 1"]
    if deadlines.lock:
        names = ("innodb_lock_wait_timeout", "lock_wait_timeout")
        settings += [f"{name} = {deadlines.lock}" for name in names]
    only_mariadb = {
        "max_statement_time": deadlines.statement,
        "idle_transaction_timeout": deadlines.idle_transaction,
    }
    unset = [
        f"/*M! , {name} = IF(@@{name} = 0, {value}, @@{name}) */"
        for name, value in only_mariadb.items()
        if value
    ]
    return f"SET SESSION {', '.join(settings)} {' '.join(unset)}"
