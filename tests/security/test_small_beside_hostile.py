"""Small requests are answered while the dearest ones that are legal run in the same processes (PROMISE 9).

Hostile clients send such requests without pause to a server that gives each of them a second. Small reads and
claims of others come in between: they may take turns with the dear ones, and do not wait for them to end.
"""

import itertools
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.proofs.races.test_gang_races import asked_for
from tests.support.client import Answer, Client
from tests.support.effort import LONG, in_one_process
from tests.support.racing import Arena, arena
from tests.support.world import World, new_uuid

HOSTS, SMALL = 20, 20
OPTIONS = "[insight]\nenabled = true\n[api]\nsearch_deadline = 1"
HARD = "&".join(
    ["group_policy=isolate"]
    + [f"resources_{n}=VCPU:9&required_{n}=HW_GPU_API_VULKAN" for n in range(64)]
)
"""No demand that is dropped helps, nor any pair."""
DEVICES = "&".join(
    [
        "group_policy=none",
        "resources=VCPU:60",
        *(f"resources_{n}=SRIOV_NET_VF:3" for n in range(40)),
    ]
)
"""Forty groups that nearly fit into two devices of each host."""
RACKS = [new_uuid() for _ in range(1000)]


def claims(*queries: str, **more: Any) -> dict[str, Any]:
    """Return the body of as many claims as may be sent, with these queries in turn."""
    body = asked_for(1000, **more)
    for number, each in enumerate(body["claims"]):
        each["query"] = queries[number % len(queries)]
    return body


def grouped() -> dict[str, Any]:
    """Return a hundred groups of a thousand aggregates, each consumer a member of eight."""
    names = [new_uuid() for _ in range(100)]
    rule = {"rule": "apart", "level": "aggregate", "of": RACKS}
    body = asked_for(100)
    for number, each in enumerate(body["claims"]):
        each["groups"] = [names[(number + step) % 100] for step in range(8)]
    return body | {"groups": dict.fromkeys(names, rule)}


def changed(query: str) -> dict[str, Any]:
    return {"changes": [{"place": query, "times": 20}] * 100, "query": query}


HOSTILE: dict[str, tuple[str, str, Callable[[], Any]]] = {
    "claims that nothing takes": ("POST", "/-/claims", partial(claims, HARD)),
    "claims that nearly fit": ("POST", "/-/claims", partial(claims, DEVICES)),
    "a thousand queries": (
        "POST",
        "/-/claims",
        partial(claims, *(f"{HARD}&resources=MEMORY_MB:{n}" for n in range(1, 1001))),
    ),
    "groups": ("POST", "/-/claims", grouped),
    "explain": ("GET", f"/-/explain?{HARD}", lambda: None),
    "what-if": ("POST", "/-/what-if", partial(changed, DEVICES)),
}


KINDS = ("sqlite", "postgresql") if LONG else ("sqlite",)


@pytest.fixture(scope="module", params=in_one_process("beside hostile", *KINDS))
def place(request: pytest.FixtureRequest) -> Iterator[Arena]:
    """One server with six threads, and hosts with devices of which half is in use."""
    with arena(request.param, 1, OPTIONS) as made:
        world = World(made)
        for _ in range(HOSTS):
            host = world.host(VCPU=64, MEMORY_MB=4096)
            for _ in range(2):
                world.provider(None, host, {"SRIOV_NET_VF": 64})
            world.claim({host: {"VCPU": 1}})
        yield made


def send_small(client: Client, host: str, number: int) -> None:
    """Send a small read or claim, which must be answered.

    A claim may be given up at its own deadline: a gang that is written locks the hosts which it wants.
    """
    if number % 2:
        answer = client.send("GET", f"/resource_providers/{host}/inventories")
        assert answer.status == 200, answer
    else:
        answer = client.send("POST", "/-/claims", asked_for(1))
        assert answer.status == 200 or answer.code == "placement.search_given_up", answer


@pytest.mark.parametrize("kind", HOSTILE)
def test_small_requests_are_answered_beside(place: Arena, kind: str) -> None:
    """Most are answered before the dear ones are that were under way when they came.

    What counts is the order of the answers, so that it is the same on a busy machine.
    """
    method, path, body = HOSTILE[kind]
    host = World(place).host(VCPU=10**6)
    over, numbers = threading.Event(), itertools.count()
    under_way, dear, waited = set[int](), list[Answer](), list[bool]()

    def attack(client: Client) -> None:
        while not over.is_set():
            sent, number = body(), next(numbers)
            under_way.add(number)
            dear.append(client.send(method, path, sent))
            under_way.remove(number)

    def beside(client: Client) -> None:
        try:
            while len(waited) < SMALL:
                before = under_way.copy()
                send_small(client, host, len(waited))
                if before:
                    waited.append(before.isdisjoint(under_way))
        finally:
            over.set()

    place.race([attack, attack, attack, beside])

    print(f"{kind}: {len(dear)} dear, {sum(waited)} of {len(waited)} small ones waited for them")
    statuses = {answer.status for answer in dear}
    assert statuses <= {200, 409, 503}, [answer.text[:300] for answer in dear][:3]
    assert all(answer.code.endswith("search_given_up") for answer in dear if answer.status == 503)
    assert sum(waited) < SMALL / 4
