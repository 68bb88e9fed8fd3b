"""How many SQL statements a request of the ledger may cost, and the page that says so."""

import re
from pathlib import Path

import pytest

from benchmarks import statements
from tests.support.databases import ROUTES, synced

PAGE = Path(__file__).parents[2] / "docs" / "statements.rst"


def column(table: str, kind: str) -> dict[str, tuple[str, str]]:
    """Return status and number of statements by request, as a table says for one database."""
    lines = [re.split(r"\s{2,}", line) for line in table.splitlines()]
    head = next(line for line in lines if line[0] == "request")
    place = head.index(statements.TITLES[kind])
    rows = [line for line in lines if len(line) == len(head) and line[place][0].isdigit()]
    return {row[0]: (row[1], row[place]) for row in rows}


@pytest.mark.parametrize("route", [route for route in ROUTES if not route.endswith("-alone")])
def test_the_page_shows_what_is_sent(route: str) -> None:
    """A changed count fails here; the page and its reasons change with it."""
    kind, _ = ROUTES[route]
    with synced(route) as db:
        rows = statements.measure(db)
    with synced(route) as db:
        kept = statements.measure(db, history=True)

    sent = column(statements.table({kind: rows}), kind)
    assert len(sent) == len(rows)
    assert column(PAGE.read_text(), kind) == sent
    # Growing with what a request names would be a defect, whatever the page says.
    inside = {row.name: row.inside for row in rows}
    assert inside["claim, three classes of one host"] == inside["claim, one class of one host"]
    assert inside["claim, three classes of each of four hosts"] <= 8
    # What the page says of the history.
    for row, with_history in zip(rows, kept, strict=True):
        more, messages = more_for_history(row)
        assert with_history.inside == row.inside + more, row.name
        # To SQLite each statement travels alone.
        if kind != "sqlite":
            assert with_history.messages <= row.messages + messages, row.name


def more_for_history(row: statements.Row) -> tuple[int, int]:
    """Return how many statements, and how many messages, a request sends more where the history is kept."""
    if row.name.startswith(("claim", "POST /-/claims")):
        return 1, 0
    if row.name.startswith(("GET", "refused", "delete of an unknown")):
        return 0, 0
    return (9, 7) if row.name.startswith("reshape") else (2, 1)
