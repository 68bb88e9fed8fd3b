"""Claims decided here at the same moment, through several servers: gangs, groups, killed workers.

Specification 09. PLACEMENT_RACE_ROUNDS says how often each race is run.
"""

import contextlib
import http.client
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import select

from placement.db import models
from tests.proofs.races.test_claim_races import CLIENTS, host, rounds, used
from tests.support.client import HANGS_S, Answer, Client
from tests.support.clock import let_holds_end
from tests.support.databases import KINDS
from tests.support.racing import ARENAS, Arena, arena, emptied_arena
from tests.support.world import new_uuid

WORKERS = 200
"""Of the long mode."""


@pytest.fixture(params=ARENAS)
def place(request: pytest.FixtureRequest) -> Iterator[Arena]:
    """Three servers on an empty database."""
    with emptied_arena(request.param) as made:
        yield made


def gang(client: Client, size: int, **more: Any) -> Answer:
    """Let the service choose for so many new consumers of one processor each."""
    return client.send("POST", "/-/claims", asked_for(size, **more))


def asked_for(size: int, **more: Any) -> dict[str, Any]:
    """Return the body that claims for so many new consumers of one processor each."""
    groups = [*more.get("groups", ())]
    claims = [
        {
            "consumer_uuid": new_uuid(),
            "consumer_generation": None,
            "project_id": "p",
            "user_id": "u",
            "consumer_type": "INSTANCE",
            "query": "resources=VCPU:1",
            "groups": groups,
        }
        for _ in range(size)
    ]
    return {"claims": claims, **more}


def cloud_for(place: Arena, clients: int, largest: int) -> tuple[list[list[int]], dict[str, int]]:
    """Draw the sizes of four gangs of each client, and make hosts that they fill exactly.

    The hosts have their totals, ``largest`` at the most, by uuid.
    """
    sizes = [[random.randint(1, 8) for _ in range(4)] for _ in range(clients)]
    left, hosts = sum(map(sum, sizes)), {}
    while left:
        total = min(left, largest)
        hosts[host(place, VCPU=total)] = total
        left -= total
    return sizes, hosts


def assert_full(place: Arena, hosts: dict[str, int]) -> None:
    """All is in use, and a refusal says that it is certain."""
    assert [used(place, made) for made in hosts] == [{"VCPU": each} for each in hosts.values()]
    refused = gang(place.clients(1)[0], 1)
    assert (refused.code, refused.json["errors"][0]["exact"]) == ("placement.no_candidate", True)
    place.assert_sound()


@rounds
def test_gangs_that_fill_a_cloud_exactly_are_all_granted(place: Arena, turn: int) -> None:
    """No refusal before the last room is taken; then it is certain."""
    sizes, hosts = cloud_for(place, CLIENTS, largest=7)

    def work(mine: list[int]) -> Callable[[Client], list[int]]:
        return lambda client: [gang(client, size).status for size in mine]

    assert place.race([work(mine) for mine in sizes]) == [[200] * 4] * CLIENTS
    assert_full(place, hosts)


