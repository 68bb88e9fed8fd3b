"""Changes of allocations that share a transaction do what they do one after the other, in some order.

PROMISE 1, 3, 4 and 7. A batch of requests of one process is played beside a request, or a batch, of another:
all interleavings with at most ``PLACEMENT_SWITCHES``. Batches by chance have nobody beside them.
"""

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.objects import allocation
from tests.proofs.promise.scenes import (
    ANN,
    BOB,
    FREE,
    FULL,
    HELD,
    HOLDER,
    HOST,
    NEW,
    OTHER,
    TREE,
    blind_claim,
    claim,
    delete,
    many,
    provider,
    release,
    reshape,
    stock,
)
from tests.proofs.promise.scheduler import Choose, Conductor, Run, interleavings, outcome_of
from tests.proofs.promise.shared import Batch, write_together
from tests.proofs.promise.stage import Order, Rows, Stage, stage
from tests.support.bodies import entry
from tests.support.databases import MAIN_ROUTES
from tests.support.effort import LONG, examples

SWITCHES = int(os.environ.get("PLACEMENT_SWITCHES", "2" if LONG else "1"))
HANGS_S = 60.0

Outcome = tuple[tuple[tuple[int, str], ...], str]

TWO_HOSTS = (*HELD, provider(OTHER), stock(OTHER, 0, VCPU=4))
SWAPPED = (
    *(provider(HOST), stock(HOST, 0, VCPU=2), claim(ANN, VCPU=2)),
    *(provider(OTHER), stock(OTHER, 0, VCPU=2), claim(BOB, OTHER, VCPU=2)),
)
"""Two full hosts, whose consumers may want to change places."""


@dataclass(frozen=True)
class SharedScene:
    """The orders that make the state before, and the orders of each process that arrive there together."""

    name: str
    before: Sequence[Order]
    processes: Sequence[Sequence[Order]]


def new_owner(consumer: str, **resources: int) -> Order:
    """Claim for a project, a user and a type that do not exist yet."""
    return many({consumer: entry({HOST: resources}, project_id="new", consumer_type="NEW")})


SCENES = (
    SharedScene(
        "claims-claim", HELD, ([claim(ANN, VCPU=1), claim(BOB, VCPU=1)], [claim(NEW, VCPU=1)])
    ),
    SharedScene(
        "claims-claims",
        TWO_HOSTS,
        (
            [claim(ANN, VCPU=2), claim(BOB, OTHER, VCPU=2)],
            [claim(NEW, OTHER, VCPU=3), claim(HOLDER, generation=1, VCPU=4)],
        ),
    ),
    SharedScene(
        "claims-shrink",
        FREE,
        ([claim(ANN, VCPU=2), claim(BOB, VCPU=1)], [stock(HOST, 1, VCPU=2)]),
    ),
    SharedScene(
        "claims-delete",
        (*FREE, provider(OTHER), stock(OTHER, 0, VCPU=4)),
        ([claim(ANN, VCPU=2), claim(BOB, OTHER, VCPU=1)], [delete(HOST)]),
    ),
    SharedScene(
        "release-claim", FULL, ([release(HOLDER), claim(ANN, VCPU=2)], [claim(BOB, VCPU=1)])
    ),
    SharedScene(
        "replace-release",
        HELD,
        ([claim(HOLDER, generation=1, VCPU=3), claim(ANN, VCPU=1)], [release(HOLDER)]),
    ),
    SharedScene(
        "replace-reshape",
        TREE,
        ([claim(ANN, VCPU=1), claim(HOLDER, generation=1)], [reshape(2, 0, holder=(1, 2))]),
    ),
    SharedScene(
        "blind-blind",
        TWO_HOSTS,
        ([blind_claim(HOLDER, VCPU=3), claim(ANN, OTHER, VCPU=1)], [blind_claim(HOLDER, VCPU=4)]),
    ),
    SharedScene(
        "same-consumer", FREE, ([claim(ANN, VCPU=1), claim(ANN, VCPU=2)], [claim(BOB, VCPU=3)])
    ),
    SharedScene(
        "change-places",
        SWAPPED,
        ([claim(ANN, OTHER, 1, VCPU=2), claim(BOB, HOST, 1, VCPU=2)], [release(ANN)]),
    ),
    SharedScene(
        "owners",
        FREE,
        ([new_owner(ANN, VCPU=1), new_owner(BOB, VCPU=1)], [new_owner(NEW, VCPU=1)]),
    ),
    SharedScene(
        "refused-between",
        FREE,
        (
            [claim(ANN, VCPU=1), claim(BOB, NEW, VCPU=1), release(BOB), claim(HOLDER, VCPU=9)],
            [claim(NEW, VCPU=4)],
        ),
    ),
)


