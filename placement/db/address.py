"""The URL of the database: parsed, and shown without its secrets."""

from sqlalchemy import exc, make_url
from sqlalchemy.engine import URL

MASK = "***"

# fmt: off
HARMLESS = frozenset({
    "application_name", "charset", "connect_timeout", "database", "db", "dbname", "host",
    "idle_transaction_timeout", "lock_timeout", "multi_statements", "port", "read_timeout", "service",
    "ssl_ca", "ssl_cert", "ssl_key", "ssl_mode", "sslcert", "sslkey", "sslmode", "sslrootcert",
    "statement_timeout", "target_session_attrs", "unix_socket", "user", "write_timeout",
})
# fmt: on
"""Parameters whose values can be shown. Any other can be a password: of a key, or misspelt."""


class UnusableUrl(exc.ArgumentError):
    """The URL cannot be used; the message does not repeat anything that may be secret."""


def parse(text: str) -> URL:
    """Return the URL.

    :raises UnusableUrl: the URL cannot be parsed, or a password with an ``@`` would become a part of the
        host.
    """
    try:
        url = make_url(text)
    except (exc.ArgumentError, ValueError):
        if not text.strip():
            raise UnusableUrl("it is empty") from None
        url = None
    # On PostgreSQL, a host that begins with an @ is the path of a socket.
    if url is None or "@" in (url.host or "")[1:]:
        raise UnusableUrl(
            "it cannot be parsed; in a password, @ is written as %40, and the port is a number"
        )
    return url


def hosts(url: URL) -> list[tuple[str, str]]:
    """Return the hosts that the parameters ``host`` name, each with its port, which may be empty."""
    named = url.query.get("host", ())
    found = []
    for text in named.split(",") if isinstance(named, str) else named:
        name, _, port = text.rpartition(":") if ":" in text else (text, "", "")
        found.append((name, port))
    return found


def show(url: URL) -> str:
    """Return the URL with its password masked, and every parameter that can be a password."""
    masked = {name: MASK for name in url.query if name not in HARMLESS}
    text = url.update_query_dict(masked).render_as_string(hide_password=True)
    # SQLAlchemy would percent-encode an asterisk.
    return text.replace("=%2A%2A%2A", f"={MASK}")
