"""What-if: on a copy, from what consumers hold; the picture and the database stay (07 section 4)."""

import itertools
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import pytest

from placement.objects.picture import Picture
from placement.web import search_bounds
from tests.search import worlds
from tests.search.test_cloud import columns_of
from tests.support import recorder
from tests.support.looks import read_cloud
from tests.support.service import Service, running
from tests.support.world import World

A, B, NODE = (f"1f000000-0000-4000-8000-00000000000{n}" for n in (1, 2, 3))
SMALL, LARGE, DISK = (f"ca000000-0000-4000-8000-00000000000{n}" for n in (1, 2, 3))


@pytest.fixture
def place() -> Iterator[Service]:
    """Two hosts of 8, the first with a node; on the first two servers, one of which fits elsewhere."""
    with running(insight__enabled=True) as service:
        world = World(service)
        for uuid, name, parent, total in ((A, "a", None, 8), (B, "b", None, 8), (NODE, "n", A, 4)):
            world.provider(name, parent, {"VCPU": total}, key=uuid)
        world.claim({A: {"VCPU": 2}, NODE: {"VCPU": 1}}, SMALL)
        world.claim({A: {"VCPU": 6}}, LARGE)
        yield service


def what_if(service: Service, *changes: Any, query: str = "resources=VCPU:4") -> Any:
    body = {"changes": list(changes), "query": query}
    return service.request("POST", "/-/what-if", json=body)


def test_names_that_the_last_provider_has_just_lost_are_known(place: Service) -> None:
    """A class and a trait that the picture has from its last reading, and no provider has now."""
    world = World(place)
    world.set_inventory(B, {"VCPU": 8, "CUSTOM_GONE": 1})
    world.set_traits(B, ["CUSTOM_GONE"])
    assert what_if(place).status_int == 200
    world.set_inventory(B, {"VCPU": 8})
    world.set_traits(B, [])

    told = what_if(
        place,
        {"inventories": {B: {"CUSTOM_GONE": {"total": 1}}}},
        {"traits": {B: ["CUSTOM_GONE"]}},
        query="resources=CUSTOM_GONE:1&required=CUSTOM_GONE",
    )

    assert told.status_int == 200, told.text
    assert told.json["after"]["candidates"]["count"] == 1


def test_equal_placed_consumers_are_homeless_one_by_one(place: Service) -> None:
    """They have no uuid, and hold the same."""
    changes = {"remove": LARGE}, {"place": "resources=VCPU:4", "times": 3}, {"drain": A}, {"drain": B}
    told = what_if(place, *changes)

    assert [each["uuid"] for each in told.json["homeless"]].count(None) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"inventories": {B.upper(): {"VCPU": {"total": 1}}}},
        {"traits": {B.upper(): ["HW_CPU_X86_AVX"]}},
        {"aggregates": {B.upper(): [NODE]}},
        {"drain": B.upper()},
    ],
)
def test_a_provider_is_found_in_another_spelling(place: Service, change: Any) -> None:
    assert what_if(place, change).status_int == 200


def test_a_key_that_is_no_uuid_names_no_provider(place: Service) -> None:
    assert what_if(place, {"traits": {"-" * 36: []}}).status_int == 404


def test_drained_consumers_move_as_one_request_or_are_homeless(place: Service) -> None:
    """The small one takes 3 of the 8 of the other host; the large one finds no 6."""
    told = what_if(place, {"drain": NODE}).json

    assert told["after"]["candidates"]["count"] == 1
    assert told["after"]["capacity"]["count"] == 1
    assert [each["uuid"] for each in told["homeless"]] == [LARGE]
    assert told["homeless"][0]["allocations"] == {A: {"VCPU": 6}}
    assert told["homeless"][0]["type"] == "INSTANCE"


def test_a_drained_consumer_leans_on_no_sharing_provider(place: Service) -> None:
    """It had all in one tree, and needs one tree that has all: no host, where only the disk is shared."""
    world, aggregate = World(place), "a0000000-0000-4000-8000-000000000001"
    shared = world.provider("s", None, {"DISK_GB": 10})
    world.set_inventory(NODE, {"VCPU": 4, "DISK_GB": 10})
    world.release(SMALL)
    world.claim({A: {"VCPU": 1}, NODE: {"DISK_GB": 5}}, DISK)
    sharing = {shared: ["MISC_SHARES_VIA_AGGREGATE"]}
    reached = {B: [aggregate], shared: [aggregate]}
    query = "resources=VCPU:1,DISK_GB:5"

    told = what_if(
        place, {"traits": sharing}, {"aggregates": reached}, {"drain": A}, query=query
    ).json

    assert told["after"]["candidates"]["count"] == 1
    assert DISK in [each["uuid"] for each in told["homeless"]]


