"""Several MariaDB servers behind one URL: the nodes of a Galera cluster.

``mysql+pymysql://placement:secret@/placement?host=db1&host=db2:3307&host=db3`` names them as
SQLAlchemy's PostgreSQL URLs do (libpq does the rest there). A new connection goes to the first that
takes work; the order is the order of preference.
"""

from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.engine import URL

from placement.db import driver_errors

PORT = 3306
CONNECT_TIMEOUT_S = 3
"""How long a dead host may hold up the way to the next; ``connect_timeout`` in the URL wins."""

NODE_NOT_READY = 1047

Host = tuple[str, int]


def split(url: URL) -> tuple[URL, list[Host]]:
    """Return the URL without its ``host`` parameters, and what they name; none if it has none.

    :raises ValueError: a port is no number.
    """
    named = url.query.get("host", ())
    hosts = [_host(each) for each in ((named,) if isinstance(named, str) else named)]
    return url.difference_update_query(["host"]), hosts


def _host(text: str) -> Host:
    name, _, port = text.rpartition(":") if ":" in text else (text, "", "")
    return name, int(port) if port else PORT


def connect_to_first(engine: Engine, hosts: list[Host]) -> None:
    """Let each new connection of ``engine`` go to the first host that takes work."""

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Any, _record: Any, arguments: Any, parameters: dict[str, Any]) -> Any:
        failed = dialect.loaded_dbapi.OperationalError
        refusal: Exception = failed(NODE_NOT_READY, "none of the nodes takes work")
        for host, port in hosts:
            place = {"connect_timeout": CONNECT_TIMEOUT_S, **parameters, "host": host, "port": port}
            try:
                connection = dialect.connect(*arguments, **place)
            except failed as error:
                refusal = error
                continue
            if _takes_work(connection):
                return connection
            connection.close()
        raise refusal


def _takes_work(connection: Any) -> bool:
    """A node that lost the others still takes connections, and refuses every statement."""
    cursor = connection.cursor()
    cursor.execute("SHOW STATUS LIKE 'wsrep_ready'")
    row = cursor.fetchone()
    cursor.close()
    return row is None or row[1] == "ON"


def leave_what_is_gone(engine: Engine) -> None:
    """Drop the pooled connections to a server that says that it takes no work.

    The driver sees a working connection there, and would use it again for the next attempt.
    """

    @event.listens_for(engine, "handle_error")
    def judge(context: Any) -> None:
        error = context.sqlalchemy_exception
        if error is not None and driver_errors.is_disconnect(error):
            context.is_disconnect = True
