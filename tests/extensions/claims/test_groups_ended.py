"""A group ends with its last member, and from then on there is none (specification 09 section 4)."""

import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import delete, exc, select

from placement import errors
from placement.db import invariants, models, scrub
from placement.extensions.claims import broken_groups, group_rows, groups
from placement.extensions.claims import service as claims_service
from placement.extensions.claims import tables as claims_tables
from tests.extensions.claims.test_claims import claim, place
from tests.support.clock import let_holds_end
from tests.support.databases import KINDS
from tests.support.service import Service, running
from tests.support.world import World

APART, TOGETHER = {"rule": "apart"}, {"rule": "together"}


@pytest.fixture(params=KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """The service on an empty database with one host, which is sound at the end."""
    with running(request.param, insight__enabled=True) as made:
        World(made).provider(inventory={"VCPU": 100})
        yield made
        assert [each for each in invariants.violations(made.db) if "members" in str(each)] == []


def by_delete(service: Service, consumer: str) -> None:
    World(service).release(consumer)


def by_empty_put(service: Service, consumer: str) -> None:
    body = claim() | {"allocations": {}, "consumer_generation": 1}
    for name in ("consumer_uuid", "query"):
        del body[name]
    answer = service.request("PUT", f"/allocations/{consumer}", json=body, version="1.39")
    assert answer.status_int == 204, answer.text


def by_claim_without(service: Service, consumer: str) -> None:
    again = claim(1, 1) | {"consumer_uuid": consumer}
    assert place(service, again).status_int == 200


def by_end_of_hold(service: Service, consumer: str) -> None:
    let_holds_end(service.db)
    service.request("GET", "/allocation_candidates?resources=VCPU:1", version="1.39")


def by_other_service(service: Service, consumer: str) -> None:
    """As the OpenStack service does: allocations, then the consumer; its counters are mended."""
    held, consumers = models.allocations, models.consumers
    service.db.write(
        lambda tx: (
            tx.change_unshown(delete(held).where(held.c.consumer_id == consumer)),
            tx.change_unshown(delete(consumers).where(consumers.c.uuid == consumer)),
        )
    )
    for each in (invariants.COUNTERS, invariants.OWNER_USAGES):
        invariants.repair(service.db, each)


ENDS = (by_delete, by_empty_put, by_claim_without, by_end_of_hold, by_other_service)


@pytest.mark.parametrize("end", ENDS, ids=[end.__name__ for end in ENDS])
def test_a_group_ends_with_its_last_member(
    service: Service, end: Callable[[Service, str], None]
) -> None:
    """It has no page; who names it must give a rule, which may be another one.

    SQLite gives the id of a deleted consumer to the next one, which is in no group and not held.
    """
    member = claim(groups=["g"])
    hold = {"hold_s": 900} if end in (by_end_of_hold, by_other_service) else {}
    assert place(service, member, groups={"g": APART}, **hold).status_int == 200

    end(service, member["consumer_uuid"])

    assert place(service, claim()).status_int == 200
    assert service.request("GET", "/-/groups/g").status_int == 404
    assert service.request("GET", "/-/holds").json["holds"] == []
    without = place(service, claim(groups=["g"])).json["errors"][0]
    assert (without["status"], without["reason"]) == (400, "unknown_group")
    assert place(service, claim(groups=["g"]), groups={"g": TOGETHER}).status_int == 200
    assert service.request("GET", "/-/groups/g").json["rule"] == "together"


@pytest.mark.parametrize("end", ENDS, ids=[end.__name__ for end in ENDS])
def test_the_end_of_a_group_is_no_damage(
    service: Service, end: Callable[[Service, str], None], caplog: pytest.LogCaptureFixture
) -> None:
    """The scrub tidies up, heals nothing, says nothing, and followers go on."""
    member = claim(groups=["g"])
    assert place(service, member, groups={"g": APART}, hold_s=900).status_int == 200
    end(service, member["consumer_uuid"])
    token = service.request("GET", "/-/changes").json["next"]
    caplog.set_level(logging.WARNING)
    caplog.clear()

    assert scrub.scrub_all(service.db) == ({}, [])

    assert caplog.messages == []
    assert stored(service) == []
    assert service.request("GET", f"/-/changes?since={token}").status_int == 200


def test_groups_that_have_ended_do_not_pile_up(service: Service) -> None:
    """Each group that begins takes some along; one with members stays."""
    lasting = claim(groups=["lasting"])
    assert place(service, lasting, groups={"lasting": APART}).status_int == 200
    names = [f"g{number}" for number in range(2 * groups.LOOKED_AT)]
    for number in range(0, len(names), 8):
        member = claim(groups=names[number : number + 8])
        rules = dict.fromkeys(member["groups"], APART)
        assert place(service, member, groups=rules).status_int == 200
        by_delete(service, member["consumer_uuid"])

    for _ in range(100):
        groups.remove_ended(service.db, 1)

    assert stored(service) == ["lasting"]


def test_groups_of_gangs_do_not_pile_up(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The more groups a request begins, the more of those that have ended it takes along."""
    monkeypatch.setattr(groups, "DRAW", random.Random(9))
    for turn in range(6):
        names = [[f"g{turn}-{number}-{each}" for each in range(8)] for number in range(10)]
        members = [claim(1, groups=mine) for mine in names]
        rules = {name: APART for mine in names for name in mine}
        assert place(service, *members, groups=rules).status_int == 200
        for member in members:
            by_delete(service, member["consumer_uuid"])

    assert len(stored(service)) <= 3 * 80


def test_a_check_notes_and_removes_those_that_have_ended(service: Service) -> None:
    """It leaves one with members."""
    ended, lasting = claim(groups=["ended"]), claim(groups=["lasting"])
    for each in (ended, lasting):
        assert place(service, each, groups={each["groups"][0]: APART}).status_int == 200
    by_delete(service, ended["consumer_uuid"])
    (empty,) = (each for each in invariants.list_invariants() if "have members" in each.name)

    noted = service.db.snapshot(lambda tx: invariants.examine(tx, empty))
    invariants.repair(service.db, empty)

    assert noted.examples == ("group ended",)
    assert stored(service) == ["lasting"]


def stored(service: Service) -> list[str]:
    rows = service.db.read(lambda tx: tx.rows(select(claims_tables.consumer_groups.c.name)))
    return sorted(name for (name,) in rows)


def test_a_claim_that_begins_a_group_removes_an_ended_one(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not begin any looks at nothing."""
    looks: list[Any] = []
    find = group_rows.find_without_members

    def watched(*args: Any) -> list[int]:
        looks.append(args)
        return find(args[0], 0.0, args[2])

    monkeypatch.setattr(group_rows, "find_without_members", watched)
    first, second = claim(groups=["a"]), claim(groups=["b"])
    assert place(service, first, groups={"a": APART}).status_int == 200
    by_delete(service, first["consumer_uuid"])

    assert place(service, second, groups={"b": APART}).status_int == 200
    assert place(service, claim(groups=["b"], query="resources=VCPU:200")).status_int == 409

    assert stored(service) == ["b"]
    assert len(looks) == 2


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (
            errors.DatabaseUnavailable(),
            f"Groups without members stay for the moment: {errors.DatabaseUnavailable()}",
        ),
        (exc.InternalError("SELECT", (), Exception("broken")), "(builtins.Exception) broken"),
    ],
    ids=["no database", "an unexpected error"],
)
def test_a_claim_is_granted_where_ended_groups_cannot_be_removed(
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failure: Exception,
    told: str,
) -> None:
    """It has been written by then; the log says why they stay."""

    def refused(*args: Any) -> list[int]:
        raise failure

    monkeypatch.setattr(group_rows, "find_without_members", refused)

    with caplog.at_level(logging.INFO, groups.__name__):
        assert place(service, claim(groups=["g"]), groups={"g": APART}).status_int == 200

    assert told in caplog.text


def test_a_group_that_is_removed_after_the_choice_begins_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row goes between choice and write: it is made anew with the rule that was given."""
    gone = claim(groups=["g"])
    place(service, gone, groups={"g": APART})
    by_delete(service, gone["consumer_uuid"])
    write, table = claims_service.write, claims_tables.consumer_groups

    def overtaken(*args: Any) -> Any:
        service.db.write(
            lambda tx: broken_groups.remove_without_members(tx, tx.column(select(table.c.id)))
        )
        return write(*args)

    monkeypatch.setattr(claims_service, "write", overtaken)

    assert place(service, claim(groups=["g"]), groups={"g": TOGETHER}).status_int == 200

    assert service.request("GET", "/-/groups/g").json["rule"] == "together"
    assert stored(service) == ["g"]