@rounds
def test_claims_of_this_or_that_fill_both_exactly(place: Arena, turn: int) -> None:
    """Nobody gets the second while the first has room, whoever else claims: each is counted as chosen."""
    first, second = host(place, VCPU=25), host(place, VCPU=15)
    queries = [f"resources=VCPU:1&in_tree={uuid}" for uuid in (first, second)]

    def work(client: Client) -> list[int]:
        chosen = []
        for body in (asked_for(1), asked_for(2), asked_for(1)):
            for each in body["claims"]:
                each["queries"] = queries
                del each["query"]
            answer = client.send("POST", "/-/claims", body)
            assert answer.status == 200, answer.json
            chosen += [each["chosen"] for each in answer.json["claims"]]
        return chosen

    answers = place.race([work] * CLIENTS)

    assert Counter(number for mine in answers for number in mine) == {0: 25, 1: 15}
    # Nothing is given back: whoever got the second gets the first no more.
    assert all(mine == sorted(mine) for mine in answers)
    assert_full(place, {first: 25, second: 15})


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_two_hundred_workers_fill_a_cloud_exactly(place: Arena) -> None:
    """No worker is refused; one that is told to try again does, with the same consumers."""
    sizes, hosts = cloud_for(place, WORKERS, largest=32)

    def work(mine: list[int]) -> Callable[[Client], list[int]]:
        def claim(client: Client) -> list[int]:
            statuses = []
            for body in map(asked_for, mine):
                statuses.append(client.send("POST", "/-/claims", body).status)
                while statuses[-1] == 503:
                    statuses.append(client.send("POST", "/-/claims", body).status)
            return statuses

        return claim

    begun = time.monotonic()
    answers = place.race([work(mine) for mine in sizes], 10 * HANGS_S)
    told = Counter(status for mine in answers for status in mine)
    print(f"{len(hosts)} hosts, {told} in {time.monotonic() - begun:.1f} s")

    assert {*told} <= {200, 503}
    assert told[200] == 4 * WORKERS
    assert_full(place, hosts)


@rounds
@pytest.mark.parametrize("rule", ["apart", "together"])
def test_writers_of_one_group_never_break_its_rule(place: Arena, turn: int, rule: str) -> None:
    """Of ten, as many are granted as the rule and the hosts allow."""
    for _ in range(3):
        host(place, VCPU=4)
    name = new_uuid()

    answers = place.race([lambda client: gang(client, 1, groups={name: {"rule": rule}})] * CLIENTS)

    granted = [answer for answer in answers if answer.status == 200]
    assert len(granted) == (3 if rule == "apart" else 4)
    assert {answer.code for answer in answers if answer not in granted} == {
        "placement.no_candidate"
    }
    group = place.send("GET", f"/-/groups/{name}").json
    assert (group["kept"], len(group["members"])) == (True, len(granted))
    place.assert_sound()


@rounds
def test_of_confirmation_and_expiry_exactly_one_wins(place: Arena, turn: int) -> None:
    """One confirms while the time of the hold comes, another needs its room."""
    host(place, VCPU=8)
    for _ in range(5):
        held = gang(place.clients(1)[0], 8, hold_s=900).json["claims"]
        let_holds_end(place.db, random.randint(0, 15))
        body = {
            "consumers": [
                {"consumer_uuid": each["consumer_uuid"], "consumer_generation": 1} for each in held
            ]
        }

        confirmed, taken = place.race(
            [
                lambda client, body=body: client.send("POST", "/-/claims/confirm", body).status,
                lambda client: gang(client, 8).status,
            ]
        )

        assert (confirmed, taken) in ((200, 409), (409, 200), (409, 409))
        again = gang(place.clients(1)[0], 8).status
        # If neither has won, the time came after the one and before the other.
        assert again == (200 if (confirmed, taken) == (409, 409) else 409)
        place.assert_sound()
        everything = place.db.read(lambda tx: tx.column(select(models.consumers.c.uuid)))
        place.send("POST", "/allocations", {uuid: emptied(place, uuid) for uuid in everything})


def emptied(place: Arena, consumer: str) -> Any:
    """Return the entry that removes what a consumer holds."""
    shown = place.send("GET", f"/allocations/{consumer}").json
    return shown | {"allocations": {}}


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_worker_leaves_no_half_gang(kind: str) -> None:
    """What was acknowledged is whole, what was not is whole or nothing."""
    with arena(kind, options="[insight]\nenabled = true") as place:
        made, granted = host(place, VCPU=10_000), []

        def work(client: Client) -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                while len(granted) < 60:
                    granted.append(gang(client, 8).status)
                    if len(granted) == 20:
                        place.processes[1].kill()

        place.race([work] * 6)

        assert set(granted) == {200}
        held = place.send("GET", f"/resource_providers/{made}/allocations").json["allocations"]
        assert len(held) % 8 == 0
        assert 8 * len(granted) <= len(held) <= 8 * (len(granted) + 2)
        place.assert_sound()
