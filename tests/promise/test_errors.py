"""Every statement of every write fails in turn with every error; the answer and the state are right.

PROMISE 4 to 7. Exhaustive: each request is recorded, then repeated once for each of its statements
(BEGIN, COMMIT and ROLLBACK included), each error of the database, before and after the statement takes
effect, once and at every attempt. What must come out is said by ``expected`` alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.promise import scenes
from tests.promise.injection import FAULTS, Fault, Injection, injected, recorded
from tests.promise.scenes import (
    ANN,
    BLUE,
    BOB,
    CHILD,
    HELD,
    HOLDER,
    HOST,
    NEW,
    OTHER,
    RED,
    TREE,
    Scene,
    claim,
    delete,
    entry,
    many,
    provider,
    release,
    stock,
    stock_one,
)
from tests.promise.stage import Order, Rows, Stage, stage
from tests.support.databases import KINDS

BEGIN = ("BEGIN", "START TRANSACTION")

PROVIDER = (provider(HOST),)
MARKED = (*PROVIDER, scenes.TRAIT, scenes.traits(0, "CUSTOM_A", "HW_CPU_X86_VMX"))
GROUPED = (*PROVIDER, scenes.aggregates(0, RED))
FAMILY = (*TREE, provider(OTHER))
RECORD = {"resource_class": "DISK_GB", "total": 5}

REQUESTS = tuple(
    Scene(name, before, (order,))
    for name, before, order in (
        ("create provider", (), provider(HOST)),
        ("create child", PROVIDER, provider(CHILD, HOST)),
        ("create provider twice", PROVIDER, provider(HOST)),
        (
            "rename provider",
            PROVIDER,
            Order("PUT", f"/resource_providers/{HOST}", {"name": "new"}),
        ),
        ("move provider", FAMILY, scenes.adopt(HOST, OTHER)),
        ("delete provider", MARKED[:1], delete(HOST)),
        ("delete provider in use", HELD, delete(HOST)),
        ("add inventory", HELD, Order("POST", f"/resource_providers/{HOST}/inventories", RECORD)),
        ("replace inventories", HELD, stock(HOST, 2, VCPU=8, MEMORY_MB=1)),
        ("replace inventory", HELD, stock_one(HOST, 2, "VCPU", 3)),
        ("replace inventory too late", HELD, stock_one(HOST, 1, "VCPU", 3)),
        ("delete inventory", scenes.FREE, delete(HOST, "/inventories/VCPU")),
        ("delete inventories", scenes.FREE, delete(HOST, "/inventories")),
        ("aggregates", GROUPED, scenes.aggregates(1, BLUE)),
        ("traits", MARKED, scenes.traits(1, "CUSTOM_A", "HW_GPU_API_VULKAN")),
        ("delete traits", MARKED, delete(HOST, "/traits")),
        ("create trait", (), scenes.TRAIT),
        ("delete trait", (scenes.TRAIT,), scenes.NO_TRAIT),
        ("create class", (), Order("POST", "/resource_classes", {"name": "CUSTOM_C"})),
        ("ensure class", (), scenes.CLASS),
        (
            "rename class",
            (scenes.CLASS,),
            Order("PUT", "/resource_classes/CUSTOM_C", {"name": "CUSTOM_D"}, "1.6"),
        ),
        ("delete class", (scenes.CLASS,), scenes.NO_CLASS),
        ("claim", HELD, claim(ANN, VCPU=1)),
        ("claim too much", HELD, claim(ANN, VCPU=3)),
        (
            "claim for new owners",
            HELD,
            many({ANN: entry({HOST: {"VCPU": 1}}, project_id="new", consumer_type="NEW")}),
        ),
        ("replace claim", HELD, claim(HOLDER, generation=1, VCPU=4)),
        ("empty claim", HELD, claim(HOLDER, generation=1)),
        (
            "claims of many",
            HELD,
            many(
                {
                    HOLDER: entry({}, 1),
                    ANN: entry({HOST: {"VCPU": 2}}),
                    BOB: entry({HOST: {"VCPU": 2}}),
                }
            ),
        ),
        ("release", HELD, release(HOLDER)),
        ("reshape", TREE, scenes.reshape(2, 0, holder=(1, 2), ann=(None, 1))),
        ("adopt a root", (*FAMILY, provider(NEW, OTHER)), scenes.adopt(OTHER, CHILD)),
    )
)


@dataclass(frozen=True)
class Clean:
    """What a request does undisturbed: statements, answer, state before and after."""

    statements: list[str]
    status: int
    before: str
    after: str


@pytest.fixture(scope="module", params=KINDS)
def place(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with stage(request.param, players=1) as made:
        yield made


def expected(injection: Injection, clean: Clean) -> tuple[int, str]:
    """Return the status and the state that are right."""
    fault, statement = injection.fault, injection.text
    if statement == "ROLLBACK":
        return clean.status, clean.before
    if fault.meaning == "refused":
        return 503, clean.before
    if fault.meaning == "fatal":
        return 500, clean.before
    if fault.meaning == "gone" and statement == "COMMIT":
        return 503, clean.after if injection.after else clean.before
    # Also where the next attempt does without this statement, as that of an everyday claim does.
    if not injection.always or injection.struck == 1:
        return clean.status, clean.after
    begins = next(n for n, text in enumerate(clean.statements) if text.startswith(BEGIN))
    if fault.meaning == "gone" or clean.statements.index(statement) < begins:
        # Before the transaction there is only reading.
        return 503, clean.before
    return 409, clean.before


def undisturbed(place: Stage, scene: Scene, rows: Rows) -> Clean:
    """Send the request once as it is."""
    place.put_back(rows)
    before = place.picture()
    with recorded(place.players[0].db) as statements:
        answer = scene.orders[0].send(place.players[0])
    place.assert_sound()
    return Clean(list(statements), answer.status_int, before, place.picture())


def injections(kind: str, clean: Clean) -> Iterator[Injection]:
    """Yield everything that can go wrong."""
    for number, statement in enumerate(clean.statements):
        for fault in FAULTS[kind]:
            yield Injection(fault, number, statement)
            # Only a lost connection hides that a COMMIT took effect.
            if statement != "COMMIT" or fault.meaning == "gone":
                yield Injection(fault, number, statement, after=True)
        for fault in _lasting(kind):
            yield Injection(fault, number, statement, always=True)


def _lasting(kind: str) -> list[Fault]:
    """Return the faults that are also tried at every attempt: one conflict, and the lost connection."""
    faults = FAULTS[kind]
    return [faults[0], *(fault for fault in faults if fault.meaning == "gone")]


@pytest.mark.parametrize("scene", REQUESTS, ids=lambda scene: scene.name.replace(" ", "-"))
def test_each_statement_fails_with_each_error(
    place: Stage, scene: Scene, record_property: Any
) -> None:
    rows = place.prepare(scene.before)
    clean = undisturbed(place, scene, rows)
    count = 0
    for injection in injections(place.kind, clean):
        place.put_back(rows)
        with injected(place, place.players[0].db, injection):
            answer = scene.orders[0].send(place.players[0])
        status, state = expected(injection, clean)
        said = f"{scene.name} on {place.kind}, {injection}: {answer.text}"
        assert injection.struck, said
        assert answer.status_int == status, said
        assert place.picture() == state, said
        count += 1
    record_property("runs", count)
    print(f"{scene.name} on {place.kind}: {count} faults in {len(clean.statements)} statements")