@pytest.fixture(scope="module", params=MAIN_ROUTES)
def place(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with stage(request.param, players=2) as made, pytest.MonkeyPatch.context() as patched:
        # Whether a lock comes in time must not depend on the clock.
        patched.setattr(allocation, "SHARED_LOCK_S", HANGS_S)
        yield made


def picture(place: Stage) -> str:
    """Return the state, with only whether the revision of a provider has moved: it counts transactions."""
    return re.sub(r'"revision": [1-9]\d*', '"revision": "moved"', place.picture())


def in_turn(place: Stage, before: Rows, orders: Sequence[Order]) -> set[Outcome]:
    """Return what comes of the orders one after the other, for all their orders."""
    outcomes = set()
    for turns in itertools.permutations(range(len(orders))):
        place.put_back(before)
        answers = {number: outcome_of(orders[number].send(place.players[0])) for number in turns}
        outcomes.add((tuple(answers[number] for number in range(len(orders))), picture(place)))
    return outcomes


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: str(scene.name))
def test_a_batch_beside_another_process(place: Stage, scene: SharedScene) -> None:
    before = place.prepare(scene.before)
    serial = in_turn(place, before, [order for orders in scene.processes for order in orders])
    players = [Batch(orders) if len(orders) > 1 else orders[0] for orders in scene.processes]

    def play(choose: Choose, first: int = 0) -> Run:
        place.put_back(before)
        run = Conductor(place, players).run(choose, first)
        outcome = run.answers, picture(place)
        assert outcome in serial, f"{run.schedule}: {outcome} is none of {serial}"
        place.assert_sound()
        return run

    assert len({run.schedule for run in interleavings(play, SWITCHES)}) >= len(players)


HOSTS = {HOST: 4, OTHER: 2}
CONSUMERS = (ANN, BOB, HOLDER)
STATE = (
    *(order for uuid, total in HOSTS.items() for order in (provider(uuid), stock(uuid, 0, VCPU=total))),
    *(claim(HOLDER, VCPU=2), claim(BOB, OTHER, VCPU=1)),
)
AMOUNTS = st.integers(1, 5)
GENERATIONS = st.sampled_from([None, 1, 1, 2])
CLAIMS = st.builds(
    lambda consumer, host, generation, amount: claim(consumer, host, generation, VCPU=amount),
    st.sampled_from(CONSUMERS),
    st.sampled_from([*HOSTS, NEW]),
    GENERATIONS,
    AMOUNTS,
)
EMPTIED = st.builds(
    lambda consumer, generation: claim(consumer, generation=generation),
    st.sampled_from(CONSUMERS),
    st.just(1),
)
SWAPS = st.builds(
    lambda one, other, amount: many(
        {
            one[0]: entry({}, 1),
            other[0]: entry({one[1]: {"VCPU": amount}}, other[2]),
        }
    ),
    st.sampled_from([(HOLDER, HOST), (BOB, OTHER)]),
    st.sampled_from([(ANN, HOST, None), (ANN, HOST, 1)]),
    AMOUNTS,
)
BLIND = st.builds(
    lambda consumer, amount: blind_claim(consumer, VCPU=amount), st.sampled_from(CONSUMERS), AMOUNTS
)
RELEASES = st.builds(release, st.sampled_from(CONSUMERS))
REQUESTS = st.one_of(CLAIMS, CLAIMS, EMPTIED, SWAPS, BLIND, RELEASES)
BATCHES = st.lists(REQUESTS, min_size=2, max_size=4 if LONG else 3)


@pytest.fixture(scope="module")
def mixed(place: Stage) -> Rows:
    """The state before batches by chance."""
    return place.prepare(STATE)


@settings(max_examples=examples(60), deadline=None)
@given(orders=BATCHES)
def test_batches_by_chance(place: Stage, mixed: Rows, orders: Sequence[Order]) -> None:
    serial = in_turn(place, mixed, orders)
    place.put_back(mixed)
    answers = tuple(outcome_of(answer) for answer in Batch(orders).send(place.players[0]))
    assert (answers, picture(place)) in serial
    place.assert_sound()


def test_claims_that_fit_share_one_transaction(place: Stage) -> None:
    """The batch does what it is for: nothing is written alone, and each request steps its provider."""
    before = place.prepare((provider(HOST), stock(HOST, 0, VCPU=4)))
    place.put_back(before)
    orders = [claim(uuid, VCPU=1) for uuid in (ANN, BOB, NEW)]
    changes = Batch(orders).changes()

    assert write_together(place.players[0].db, changes) == [True] * 3

    shown = Order("GET", f"/resource_providers/{HOST}").send(place.players[0]).json
    assert shown["generation"] == 4


def test_a_refused_request_leaves_the_others_together(place: Stage) -> None:
    place.put_back(place.prepare(FREE))
    refused = claim(BOB, VCPU=9), claim(BOB, NEW, VCPU=1), release(HOLDER), claim(BOB, generation=7)
    changes = Batch([claim(ANN, VCPU=1), *refused, claim(NEW, VCPU=1)]).changes()

    written = write_together(place.players[0].db, changes)

    assert written == [True, *[False] * len(refused), True]


def test_requests_that_are_all_refused_are_answered_alone(place: Stage) -> None:
    place.put_back(place.prepare(FREE))
    changes = Batch([release(ANN), release(BOB)]).changes()

    assert write_together(place.players[0].db, changes) == [False, False]
