"""The kinds of database. MariaDB is a kind of MySQL, whatever the URL calls it."""

from sqlalchemy import Connection, Engine

MYSQL = ("mysql", "mariadb")
"""What SQLAlchemy calls it."""


def kind(bind: Connection | Engine) -> str:
    """Return sqlite, postgresql or mysql."""
    name = bind.dialect.name
    return "mysql" if name in MYSQL else name
