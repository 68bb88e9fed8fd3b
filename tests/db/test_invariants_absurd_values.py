"""A value that cannot be read, or stepped, is no fault of the service, and a command cures it or names it.

(specification 06 section 7.7)
"""

from collections.abc import Callable

import pytest

from placement.db import change_rows, invariants, scrub
from placement.db.database import Database
from placement.objects import restored
from tests.db.test_invariants_damage import (
    MODES,
    SPARE,
    Stage,
    ask_of_struck,
    post,
    put,
    reshape,
    told,
    write_names,
    write_providers,
)
from tests.db.test_invariants_damage import stage as stage
from tests.support.absurd import ABSURD, Absurd
from tests.support.clock import let_holds_end
from tests.support.damage import SOUND, STRUCK, questions
from tests.support.effort import LONG
from tests.support.service import Service

ALONE = [mode for mode in MODES if mode.endswith("unshared")]
CASES = [
    (line, mode)
    for number, line in enumerate(ABSURD)
    for place, mode in enumerate(ALONE)
    if LONG or place == number // 2 % len(ALONE)
]


MARKS_AT_BOUND = {
    str(Absurd("provider_changes", "mark", mark))
    for mark in (change_rows.MOST_MARK, change_rows.MOST_MARK - 1)
}
"""Marks that the next write brings beyond their bound. No cloud reaches them by writing."""


def scrub_all(db: Database) -> set[str]:
    """Do ``db scrub``; return the names of what it leaves to an operator."""
    _, left = scrub.scrub_all(db)
    return {found.invariant.name for found in left}


def check_and_repair(db: Database) -> set[str]:
    """Do ``db check --repair``; return the names of what has no repair."""
    for found in invariants.violations(db):
        invariants.repair(db, found.invariant)
    return told(db)


def settle(db: Database) -> set[str]:
    """Do ``db restored``; return the names of what it leaves."""
    restored.settle(db, lambda what, done, total: None)
    return told(db)


@pytest.mark.parametrize(("line", "stage"), CASES, ids=str, indirect=["stage"])
def test_a_value_that_cannot_be_read_is_no_fault(stage: Stage, line: Absurd) -> None:
    stage.saved.put_back()
    service = stage.service()
    for path in questions(SOUND):
        service.send("GET", path)
    page = service.send("GET", "/-/changes").json
    line.apply(stage.db)
    ask_of_struck(service)
    service.send("GET", f"/-/changes?since={page['next']}")
    put(service, "plain", SPARE)
    write_names(service)
    write_providers(service)
    line.apply(stage.db, again=True)
    let_holds_end(stage.db)
    ask_of_struck(service)


@pytest.mark.parametrize("stage", ALONE, indirect=True)
@pytest.mark.parametrize("used", [2**63 - 1, -(2**63)])
def test_a_sum_at_the_bound_of_its_column_is_named_and_cured(stage: Stage, used: int) -> None:
    stage.saved.put_back()
    Absurd("owner_usages", "used", used).apply(stage.db)
    service = Service(stage.service().conf, stage.db)
    uuid = STRUCK.uuid("plain")
    now = service.send("GET", f"/allocations/{uuid}").json["consumer_generation"]
    body = STRUCK.entry(SPARE, now)
    refused = service.send("PUT", f"/allocations/{uuid}", body)
    # SQLite has no bound, and one of the two directions goes away from it.
    if refused.status != 204:
        assert (refused.status, refused.json["errors"][0]["reason"]) == (500, "number_at_bound")

    assert scrub_all(stage.db) == set()

    generation = service.send("GET", f"/allocations/{uuid}").json["consumer_generation"]
    body["consumer_generation"] = generation
    assert service.send("PUT", f"/allocations/{uuid}", body).status == 204


@pytest.mark.parametrize("command", [scrub_all, check_and_repair, settle])
@pytest.mark.parametrize(("line", "stage"), CASES, ids=str, indirect=["stage"])
def test_a_command_cures_or_names_it(
    stage: Stage, line: Absurd, command: Callable[[Database], set[str]]
) -> None:
    """Afterwards everything can be written that could be written before."""
    stage.saved.put_back()
    line.apply(stage.db)
    named = command(stage.db)
    assert told(stage.db) <= named
    service = stage.service()
    ask_of_struck(service)
    token = service.send("GET", "/-/changes").json["next"]
    assert service.send("GET", f"/-/changes?since={token}").status == 200
    if not named:
        for way in (put, post, reshape):
            assert way(service, "plain", SPARE).status == 204, way
        followed = service.send("GET", f"/-/changes?since={token}")
        if followed.status == 410:
            # Two of the writes drew the same slot: the second one starts a mark beyond its bound anew.
            assert str(line) in MARKS_AT_BOUND
            return
        assert followed.status == 200
        assert STRUCK.uuid("root") in {tree["root"] for tree in followed.json["trees"]}
