"""A few short years on each database, and the table of requests held against the URL page."""

import os

import pytest

from placement.extension import find_extensions
from placement.routes import ROUTES
from tests.proofs.year import events, requests
from tests.proofs.year.player import Kind
from tests.proofs.year.steps import draw_steps, page, shrink, take_steps
from tests.support.databases import KINDS
from tests.support.effort import LONG

YEARS = 30 if LONG else 3
STEPS = 110
SEED = int(os.environ.get("PLACEMENT_YEAR_SEED", "1"))
"""Of the first year. The same years come each time: ``python -m tests.proofs.year`` draws others."""


def _writes(kind: Kind) -> bool:
    return kind.apply is not Kind.apply


@pytest.mark.parametrize("kind", KINDS)
def test_every_promise_is_kept_all_year(kind: str) -> None:
    for seed in range(SEED, SEED + YEARS):
        outcome = take_steps(draw_steps(seed, STEPS, kind), kind)
        if outcome.broken is not None:
            pytest.fail(page(shrink(outcome, kind, 60), kind, seed))
        # A year of refusals would prove nothing.
        assert sum(n for what, n in outcome.counts.items() if " 20" in what) > STEPS / 3


def test_every_route_is_in_the_table_of_requests() -> None:
    """A new route needs a line: how it is drawn, what it may answer, how it is undone."""
    extensions = [each.routes for each in find_extensions().values()]
    on_page = {
        f"{method} {path}"
        for routes in (ROUTES, *extensions)
        for path, methods in routes.items()
        for method in methods
    }

    assert {each.routes for each in requests.TABLE if each.routes} == on_page


def test_every_request_that_writes_can_be_undone() -> None:
    assert {each.undo for each in requests.TABLE if each.undo} <= requests.KIND.keys()
    assert [each.name for each in requests.TABLE if _writes(each) and not each.undo] == []


def test_every_line_of_both_tables_is_drawn() -> None:
    """In ten thousand steps each request and each event comes at least once."""
    drawn = {step.what for step in draw_steps(1, 10_000, "sqlite")}

    assert {each.name for each in requests.TABLE} <= drawn
    assert {each.name for each in events.TABLE} <= drawn