def test_a_removed_consumer_is_not_homeless(place: Service) -> None:
    """The one that found no other place is removed after all."""
    assert [each["uuid"] for each in what_if(place, {"drain": A}).json["homeless"]] == [LARGE]

    assert what_if(place, {"drain": A}, {"remove": LARGE}).json["homeless"] == []


def test_changes_are_made_in_order(place: Service) -> None:
    """Who is removed before needs no other place, and leaves its own free."""
    told = what_if(
        place, {"remove": SMALL}, {"drain": A}, {"place": "resources=VCPU:1", "times": 9}
    )
    assert told.json["homeless"] == []
    assert told.json["placed"] == [{"asked": 9, "placed": 2}]
    assert told.json["after"]["candidates"]["count"] == 0
    assert told.json["after"]["largest"][0]["would_do"] is None


NOBODY = "1f000000-0000-4000-8000-00000000000f"


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"place": "resources=VCPU:0"}, 400, "amount >= 1"),
        ({"place": "required=VCPU"}, 400, "resources"),
        ({"place": "resources=CUSTOM_NOTHING:1"}, 400, "CUSTOM_NOTHING"),
        ({"inventories": {NOBODY: {}}}, 404, "No resource provider"),
        ({"inventories": {A: {"CUSTOM_NOTHING": {"total": 1}}}}, 400, "CUSTOM_NOTHING"),
        ({"inventories": {A: {"VCPU": {"total": 1, "reserved": 2}}}}, 400, "reserved value"),
        ({"aggregates": {A: ["x"]}}, 400, "x"),
        ({"drain": A, "remove": SMALL}, 400, "drain"),
        ({}, 400, "{}"),
    ],
)
def test_mistakes_are_those_of_the_writes(
    place: Service, change: Any, status: int, words: str
) -> None:
    answer = what_if(place, change)
    assert answer.status_int == status, answer.text
    assert words in answer.text


def test_more_than_a_hundred_changes_are_too_many(place: Service) -> None:
    assert what_if(place, *[{"remove": SMALL}] * 101).status_int == 400


def test_placements_end_at_the_bound() -> None:
    with running(insight__enabled=True, insight__work_factor=1) as service:
        World(service).host(A, VCPU=99)
        told = what_if(service, {"place": "resources=VCPU:1", "times": 50}).json
    assert told["placed"] == [{"asked": 50, "placed": 10}]
    assert told["complete"] is False


