"""Writes have the isolation that the code is written for, whatever the server's default is.

A statement that waited for a lock must see what its holder committed (docs/maintainers/writes.rst).
"""

import pytest

from placement.db.api import Database
from placement.db.engine import make_engine
from tests.support.databases import scratch_database

LEVELS = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
DEFAULT = {
    "mysql": "init_command=SET SESSION TRANSACTION ISOLATION LEVEL {}",
    "postgresql": "options=-c default_transaction_isolation='{}'",
}
SHOW = {"mysql": "SELECT @@SESSION.tx_isolation", "postgresql": "SHOW transaction_isolation"}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", DEFAULT)
def test_writes_are_read_committed(kind: str, level: str) -> None:
    words = level if kind == "mysql" else level.lower().replace(" ", r"\ ")
    parameter = DEFAULT[kind].format(words).replace("'", "")
    with scratch_database(kind) as url:
        database = Database(make_engine(f"{url}?{parameter}"))
        shown = database.write(lambda tx: tx.exec_driver_sql(SHOW[kind]).scalar_one())
        by_default = database.read(lambda c: c.exec_driver_sql(SHOW[kind]).scalar_one())
        database.dispose()

    assert shown.upper().replace("-", " ") == "READ COMMITTED"
    # The default was there to be overruled; on MariaDB it is overruled for the whole session.
    wanted = level if kind == "postgresql" else "READ COMMITTED"
    assert by_default.upper().replace("-", " ") == wanted
