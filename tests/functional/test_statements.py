"""How many SQL statements a request of the ledger may cost, and the page that says so."""

from pathlib import Path

import pytest

from benchmarks import statements
from placement.db import schema
from placement.db.api import Database
from placement.db.engine import make_engine
from tests.support.databases import KINDS, scratch_database

PAGE = Path(__file__).parents[2] / "docs" / "statements.rst"


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_shows_what_is_sent(kind: str) -> None:
    """A changed count fails here; the page and its reasons change with it."""
    with scratch_database(kind) as url:
        db = Database(make_engine(url.replace("mysql+pymysql", "mysql")))
        schema.sync(db)
        rows = statements.measure(db)
        db.dispose()

    assert statements.table(rows) in PAGE.read_text()
    # Growing with what a request names would be a defect, whatever the page says.
    inside = {row.name: row.inside for row in rows}
    assert inside["claim, three classes of one host"] <= 9
    assert len({count for name, count in inside.items() if name.startswith("claim, t")}) == 1