def test_neither_the_picture_nor_the_database_is_touched(
    place: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    look = Picture.look

    def watched(self: Picture, *given: Any) -> Any:
        seen.append(self)
        return look(self, *given)

    monkeypatch.setattr(Picture, "look", watched)
    what_if(place)
    before = read_cloud(seen[0], columns_of)
    changes = (
        {"drain": A},
        {"place": "resources=VCPU:1", "times": 3},
        {"traits": {B: ["HW_CPU_X86_VMX"]}},
        {"inventories": {B: {"VCPU": {"total": 9}, "DISK_GB": {"total": 1}}}},
    )
    with recorder.recorded(place.db) as statements:
        assert what_if(place, *changes).status_int == 200

    assert read_cloud(seen[0], columns_of) == before
    assert {statement.split()[0] for statement in statements} == {"SELECT"}


PLAIN = ("", "x", 0, -1, 1.5, None, "resources=VCPU:1")
VALUES = (*PLAIN, A, B, NODE, SMALL, NOBODY, [], {}, [A], {A: []})
CHANGES = ("drain", "remove", "place", "times", "inventories", "traits", "aggregates")
OTHERS = ("changes", "query", A, "VCPU", "total")


def junk(random: Random, depth: int = 3) -> Any:
    """Return a value that looks a little like a part of a body."""
    kind = random.randrange(4 if depth else 2)
    if kind == 2:
        return [junk(random, depth - 1) for _ in range(random.randrange(3))]
    if kind == 3:
        names = random.sample((*CHANGES, *OTHERS), random.randrange(4))
        return {name: junk(random, depth - 1) for name in names}
    return random.choice(VALUES)


SOUND = (
    {"drain": A},
    {"drain": NODE},
    {"drain": B},
    {"remove": SMALL},
    {"remove": LARGE},
    {"place": "resources=VCPU:1&resources_X=VCPU:1&group_policy=isolate", "times": 2},
    {"place": "resources=VCPU:3"},
    {"inventories": {B: {"VCPU": {"total": 1}}}},
    {"inventories": {B: {}, NODE: {"VCPU": {"total": 50, "step_size": 5}}}},
    {"traits": {A: ["MISC_SHARES_VIA_AGGREGATE"], B: []}},
    {"aggregates": {A: ["a0000000-0000-4000-8000-000000000001"], B: []}},
)


EMPTIES_B = SOUND[8]
PAIR = "resources_1=VCPU:1&resources_2=VCPU:1&group_policy=isolate&same_subtree=_1,_2"

DEADLINES = (*range(5, 200, 5), *(2**n for n in range(8, 16)))
"""In looks at the clock."""


def test_no_number_after_a_drain_is_larger_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the deadline cuts: the clock goes on with each look at it."""
    monkeypatch.setattr(search_bounds, "monotonic", itertools.count().__next__)
    cut = 0
    with running(insight__enabled=True, insight__work_factor=1600) as service:
        world, deadline = World(service), partial(service.conf.set_override, group="api")
        for number in range(6):
            host = world.provider(f"h{number}", None, {"VCPU": 6})
            for part in range(3):
                world.provider(f"h{number} {part}", host, {"VCPU": 6})
        world.claim({host: {"VCPU": 2}}, SMALL)
        for looks in DEADLINES:
            deadline("search_deadline", looks)
            told = what_if(service, {"drain": host}, query=PAIR).json
            assert told["before"]["capacity"]["count"] >= told["after"]["capacity"]["count"], looks
            assert told["before"]["candidates"]["count"] >= told["after"]["candidates"]["count"], looks
            cut += not told["before"]["capacity"]["complete"]
    assert 5 < cut < len(DEADLINES)


def test_any_order_of_sound_changes_is_tried_out(place: Service) -> None:
    """The first change that cannot be made is the answer, and nothing after it is read_cloud at.

    Only two cannot: to remove a consumer that an earlier change has removed (404), and to take the inventory
    of B away after an earlier change has put something there (409).
    """

    @worlds.seeds(100, 8391302363488562963)
    def anything(random: Random) -> None:
        changes = random.choices(SOUND, k=random.randrange(8))
        answer = what_if(place, *changes)
        again = [n for n, one in enumerate(changes) if "remove" in one and one in changes[:n]]
        if answer.status_int == 200:
            assert not again, changes
            return
        number = first_refused(place, changes)
        alone = what_if(place, *changes[: number + 1])
        assert detail(alone) == detail(answer), changes
        if answer.status_int == 404:
            assert number == again[0], (changes, answer.text)
            assert changes[number]["remove"] in detail(answer)
        else:
            assert answer.status_int == 409, (changes, answer.text)
            assert changes[number] == EMPTIES_B
            assert {"drain": B} not in changes[:number]
            assert any("drain" in one or "place" in one for one in changes[:number]), changes
            assert not any(n < number for n in again), changes

    anything()


def detail(answer: Any) -> str:
    """Return what an error says."""
    return str(answer.json["errors"][0]["detail"])


def first_refused(place: Service, changes: list[Any]) -> int:
    """Return the place of the first change that cannot be made after those before it."""
    return next(
        number
        for number in range(len(changes))
        if what_if(place, *changes[: number + 1]).status_int != 200
    )


def test_any_body_is_answered_without_a_failure_of_ours(place: Service) -> None:
    @worlds.seeds(300)
    def anything(random: Random) -> None:
        body = junk(random)
        if worlds.one_in(random, 2):
            changes = [{random.choice(CHANGES): junk(random)} for _ in range(random.randrange(4))]
            body = {"changes": changes, "query": "resources=VCPU:1"}
        answer = place.request("POST", "/-/what-if", json={} if body is None else body)
        assert answer.status_int in (200, 400, 404, 409), (body, answer.text)

    anything()
