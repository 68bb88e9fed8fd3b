"""The three kinds of access are what they say; writes, whatever the server's default isolation is.

A statement that waited for a lock must see what its holder committed (docs/maintainers/writes.rst).
"""

from collections.abc import Iterator

import pytest
from sqlalchemy import literal, select

from placement.db.database import Database, Reader, StaleRead, Transaction
from placement.db.engine import make_engine
from tests.support.databases import is_mariadb, scratch_database

LEVELS = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
DEFAULT = {
    "mysql": "init_command=SET SESSION TRANSACTION ISOLATION LEVEL {}",
    "postgresql": "options=-c default_transaction_isolation='{}'",
}
SHOW = {
    "mariadb": "SELECT @@SESSION.tx_isolation",
    "mysql": "SELECT @@SESSION.transaction_isolation",
    "postgresql": "SHOW transaction_isolation",
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", DEFAULT)
def test_writes_are_read_committed(kind: str, level: str) -> None:
    words = level if kind == "mysql" else level.lower().replace(" ", r"\ ")
    parameter = DEFAULT[kind].format(words).replace("'", "")
    with scratch_database(kind) as url:
        database = Database(make_engine(f"{url}?{parameter}"))
        show = SHOW["mariadb" if kind == "mysql" and is_mariadb() else kind]
        shown = database.write(lambda tx: tx.connection.exec_driver_sql(show).scalar_one())
        by_default = database.read(lambda c: c.connection.exec_driver_sql(show).scalar_one())
        database.dispose()

    assert shown.upper().replace("-", " ") == "READ COMMITTED"
    # The default was there to be overruled; on MariaDB it is overruled for the whole session.
    wanted = level if kind == "postgresql" else "READ COMMITTED"
    assert by_default.upper().replace("-", " ") == wanted


@pytest.fixture
def database() -> Iterator[Database]:
    made = Database(make_engine("sqlite://"))
    yield made
    made.dispose()


def test_a_read_is_one_statement(database: Database) -> None:
    """Two statements outside a transaction could see two states: the second is refused."""
    one = select(literal(1))

    def twice(reader: Reader) -> object:
        reader.rows(one)
        return reader.value(one)

    assert database.read(lambda reader: reader.value(one)) == 1
    assert database.read(lambda reader: reader.column(one)) == [1]
    with pytest.raises(RuntimeError, match="one statement"):
        database.read(twice)


def test_a_write_knows_how_often_it_was_tried(database: Database) -> None:
    seen = []

    def work(tx: Transaction) -> None:
        seen.append(tx.attempt)
        if tx.attempt < 3:
            raise StaleRead

    for _ in range(2):
        database.write(work)

    assert seen == [1, 2, 3, 1, 2, 3]
