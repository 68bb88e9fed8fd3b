"""Writers of the ledger at the same moment, over HTTP, through several server processes.

PROMISE 1 to 7 and specification 03 section 11. PLACEMENT_RACE_ROUNDS (default 2 in CI, 1 by hand; 20 for
the whole campaign) says how often each race is run.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import func, select

from placement.db import models
from tests.support.bodies import entry, entry_1_12, stock
from tests.support.client import Answer, Client
from tests.support.effort import examples
from tests.support.racing import ARENAS, Arena, emptied_arena
from tests.support.world import World, new_uuid

ROUNDS = int(os.environ.get("PLACEMENT_RACE_ROUNDS", examples(2)))
CLIENTS = 10
CONCURRENT = "placement.concurrent_update"

rounds = pytest.mark.parametrize("turn", range(ROUNDS))


@pytest.fixture(scope="module", params=ARENAS)
def place(request: pytest.FixtureRequest) -> Iterator[Arena]:
    """Three servers, started at the same moment on an empty database, on each kind of it."""
    with emptied_arena(request.param) as made:
        yield made


@pytest.fixture(autouse=True)
def sound(place: Arena) -> Iterator[None]:
    """After every race the invariants hold."""
    yield
    place.assert_sound()


def host(place: Arena, parent: str | None = None, **totals: int) -> str:
    """Create a provider with these totals by class and return its uuid."""
    return World(place).provider(parent=parent, inventory=totals)


def put(consumer_uuid: str, body: Any, version: str = "1.38") -> Callable[[Client], Answer]:
    """Return the work of one PUT."""
    return lambda client: client.send("PUT", f"/allocations/{consumer_uuid}", body, version)


def listed(place: Arena, host_uuid: str) -> dict[str, Any]:
    """Return what a provider lists: entries by consumer uuid."""
    return World(place).get(f"/resource_providers/{host_uuid}/allocations")["allocations"]


def used(place: Arena, host_uuid: str) -> dict[str, int]:
    """Return the usage of a provider by class."""
    return World(place).usages(host_uuid)


@rounds
def test_sixty_claims_for_twenty_units_end_exactly_full(place: Arena, turn: int) -> None:
    """Who is acknowledged is stored, who is refused is told that the host is full."""
    made = host(place, VCPU=20)
    claims = [[new_uuid() for _ in range(6)] for _ in range(CLIENTS)]

    def work(mine: list[str]) -> Callable[[Client], dict[str, Answer]]:
        body = entry({made: {"VCPU": 1}})
        return lambda client: {each: put(each, body)(client) for each in mine}

    answers: dict[str, Answer] = {}
    for part in place.race([work(mine) for mine in claims]):
        answers |= part

    acknowledged = {each for each, answer in answers.items() if answer.status == 204}
    refused = [answer for answer in answers.values() if answer.status != 204]
    assert len(acknowledged) == 20
    assert set(listed(place, made)) == acknowledged
    assert used(place, made) == {"VCPU": 20}
    for answer in refused:
        assert answer.status == 409, answer
        assert "exceed the capacity" in answer.detail


@rounds
def test_hosts_with_room_for_all_refuse_nobody(place: Arena, turn: int) -> None:
    """Claims over the same two hosts, named in either order, wait for one another."""
    hosts = [host(place, VCPU=1000), host(place, VCPU=1000)]

    def work(client: Client) -> list[int]:
        mine = random.sample(hosts, 2)
        body = entry({each: {"VCPU": 1} for each in mine})
        return [put(new_uuid(), body)(client).status for _ in range(5)]

    assert place.race([work] * CLIENTS) == [[204] * 5] * CLIENTS
    assert [used(place, each) for each in hosts] == [{"VCPU": 50}] * 2


@rounds
@pytest.mark.parametrize("known", [None, 1])
def test_one_of_the_writers_with_the_same_generation_wins(
    place: Arena, turn: int, known: int | None
) -> None:
    """Whatever generation they all read, that of a consumer that does not exist included."""
    made = host(place, VCPU=1000)
    contested = new_uuid()
    if known is not None:
        assert put(contested, entry({made: {"VCPU": 1}}))(place.clients(1)[0]).status == 204

    works = [put(contested, entry({made: {"VCPU": 10 + n}}, known)) for n in range(CLIENTS)]
    answers = place.race(works)

    winners = [n for n, answer in enumerate(answers) if answer.status == 204]
    assert len(winners) == 1
    assert used(place, made) == {"VCPU": 10 + winners[0]}
    lost = Counter((answer.status, answer.code) for answer in answers if answer.status != 204)
    assert lost == {(409, CONCURRENT): CLIENTS - 1}
    kept = listed(place, made)[contested]
    assert kept["consumer_generation"] == (known or 0) + 1


@rounds
def test_writers_without_a_generation_all_succeed_in_turn(place: Arena, turn: int) -> None:
    """Below 1.28 the consumer takes one step for each of them, and one of them stands."""
    made = host(place, VCPU=1000)
    contested = new_uuid()

    works = [put(contested, entry_1_12({made: {"VCPU": 10 + n}}), "1.12") for n in range(CLIENTS)]
    answers = place.race(works)

    assert Counter(answer.status for answer in answers) == {204: CLIENTS}, answers
    kept = listed(place, made)[contested]
    assert kept["consumer_generation"] == CLIENTS
    assert kept["resources"] == used(place, made)


@rounds
def test_creators_of_the_same_owners_share_them(place: Arena, turn: int) -> None:
    """A project, a user and a type that all name for the first time exist once."""
    made = host(place, VCPU=1000)
    name = new_uuid()
    owners = {"project_id": name, "user_id": name, "consumer_type": name.replace("-", "_").upper()}

    works = [put(new_uuid(), entry({made: {"VCPU": 1}}, **owners)) for _ in range(CLIENTS)]
    answers = place.race(works)

    assert Counter(answer.status for answer in answers) == {204: CLIENTS}, answers
    for column, value in (
        (models.projects.c.external_id, name),
        (models.users.c.external_id, name),
        (models.consumer_types.c.name, owners["consumer_type"]),
    ):
        count = select(func.count()).select_from(column.table).where(column == value)
        assert place.db.read(lambda c, count=count: c.connection.scalar(count)) == 1


@rounds
def test_writes_racing_with_deletes_leave_no_hidden_usage(place: Arena, turn: int) -> None:
    """Afterwards the usage is what the listing says."""
    made = host(place, VCPU=1000)
    contested = [new_uuid() for _ in range(3)]

    def write(client: Client) -> list[Answer]:
        body = entry_1_12({made: {"VCPU": 1}})
        return [put(each, body, "1.12")(client) for each in random.sample(contested, 3)]

    def remove(client: Client) -> list[Answer]:
        named = random.sample(contested, 3)
        return [client.send("DELETE", f"/allocations/{each}") for each in named]

    results = place.race([write, remove] * (CLIENTS // 2))

    written = [answer.status for part in results[0::2] for answer in part]
    removed = [answer.status for part in results[1::2] for answer in part]
    assert set(written) == {204}, results
    assert set(removed) <= {204, 404}, results
    held = sum(entry["resources"]["VCPU"] for entry in listed(place, made).values())
    assert used(place, made) == {"VCPU": held}


@rounds
def test_exchanges_of_many_consumers_lose_nothing(place: Arena, turn: int) -> None:
    """Consumers that all give and take from one another, in every order, keep the sum."""
    made = host(place, VCPU=8)
    members = [new_uuid() for _ in range(4)]
    first = {each: entry({made: {"VCPU": 2}}) for each in members}
    assert place.send("POST", "/allocations", first).status == 204

    def exchange(client: Client) -> list[Answer]:
        answers = []
        for _ in range(4):
            giver, taker = random.sample(members, 2)
            body = {giver: entry_1_12({made: {"VCPU": 1}}), taker: entry_1_12({made: {"VCPU": 3}})}
            answers.append(client.send("POST", "/allocations", body, "1.13"))
        return answers

    answers = [answer for part in place.race([exchange] * CLIENTS) for answer in part]

    for answer in answers:
        assert answer.status in (204, 409), answer
        if answer.status == 409:
            assert "exceed the capacity" in answer.detail
    entries = listed(place, made)
    assert set(entries) == set(members)
    total = sum(entry["resources"]["VCPU"] for entry in entries.values())
    assert used(place, made) == {"VCPU": total}
    assert total <= 8


def move(place: Arena, from_uuid: str, to_uuid: str) -> Callable[[Client], list[Answer]]:
    """Return the work of moving all VCPU of one provider, and who uses it, to another and back."""

    def attempt(client: Client, source: str, target: str) -> Answer:
        entries = client.send("GET", f"/resource_providers/{source}/allocations").json
        into = client.send("GET", f"/resource_providers/{target}").json
        return client.send(
            "POST",
            "/reshaper",
            {
                "inventories": {
                    source: stock(entries["resource_provider_generation"], {}),
                    target: stock(into["generation"], {"VCPU": 20}),
                },
                "allocations": {
                    each: entry({target: held["resources"]}, held["consumer_generation"])
                    for each, held in entries["allocations"].items()
                },
            },
        )

    def work(client: Client) -> list[Answer]:
        answers = []
        source, target = from_uuid, to_uuid
        for _ in range(6):
            answers.append(attempt(client, source, target))
            if answers[-1].status == 204:
                source, target = target, source
        return answers

    return work


@rounds
def test_reshapes_racing_with_claims_lose_neither(place: Arena, turn: int) -> None:
    """The inventory is in one place at any time, and every acknowledged claim goes with it."""
    parent = host(place, VCPU=20)
    child = host(place, parent=parent)

    def claim(client: Client) -> dict[str, Answer]:
        answers = {}
        for where in [parent, child] * 4:
            each = new_uuid()
            answers[each] = put(each, entry({where: {"VCPU": 1}}))(client)
        return answers

    reshapes, *claims = place.race([move(place, parent, child), *[claim] * 4])

    for answer in reshapes:
        assert answer.status in (204, 409), answer
        if answer.status == 409:
            assert answer.code in (CONCURRENT, "placement.inventory.inuse"), answer
    acknowledged = set()
    for each, answer in ((e, a) for part in claims for e, a in part.items()):
        assert answer.status in (204, 409), answer
        if answer.status == 204:
            acknowledged.add(each)
        else:
            assert "capacity" in answer.detail or "invalid" in answer.detail, answer
    entries = listed(place, parent) | listed(place, child)
    assert set(entries) == acknowledged
    usage = [used(place, parent), used(place, child)]
    assert sorted(map(len, usage)) == [0, 1]
    assert sum(sum(each.values()) for each in usage) == len(acknowledged) <= 20


@rounds
def test_a_provider_deleted_during_claims_is_gone_or_kept_with_them(
    place: Arena, turn: int
) -> None:
    """Either it goes and nobody got anything, or a claim came first and it stays."""
    made = host(place, VCPU=20)

    def delete(client: Client) -> Answer:
        return client.send("DELETE", f"/resource_providers/{made}")

    works = [put(new_uuid(), entry({made: {"VCPU": 1}})) for _ in range(4)]
    deleted, *claimed = place.race([delete, *works])

    if deleted.status == 204:
        for answer in claimed:
            assert answer.status == 400, answer
            assert "does not exist" in answer.detail
    else:
        assert deleted.status == 409, deleted
        assert deleted.code == "placement.resource_provider.inuse"
        assert Counter(answer.status for answer in claimed) == {204: 4}
        assert used(place, made) == {"VCPU": 4}


@rounds
def test_an_inventory_shrunk_during_claims_takes_no_more(place: Arena, turn: int) -> None:
    """After the shrinking nothing is added beyond it; what came before stays."""
    made = host(place, VCPU=10)

    def shrink(client: Client) -> list[Answer]:
        answers = []
        while True:
            path = f"/resource_providers/{made}/inventories/VCPU"
            before = client.send("GET", path).json["resource_provider_generation"]
            body = {"resource_provider_generation": before, "total": 5}
            answers.append(client.send("PUT", path, body))
            if answers[-1].status == 200:
                return answers

    def claim(client: Client) -> list[Answer]:
        return [put(new_uuid(), entry({made: {"VCPU": 1}}))(client) for _ in range(4)]

    shrinking, *claims = place.race([shrink, *[claim] * 4])

    for answer in shrinking[:-1]:
        assert (answer.status, answer.code) == (409, CONCURRENT), answer
    answers = [answer for part in claims for answer in part]
    accepted = Counter(answer.status for answer in answers)[204]
    for answer in answers:
        assert answer.status in (204, 409), answer
        assert answer.status == 204 or "exceed the capacity" in answer.detail
    assert used(place, made) == {"VCPU": accepted}
    assert 5 <= accepted <= 10
    late = put(new_uuid(), entry({made: {"VCPU": 1}}))(place.clients(1)[0])
    assert late.status == 409


@rounds
def test_an_inventory_deleted_during_claims_is_gone_or_used(place: Arena, turn: int) -> None:
    """No allocation is left without its inventory."""
    made = host(place, VCPU=10, MEMORY_MB=10)

    def delete(client: Client) -> Answer:
        return client.send("DELETE", f"/resource_providers/{made}/inventories/VCPU")

    works = [put(new_uuid(), entry({made: {"VCPU": 1}})) for _ in range(4)]
    deleted, *claimed = place.race([delete, *works])

    if deleted.status == 204:
        for answer in claimed:
            assert answer.status == 409, answer
            assert "invalid" in answer.detail
    else:
        assert deleted.status == 409, deleted
        assert "in use" in deleted.detail
        assert Counter(answer.status for answer in claimed) == {204: 4}
