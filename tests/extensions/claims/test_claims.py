"""Claims decided here: what is stored and what is kept, on each kind of database (specification 09)."""

import itertools
import logging
import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import webob
from sqlalchemy import select, update

from placement import errors
from placement.db import cloud_rows, invariants, models
from placement.db.coexistence import state
from placement.db.database import Database
from placement.extensions.claims import choices, expiry, group_rows, shortcuts, writing
from placement.extensions.claims import service as claims_service
from placement.extensions.claims import tables as claims_tables
from placement.web import search_bounds
from tests.support.batches import send_at_once
from tests.support.clock import let_holds_end
from tests.support.databases import KINDS
from tests.support.service import Service, running
from tests.support.world import World, new_uuid

TRAIT = "HW_CPU_X86_VMX"


@pytest.fixture(params=KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """The service with what is under /-/, on an empty database, which is sound at the end."""
    with running(request.param, insight__enabled=True) as made:
        yield made
        assert invariants.violations(made.db) == []


def claim(amount: int = 2, generation: int | None = None, **more: Any) -> dict[str, Any]:
    """Return one claim; ``more`` replaces members of it."""
    return {
        "consumer_uuid": new_uuid(),
        "consumer_generation": generation,
        "project_id": "p",
        "user_id": "u",
        "consumer_type": "INSTANCE",
        "query": f"resources=VCPU:{amount}",
        **more,
    }


def place(service: Service, *claims: Any, **more: Any) -> webob.Response:
    return service.request("POST", "/-/claims", json={"claims": claims, **more}, version="1.39")


def roots(answer: webob.Response) -> list[str]:
    assert answer.status_int == 200, answer.text
    return [granted["root_provider_uuid"] for granted in answer.json["claims"]]


def allocations(service: Service, consumer: str) -> Any:
    return service.request("GET", f"/allocations/{consumer}").json["allocations"]


def test_a_gang_is_stored_whole_or_not_at_all(service: Service) -> None:
    host = World(service).provider(inventory={"VCPU": 4})
    too_many, enough = [claim() for _ in range(3)], [claim() for _ in range(2)]

    refused, granted = place(service, *too_many), place(service, *enough)

    error = refused.json["errors"][0]
    assert (error["code"], error["exact"]) == ("placement.no_candidate", True)
    assert error["claim"]["consumer_uuid"] in [each["consumer_uuid"] for each in too_many]
    assert roots(granted) == [host, host]
    held = [bool(allocations(service, each["consumer_uuid"])) for each in (*too_many, *enough)]
    assert held == [False] * 3 + [True] * 2


def test_what_a_consumer_holds_counts_as_free_for_it(service: Service) -> None:
    """Two that fill a cloud change places, and a generation that is not theirs is no lack of room."""
    world = World(service)
    hosts = [world.provider(inventory={"VCPU": 2}) for _ in range(2)]
    first = [claim(query=f"resources=VCPU:2&in_tree={host}") for host in hosts]
    assert roots(place(service, *first)) == hosts
    moved = [
        {**each, "consumer_generation": 1, "query": f"resources=VCPU:2&in_tree={host}"}
        for each, host in zip(first, reversed(hosts), strict=True)
    ]

    assert roots(place(service, *moved)) == hosts[::-1]

    late = place(service, {**moved[0], "query": "resources=VCPU:9"}).json["errors"][0]
    assert late["code"] == "placement.concurrent_update"


def test_what_counts_as_free_for_one_consumer_is_free_for_no_other(service: Service) -> None:
    """Neither after its claim was refused nor after it was granted: the picture is the whole process's."""
    host = World(service).provider(inventory={"VCPU": 4})
    holder = claim(3)
    assert roots(place(service, holder)) == [host]
    candidates = "/allocation_candidates?resources=VCPU:2"

    for amount, status in ((9, 409), (3, 200)):
        query = f"resources=VCPU:{amount}"
        again = {**holder, "consumer_generation": 1, "query": query}
        assert place(service, again).status_int == status
        found = service.request("GET", candidates, version="1.39").json["allocation_requests"]
        assert found == []
        assert place(service, claim(2)).status_int == 409


def leave_record(db: Database, consumer: str, generation: int) -> None:
    """Store the record of a consumer that holds nothing, as the OpenStack service may leave it."""
    owners = (models.projects, models.users)
    project, user = (db.read(lambda tx, each=each: tx.value(select(each.c.id))) for each in owners)
    row = {"uuid": consumer, "project_id": project, "user_id": user, "generation": generation}
    written = models.consumers.insert().values({"created_at": models.now(), **row})
    db.write(lambda tx: tx.change_unshown(written))


def test_a_record_without_allocations_is_claimed_as_a_new_consumer(service: Service) -> None:
    """The answer has the generation that is stored then: the next write is by it."""
    world = World(service)
    host = world.provider(inventory={"VCPU": 4})
    world.claim({host: {"VCPU": 1}})
    alone, first, second = claim(1), claim(1), claim(1)
    for number, each in enumerate((alone, first)):
        leave_record(service.db, each["consumer_uuid"], 3 + number)

    answers = [place(service, alone), place(service, first, second)]

    granted = [each for answer in answers for each in answer.json["claims"]]
    assert [each["consumer_generation"] for each in granted] == [4, 5, 1]
    for each in granted:
        world.claim({host: {"VCPU": 1}}, each["consumer_uuid"], generation=each["consumer_generation"])


def test_a_record_without_allocations_is_held_as_a_new_consumer(service: Service) -> None:
    """It is listed, can be confirmed, and goes when its time has come."""
    world = World(service)
    world.claim({world.provider(inventory={"VCPU": 3}): {"VCPU": 1}})
    kept, left = claim(1), claim(1)
    for each in (kept, left):
        leave_record(service.db, each["consumer_uuid"], 3)

    granted = place(service, kept, left, hold_s=900).json["claims"]

    shown = service.request("GET", "/-/holds").json["holds"]
    assert {each["consumer_uuid"]: each["consumer_generation"] for each in shown} == {
        each["consumer_uuid"]: each["consumer_generation"] for each in granted
    }
    body = {"consumers": [{key: granted[0][key] for key in ("consumer_uuid", "consumer_generation")}]}
    assert service.request("POST", "/-/claims/confirm", json=body).json == {
        "consumers": [{"consumer_uuid": kept["consumer_uuid"], "consumer_generation": 5}]
    }
    let_holds_end(service.db)
    assert place(service, claim(1)).status_int == 200
    assert allocations(service, left["consumer_uuid"]) == {}


def test_strategies_order_the_trees(service: Service) -> None:
    world = World(service)
    empty = world.provider(inventory={"VCPU": 8})
    used = world.provider(inventory={"VCPU": 8})
    world.claim({used: {"VCPU": 4}})

    assert roots(place(service, claim(), strategy="pack")) == [used]
    assert roots(place(service, claim(), claim(), claim(), strategy="spread")).count(empty) == 3
    assert set(roots(place(service, claim(1), claim(1), claim(1), claim(1)))) == {empty, used}


def test_room_of_a_hold_that_is_over_is_free(service: Service) -> None:
    """For the next search of the compatible API, which removes the consumer as DELETE would."""
    World(service).provider(inventory={"VCPU": 4})
    held, began = claim(4), datetime.now(UTC)
    until = datetime.fromisoformat(place(service, held, hold_s=900).json["hold"]["expires_at"])
    minute = timedelta(minutes=1)
    assert began + 14 * minute < until < datetime.now(UTC) + 16 * minute
    candidates = "/allocation_candidates?resources=VCPU:4"
    none = service.request("GET", candidates, version="1.39").json["allocation_requests"]
    let_holds_end(service.db)

    found = service.request("GET", candidates, version="1.39").json["allocation_requests"]

    assert (len(none), len(found)) == (0, 1)
    assert allocations(service, held["consumer_uuid"]) == {}
    body = {"consumers": [{"consumer_uuid": held["consumer_uuid"], "consumer_generation": 1}]}
    late = service.request("POST", "/-/claims/confirm", json=body, version="1.39")
    assert late.json["errors"][0]["code"] == "placement.hold_expired"


def test_a_search_that_cannot_write_goes_on(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With the holds that are over still there, and the log says why."""

    def refuse(*_: Any) -> None:
        raise errors.DatabaseReadOnly

    World(service).provider(inventory={"VCPU": 4})
    place(service, claim(3), hold_s=900)
    let_holds_end(service.db)
    monkeypatch.setattr(expiry, "_remove_some", refuse)

    with caplog.at_level(logging.INFO, expiry.__name__):
        found = service.request("GET", "/allocation_candidates?resources=VCPU:1", version="1.39")

    assert f"stay for the moment: {errors.DatabaseReadOnly()}" in caplog.text
    assert len(found.json["allocation_requests"]) == 1
    used = found.json["provider_summaries"].popitem()[1]["resources"]["VCPU"]["used"]
    assert used == 3


def test_whoever_is_always_overtaken_is_told_so_at_the_deadline(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 with Retry-After, and nothing is written. Each look at the clock takes a tenth of a second."""

    def lose(*_: Any, **__: Any) -> None:
        raise writing.Overtaken

    World(service).provider(inventory={"VCPU": 4})
    monkeypatch.setattr(writing, "_write", lose)
    monkeypatch.setattr(search_bounds, "monotonic", itertools.count(0, 0.1).__next__)

    answer = place(service, claim())

    assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json["errors"][0]["reason"] == "claims_given_up"


@pytest.mark.parametrize("strategy", ["any", "spread", "pack"])
def test_a_lack_of_time_is_no_lack_of_room(
    service: Service, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """Wherever the deadline comes: claims that fit are granted, or 503 and nothing is written."""
    world = World(service)
    for _ in range(3):
        world.provider(inventory={"VCPU": 16})
    statuses = set()
    for step_s in (0.001, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12):
        monkeypatch.setattr(search_bounds, "monotonic", itertools.count(0, step_s).__next__)
        claims = [claim(amount) for amount in range(1, 7)]

        answer = place(service, *claims, strategy=strategy)

        statuses.add(answer.status_int)
        if answer.status_int == 200:
            for each in claims:
                world.release(each["consumer_uuid"])
            continue
        error = answer.json["errors"][0]
        assert (error["code"], error["reason"]) == ("placement.search_given_up", "search_given_up")
        assert (answer.status_int, answer.headers["Retry-After"]) == (503, "1")
        assert not any(allocations(service, each["consumer_uuid"]) for each in claims)
    assert statuses == {200, 503}


def test_an_ordinary_write_ends_a_hold(service: Service) -> None:
    """Later the time of the hold comes, and nothing happens but that its row goes."""
    world = World(service)
    host = world.provider(inventory={"VCPU": 4})
    held = claim(4)
    place(service, held, hold_s=900)
    world.claim({host: {"VCPU": 3}}, held["consumer_uuid"], generation=1)
    let_holds_end(service.db)

    assert place(service, claim(4)).status_int == 409

    assert allocations(service, held["consumer_uuid"])[host]["resources"] == {"VCPU": 3}
    count = service.db.read(lambda tx: len(tx.rows(claims_tables.consumer_holds.select())))
    assert count == 0


def broken_groups(service: Service) -> int:
    """Return of how many groups ``db check`` notes that they do not keep their rules."""
    rules = next(each for each in invariants.list_invariants() if "keep their rules" in each.name)
    return service.db.snapshot(lambda tx: invariants.examine(tx, rules)).count


@pytest.mark.parametrize("written", [{"rule": "zzz"}, {"rule": ""}, {"at_most": 0}, {"at_most": -5}])
def test_a_rule_that_was_written_by_hand_is_noted(service: Service, written: dict[str, Any]) -> None:
    World(service).provider(inventory={"VCPU": 8})
    groups = {"g": {"rule": "together"}}
    assert place(service, claim(1) | {"groups": ["g"]}, groups=groups).status_int == 200
    sound = broken_groups(service)

    change = update(claims_tables.consumer_groups).values(**written)
    service.db.write(lambda tx: tx.connection.execute(change))

    assert (sound, broken_groups(service)) == (0, 1)


def test_a_group_that_an_ordinary_write_has_broken_is_noted(service: Service) -> None:
    """It takes no more members, and ``db check`` notes it; racks are its domains."""
    world = World(service)
    racks = [new_uuid(), new_uuid()]
    hosts = [world.provider(inventory={"VCPU": 8}) for _ in range(3)]
    for host, rack in zip(hosts, (*racks, racks[0]), strict=True):
        world.replace(host, "aggregates", [rack])
    groups = {"g": {"rule": "apart", "level": "aggregate", "of": racks}}
    members = [claim(groups=["g"]), claim(groups=["g"])]
    assert hosts[1] in roots(place(service, *members, groups=groups))
    assert place(service, claim(groups=["g"]), groups=groups).status_int == 409
    sound = broken_groups(service)

    for number, member in enumerate(members):
        world.claim({hosts[2 * number]: {"VCPU": 1}}, member["consumer_uuid"], generation=1)

    group = service.request("GET", "/-/groups/g").json
    assert (sound, group["kept"], group["members"][0]["domains"]) == (0, False, [racks[0]])
    assert broken_groups(service) == 1
    refused = place(service, claim(groups=["g"])).json["errors"][0]
    assert (refused["groups"], refused["exact"]) == (["g"], True)


def test_the_name_of_a_group_has_255_characters_at_most(service: Service) -> None:
    World(service).provider(inventory={"VCPU": 4})
    for length, status in ((255, 200), (256, 400)):
        name = "n" * length
        answer = place(service, claim(1, groups=[name]), groups={name: {"rule": "apart"}})
        listed = service.request("GET", f"/-/holds?group={name}")
        assert (answer.status_int, listed.status_int) == (status, status)


@pytest.mark.parametrize("shared", [False, True])
def test_what_changes_after_the_choice_is_chosen_again(
    service: Service, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """A trait that a host loses between choice and write: another host, and no refusal.

    ``shared``: another service may write too, so that there is no log.
    """
    world = World(service)
    hosts = [world.provider(inventory={"VCPU": 4}, traits=[TRAIT]) for _ in range(2)]
    chosen, write = [], writing.write

    def overtaken(db: Any, order: Any, places: Any) -> Any:
        chosen.append(places.assigned[0].root_provider_uuid)
        if len(chosen) == 1:
            world.set_traits(chosen[0], [])
        return write(db, order, places)

    if shared:
        service.db.write(state.begin)
    for module in (shortcuts, claims_service):
        monkeypatch.setattr(module, "write", overtaken)

    granted = roots(place(service, claim(query=f"resources=VCPU:2&required={TRAIT}")))

    assert set(chosen) == set(hosts)
    assert granted == [chosen[1]]


def test_what_was_written_while_it_was_compared_is_chosen_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no log, the providers are read until two looks are alike; at times none are."""
    host = World(service).provider(inventory={"VCPU": 4})
    service.db.write(state.begin)
    read, looks = cloud_rows.steady_contents, itertools.count()
    monkeypatch.setattr(
        cloud_rows, "steady_contents", lambda *of: read(*of) if next(looks) else None
    )

    assert roots(place(service, claim())) == [host]

    assert next(looks) == 2


def test_a_member_whose_hold_is_over_keeps_nothing_out(service: Service) -> None:
    """The claim itself removes what is over, and looks at the members again."""
    World(service).provider(inventory={"VCPU": 4})
    held, other = claim(1, groups=["g"]), claim(1, groups=["g"])
    assert place(service, held, hold_s=900, groups={"g": {"rule": "apart"}}).status_int == 200
    assert place(service, other).status_int == 409
    let_holds_end(service.db)

    assert place(service, other, groups={"g": {"rule": "apart"}}).status_int == 200

    assert allocations(service, held["consumer_uuid"]) == {}


def test_a_sharing_provider_counts_for_members_that_have_nothing_else(service: Service) -> None:
    """For claims and ``db check`` alike: members that are apart share a disk if they have hosts too."""
    world, rack = World(service), new_uuid()
    sharing = ["MISC_SHARES_VIA_AGGREGATE"]
    pool = world.provider(inventory={"DISK_GB": 9}, traits=sharing, aggregates=[rack])
    hosts = [world.provider(inventory={"VCPU": 2}, aggregates=[rack]) for _ in range(2)]
    both = {"groups": ["g"], "query": "resources=VCPU:1,DISK_GB:1"}
    alone = {"groups": ["h"], "query": "resources=DISK_GB:1"}
    apart = {name: {"rule": "apart"} for name in "gh"}

    assert sorted(roots(place(service, claim(**both), claim(**both), groups=apart))) == sorted(hosts)
    # The pool is a domain of its own, in which the members on hosts are not.
    assert roots(place(service, claim(**alone | {"groups": ["g"]}))) == [pool]
    assert place(service, claim(**alone), claim(**alone), groups=apart).status_int == 409
    two = [claim(**alone), claim(1, groups=["h"])]
    assert place(service, *two, groups=apart).status_int == 200
    assert broken_groups(service) == 0

    world.claim({pool: {"DISK_GB": 1}}, two[1]["consumer_uuid"], generation=1)

    assert service.request("GET", "/-/groups/h").json["kept"] is False
    assert broken_groups(service) == 1


@pytest.mark.parametrize("strategy", ["spread", "pack"])
def test_how_full_a_tree_is_does_not_depend_on_what_it_shares(
    service: Service, strategy: str
) -> None:
    """A tree that has nothing itself of a class that is asked for is neither full nor empty of it."""
    world, rack = World(service), new_uuid()
    sharing = ["MISC_SHARES_VIA_AGGREGATE"]
    world.provider(inventory={"DISK_GB": 9}, traits=sharing, aggregates=[rack])
    hosts = [world.provider(inventory={"VCPU": 2}, aggregates=[rack]) for _ in range(2)]
    both = {"query": "resources=VCPU:1,DISK_GB:1"}

    first, second = roots(place(service, claim(**both), claim(**both), strategy=strategy))

    assert {first, second} <= set(hosts)
    assert (first == second) == (strategy == "pack")


def at_once(
    service: Service, monkeypatch: pytest.MonkeyPatch, asked: Sequence[Any]
) -> tuple[list[webob.Response], list[int]]:
    """Send claims that all arrive while a first one is placed.

    :returns: the answers, and how many claims were tried together each time.
    """
    first, others, sizes = send_at_once(
        monkeypatch,
        lambda: place(service, claim(1)),
        [partial(place, service, each) for each in asked],
    )
    assert first.status_int == 200
    return others, sizes


def test_claims_that_arrive_at_once_are_placed_together(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has its own answer."""
    world = World(service)
    hosts = [world.provider(inventory={"VCPU": 3}) for _ in range(3)]
    in_tree = f"resources=VCPU:2&in_tree={hosts[1]}"
    asked = [claim(), claim(), claim(query=in_tree), claim(1)]

    answers, sizes = at_once(service, monkeypatch, asked)

    assert sizes == [4]
    assert roots(answers[2]) == [hosts[1]]
    for each, answer in zip(asked, answers, strict=True):
        (granted,) = answer.json["claims"]
        assert granted["consumer_uuid"] == each["consumer_uuid"]
        held = allocations(service, each["consumer_uuid"])
        assert {uuid: found["resources"] for uuid, found in held.items()} == {
            uuid: found["resources"] for uuid, found in granted["allocations"].items()
        }


def test_claims_that_arrive_at_once_have_a_tenth_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others wait for them. With a thousand seconds it does not matter how busy the machine is."""
    left_s, choose = [], choices.choose

    def look(*args: Any, **more: Any) -> Any:
        work = args[5]
        left_s.append(work.remaining_s() - work.reserve_s)
        return choose(*args, **more)

    with running(insight__enabled=True, api__search_deadline=1000) as service:
        World(service).provider(inventory={"VCPU": 8})
        monkeypatch.setattr(choices, "choose", look)
        _, sizes = at_once(service, monkeypatch, [claim(1), claim(1)])

    assert sizes == [2]
    assert 50 < left_s[-1] <= 100


def test_a_claim_for_which_there_is_no_room_refuses_no_other(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is placed alone then, to be told why."""
    host = World(service).provider(inventory={"VCPU": 3})

    (fits, large), sizes = at_once(service, monkeypatch, [claim(1), claim(4)])

    assert sizes == [2]
    assert roots(fits) == [host]
    assert large.json["errors"][0]["code"] == "placement.no_candidate"


def test_what_cannot_be_placed_together_is_placed_alone(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one consumer claimed twice one is granted; what is refused says why, and refuses no other."""
    world = World(service)
    for _ in range(3):
        world.provider(inventory={"VCPU": 3})
    existing, twice, fits, large = claim(1), claim(1), claim(1), claim(4)
    assert place(service, existing).status_int == 200

    answers, sizes = at_once(service, monkeypatch, [existing, twice, dict(twice), fits, large])

    assert sizes == [5]
    statuses = [answer.status_int for answer in answers]
    assert sorted(statuses[1:3]) == [200, 409]
    assert (statuses[0], statuses[3], statuses[4]) == (409, 200, 409)
    assert answers[0].json["errors"][0]["code"] == "placement.concurrent_update"
    refused = answers[4].json["errors"][0]
    assert (refused["code"], refused["exact"]) == ("placement.no_candidate", True)
    assert refused["claim"] == {"number": 0, "consumer_uuid": large["consumer_uuid"]}


def test_what_another_process_has_written_just_now_counts(service: Service) -> None:
    """A picture may be a little old: what it says is checked, and no refusal is by it."""
    other = Service(service.conf, Database(service.db.engine))
    world = World(other)
    hosts = [world.provider(inventory={"VCPU": 2}) for _ in range(2)]
    first, second, third = claim(), claim(), claim()

    taken = [*roots(place(service, first)), *roots(place(other, second))]
    assert sorted(taken) == sorted(hosts)
    assert place(service, third).status_int == 409
    world.release(second["consumer_uuid"])
    assert roots(place(service, third)) == [taken[1]]
    new = world.provider(inventory={"VCPU": 2})
    assert roots(place(service, claim())) == [new]


def test_nothing_is_refused_by_what_was_seen_a_moment_ago(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever released it, and however young the picture is: the database is asked before a refusal."""
    monkeypatch.setattr(shortcuts, "AGE_S", math.inf)
    monkeypatch.setattr(shortcuts, "CALM_S", -1.0)
    host = World(service).provider(inventory={"VCPU": 2})
    full = claim()
    other = Service(service.conf, Database(service.db.engine))
    for process in (service, other):
        assert roots(place(service, full)) == [host]
        assert place(service, claim()).status_int == 409
        World(process).release(full["consumer_uuid"])

    assert roots(place(service, claim(), strategy="any")) == [host]


def test_a_claim_that_is_written_at_once_lets_the_next_use_the_picture_too(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody was faster: there is no reason to ask for every claim what has changed."""
    ages, try_once = [], shortcuts._try

    def look(*args: Any) -> Any:
        ages.append(args[5])
        return try_once(*args)

    World(service).provider(inventory={"VCPU": 8})
    monkeypatch.setattr(shortcuts, "_try", look)

    for _ in range(2):
        assert place(service, claim()).status_int == 200

    assert ages == [shortcuts.AGE_S] * 2


def test_members_are_looked_at_once_however_many_groups_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A claim may name eight thousand groups, each with members, and checks them under its locks."""
    many, looked = 40, [0]

    class Counted(group_rows.MemberRow):
        @property
        def group_id(self) -> int:  # type: ignore[override]
            looked[0] += 1
            return self[0]

    monkeypatch.setattr(group_rows, "MemberRow", Counted)
    rules = {f"g{number}": {"rule": "apart", "at_most": 5} for number in range(many)}
    with running(insight__enabled=True) as service:
        World(service).provider(inventory={"VCPU": 8 * many})
        for _ in range(2):
            claims = [claim(1, groups=[name]) for name in rules]
            assert place(service, *claims, groups=rules).status_int == 200

    # Before choosing and under the locks: whether its group lives, and whose member it is.
    assert 0 < looked[0] <= 4 * many


def test_one_claim_alone_is_told_of_no_others(service: Service) -> None:
    """Of several the error says which, and that those before it had their places."""
    World(service).provider(inventory={"VCPU": 4})
    alone, beside = claim(5), claim(3)

    one = place(service, alone).json["errors"][0]["detail"]
    two = place(service, beside, claim(3)).json["errors"][0]["detail"]

    assert f"No place was found for consumer {alone['consumer_uuid']}. There is none." in one
    assert ", with those before it placed. They do not fit together." in two
