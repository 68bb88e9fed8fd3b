"""The first of several queries that can be granted, by brute force (specification 09 section 3)."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from random import Random
from typing import NamedTuple

from placement.placing.alternatives import Preferred, choose_first, list_serving
from placement.placing.choose import choose
from placement.placing.wishes import ChosenPlace, GroupState, NoPlace, Wish
from placement.search.records import ProviderRecord
from placement.search.request import CandidateRequest, Group, NameSets
from placement.search.work import Work, WorkEnded
from tests.placing.test_choose import (
    MEMORY,
    PROCESSORS,
    Asked,
    Case,
    cloud_of,
    drawn,
    drawn_tight,
    fits,
    require_sound,
    uuid_of,
)
from tests.search.builders import load
from tests.search.oracle import Oracle
from tests.search.worlds import cloud, inventory, request, seeds
from tests.support.effort import LONG


def placed_alone(
    records: list[ProviderRecord], requests: Sequence[CandidateRequest]
) -> Preferred | NoPlace:
    seen = load(records)
    return choose_first(
        lambda positions, work: choose(
            seen, None, [Wish(requests[positions[0]])], {}, "any", work, None
        ),
        [len(requests)],
        [None],
        Work(),
    )


@seeds(1500 if LONG else 500)
def test_a_claim_gets_the_first_query_that_has_a_candidate(draw: Random) -> None:
    """Of one to four queries on a small cloud, against the oracle; none gets a place where none has any."""
    records = cloud(draw)
    requests = [request(draw, records, options=False) for _ in range(4)]
    # The API refuses one that asks for no resources.
    requests = [each for each in requests if each.amounts][: draw.randint(1, 4)]
    if not requests:
        return
    oracle = Oracle(records)
    expected = [number for number, each in enumerate(requests) if oracle.candidates(each)]

    found = placed_alone(records, requests)

    if isinstance(found, NoPlace):
        assert found.exact
        assert not expected
    else:
        assert found.exact
        assert found.positions == expected[:1]
        ids = load(records).ids
        allocations = {
            (int(ids[index]), name, amount)
            for index, held in found.places[0].allocations.items()
            for name, amount in held.items()
        }
        taken = {each for each, _ in oracle.candidates(requests[expected[0]])}
        assert frozenset(allocations) in taken


@seeds(200, 7663761401154999567)
def test_what_happens_to_providers_that_cannot_serve_changes_nothing(draw: Random) -> None:
    """A request without a candidate gets none by new inventories of all providers that are not listed."""
    records = cloud(draw)
    asked = request(draw, records, options=False)
    if Oracle(records).candidates(asked):
        return
    serving = set(list_serving(load(records), [asked]).tolist())

    richer = [
        each
        if each.provider_id in serving
        else replace(each, inventories={name: inventory(draw) for name in ("VCPU", "DISK_GB", "VF")})
        for each in records
    ]

    assert not Oracle(richer).candidates(asked)


def test_providers_that_only_lack_room_are_listed_and_others_are_not() -> None:
    draw = Random(1)
    full, other = (
        ProviderRecord(number, f"u{number}", 1, None, number, {"VCPU": inventory(draw)}, traits)
        for number, traits in ((1, frozenset(["T1"])), (2, frozenset[str]()))
    )
    asked = CandidateRequest((Group("", {"VCPU": 1000}, (frozenset(["T1"]),)),))

    assert list_serving(load([full, other]), [asked]).tolist() == [1]


# -- gangs ---------------------------------------------------------------------------------------


class Choice(NamedTuple):
    """A case whose ``asked`` are the first alternatives, and all alternatives of each."""

    case: Case
    options: list[list[Asked]]

    def at(self, positions: Sequence[int]) -> Case:
        """The case in which those of the first claims that have a position ask for it."""
        asked = [each[n] for each, n in zip(self.options, positions, strict=False)]
        return self.case._replace(asked=asked)

    def first(self) -> list[int] | None:
        """The first positions that fit, by trying all of them in order."""
        ways = product(*(range(len(each)) for each in self.options))
        return next((list(each) for each in ways if fits(self.at(each))), None)


def drawn_choice(draw: Random) -> Choice:
    case = draw.choice([drawn, drawn_tight])(draw)
    case = case._replace(asked=case.asked[:3])
    kinds = [(draw.randint(1, 3), draw.randint(1, 3)) for _ in range(3)]
    # Some claims are alike: their options are one and the same list.
    lists = [draw.sample(kinds, draw.randint(1, 3)) for _ in range(2)]
    options = [
        [Asked(*kind, asked.groups) for kind in dict.fromkeys(draw.choice(lists))]
        for asked in case.asked
    ]
    return Choice(case, options)


def placed(choice: Choice, draw: Random, work: Work) -> Preferred | NoPlace:
    case = choice.case
    requests = {
        asked[:2]: CandidateRequest(
            (Group("", {MEMORY: asked.memory}), Group("_1", {PROCESSORS: asked.processors}))
        )
        for each in choice.options
        for asked in each
    }
    aggregates = {uuid_of(index): host.racks for index, host in enumerate(case.hosts)}
    groups = {
        name: GroupState(rule, [case.domains(name, host) for host in case.members[name]], aggregates)
        for name, rule in case.rules.items()
    }
    seen, strategy = cloud_of(case), draw.choice(["any", "spread", "pack"])

    def place(positions: Sequence[int], work: Work) -> Sequence[ChosenPlace] | NoPlace:
        wishes = [Wish(requests[each[:2]], each.groups) for each in choice.at(positions).asked]
        return choose(seen, NameSets(), wishes, groups, strategy, work, draw)

    twins = [
        max((n for n in range(number) if choice.options[n] == each), default=None)
        for number, each in enumerate(choice.options)
    ]
    return choose_first(place, [len(each) for each in choice.options], twins, work)


@seeds(90)
def test_a_gang_gets_the_first_queries_that_fit_together(draw: Random) -> None:
    """In the order of a dictionary, against all ways of all positions; a refusal is certain and right."""
    choice = drawn_choice(draw)
    expected = choice.first()

    found = placed(choice, draw, Work())

    assert found.exact
    if isinstance(found, NoPlace):
        assert expected is None
    else:
        assert found.positions == expected
        require_sound(choice.at(expected), found.places)


@seeds(60)
def test_what_ends_early_is_sound_and_exact_only_where_nothing_comes_before(draw: Random) -> None:
    """Whatever ends first, the work or the time: what is certain is true."""
    choice = drawn_choice(draw)
    looks = iter(range(draw.randint(0, 40), 0, -1))
    work = draw.choice([Work(limit=draw.randint(0, 60)), Work(remaining_s=lambda: next(looks, 0))])

    try:
        found = placed(choice, draw, work)
    except WorkEnded:
        return

    if isinstance(found, NoPlace):
        assert not (found.exact and choice.first())
    else:
        require_sound(choice.at(found.positions), found.places)
        assert not found.exact or found.positions == choice.first()


def test_many_equal_claims_cost_few_tries() -> None:
    """A third fits by the first query, and all others by the second: 2 ** 60 positions are not tried."""
    tries, claims = 0, 60

    def place(positions: Sequence[int], work: Work) -> Sequence[ChosenPlace] | NoPlace:
        nonlocal tries
        tries += 1
        if positions.count(0) > claims // 3:
            return NoPlace(0, load([]), exact=True)
        return [ChosenPlace(0, (), {}, {})] * len(positions)

    found = choose_first(place, [2] * claims, [None, *range(claims - 1)], Work())

    assert isinstance(found, Preferred)
    assert found.positions == [0] * (claims // 3) + [1] * (claims - claims // 3)
    assert tries < 15
