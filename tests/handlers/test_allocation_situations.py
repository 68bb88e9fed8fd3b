"""What older software left of a consumer, written at every microversion (specification 03 section 10).

Each consumer is in one of four situations: with allocations or without, with a record or without.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.support import bodies, ledger_data
from tests.support.client import Answer
from tests.support.databases import KINDS
from tests.support.ledger_data import (
    COMPLETE,
    OLD_PROJECT,
    SECOND,
    WITHOUT_ALLOCATIONS,
    WITHOUT_RECORD,
)
from tests.support.service import Service, running
from tests.support.world import World

NEITHER = "aaaaaaaa-0000-4000-8000-00000000000{}"
GENERATIONS = {NEITHER: None, WITHOUT_RECORD: None, WITHOUT_ALLOCATIONS: 3, COMPLETE: 3}
"""What the record says, by the uuids of the consumers of a situation; None: there is no record."""

EMPTY: dict[str, Any] = {"allocations": {}}
VCPU = 18
"""What is in use at first: one for each of nine consumers with allocations, in two situations."""

Way = tuple[str, int]
"""Method and minor version."""

WRITES: list[Way] = [("PUT", 28), ("PUT", 38), ("POST", 28), ("POST", 38)]
OLDER_WRITES: list[Way] = [("PUT", 7), ("PUT", 8), ("PUT", 27), ("POST", 13), ("POST", 27)]
VERDICTS = [
    (NEITHER, None, ""),
    (NEITHER, 0, "expected null but got 0"),
    (NEITHER, 3, "expected null but got 3"),
    (WITHOUT_RECORD, None, ""),
    (WITHOUT_RECORD, 0, "expected null but got 0"),
    (WITHOUT_RECORD, 3, "expected null but got 3"),
    (WITHOUT_ALLOCATIONS, None, ""),
    (WITHOUT_ALLOCATIONS, 0, "expected 3 but got 0"),
    (WITHOUT_ALLOCATIONS, 3, ""),
    (WITHOUT_ALLOCATIONS, 4, "expected 3 but got 4"),
    (COMPLETE, None, "expected 3 but got None"),
    (COMPLETE, 0, "expected 3 but got 0"),
    (COMPLETE, 3, ""),
    (COMPLETE, 4, "expected 3 but got 4"),
]
"""Situation, the generation that a client sends, and the words of the refusal, if it is one."""


@pytest.fixture(params=KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """Three hosts, and nine consumers of each situation."""
    with running(request.param) as made:
        ledger_data.add_cloud(made.db)
        ledger_data.add_consumers(made.db)
        yield made


def write(
    service: Service, way: Way, consumer: str, amount: int, generation: int | None = None
) -> Answer:
    """Replace what a consumer holds, as a client of this microversion does."""
    method, minor = way
    body = bodies.entry({SECOND: {"VCPU": amount}} if amount else {}, generation)
    if minor < 38:
        del body["consumer_type"]
    if minor < 28:
        del body["consumer_generation"]
    if minor < 12:
        held = {"resource_provider": {"uuid": SECOND}, "resources": {"VCPU": amount}}
        body["allocations"] = [held]
    if minor < 8:
        del body["project_id"], body["user_id"]
    if method == "POST":
        return service.send(method, "/allocations", {consumer: body}, f"1.{minor}")
    return service.send(method, f"/allocations/{consumer}", body, f"1.{minor}")


def shown(service: Service, consumer: str) -> Mapping[str, Any]:
    """Return what the newest version shows of a consumer, but for the provider's generation."""
    found: dict[str, Any] = World(service).get(f"/allocations/{consumer}")
    for place in found["allocations"].values():
        del place["generation"]
    return found


def of_two(situation: str, **more: Any) -> dict[str, Any]:
    """Return what is shown of a consumer of this situation after it was given two VCPU."""
    generation = (GENERATIONS[situation] or 0) + 1
    held = {"allocations": {SECOND: {"resources": {"VCPU": 2}}}, "consumer_generation": generation}
    return {**held, "project_id": "red", "user_id": "ann", "consumer_type": "unknown", **more}


@pytest.mark.parametrize("way", OLDER_WRITES)
def test_without_a_generation_every_consumer_is_written(service: Service, way: Way) -> None:
    """Its old rows go; a record counts on, and a new one begins with 1."""
    nobody = "00000000-0000-0000-0000-000000000000"
    owner = {"project_id": nobody, "user_id": nobody} if way[1] < 8 else {}
    for situation in GENERATIONS:
        consumer = situation.format(1)
        assert write(service, way, consumer, 2).status == 204
        assert shown(service, consumer) == of_two(situation, **owner)
    assert World(service).usages(SECOND)["VCPU"] == VCPU - 2 + 4 * 2


def test_an_owner_that_old_clients_do_not_tell_is_of_the_operators_choice() -> None:
    owner = {"project_id": "nobodys-project", "user_id": "nobody"}
    options = {f"placement__incomplete_consumer_{name}": value for name, value in owner.items()}
    with running(**options) as service:
        ledger_data.add_cloud(service.db)
        ledger_data.add_consumers(service.db)
        for situation in GENERATIONS:
            assert write(service, ("PUT", 7), situation.format(1), 2).status == 204
            assert shown(service, situation.format(1)) == of_two(situation, **owner)


@pytest.mark.parametrize("way", WRITES)
@pytest.mark.parametrize("amount", [2, 0])
def test_the_generation_must_be_that_of_the_record(service: Service, way: Way, amount: int) -> None:
    """A consumer without allocations passes as one that does not exist too. Emptied, none has a record."""
    kind = {"consumer_type": "INSTANCE"} if way[1] >= 38 else {}
    for number, (situation, generation, refusal) in enumerate(VERDICTS):
        # Each row of the table has a consumer of its own.
        consumer = situation.format(number % 7 + 1)
        before = shown(service, consumer)

        answer = write(service, way, consumer, amount, generation)

        assert answer.status == (409 if refusal else 204), (situation, generation, answer)
        if refusal:
            assert f"consumer generation conflict - {refusal}" in answer.detail
            assert shown(service, consumer) == before
        elif amount:
            assert shown(service, consumer) == of_two(situation, **kind)
        else:
            assert shown(service, consumer) == EMPTY
            again = write(service, way, consumer, 2, 3)
            assert (again.status, again.code) == (409, "placement.concurrent_update")
            assert "expected null but got 3" in again.detail
    # Two consumers had one VCPU each; those that were written have two, or nothing.
    written = sum(not refusal for *_, refusal in VERDICTS)
    assert World(service).usages(SECOND)["VCPU"] == VCPU - 2 + amount * written


def test_emptied_before_there_were_generations_no_consumer_has_a_record(service: Service) -> None:
    for situation in GENERATIONS:
        consumer = situation.format(3)
        assert write(service, ("POST", 13), consumer, 0).status == 204
        assert shown(service, consumer) == EMPTY
        again = write(service, ("PUT", 28), consumer, 2, 0)
        assert again.status == 409
        assert "expected null but got 0" in again.detail
    assert World(service).usages(SECOND)["VCPU"] == VCPU - 2


def test_what_is_read_and_deleted(service: Service) -> None:
    """Usages count every row; a consumer with allocations and a record is shown and can be deleted."""
    world = World(service)
    for situation in (NEITHER, WITHOUT_RECORD, WITHOUT_ALLOCATIONS):
        assert shown(service, situation.format(1)) == EMPTY
        assert service.send("DELETE", f"/allocations/{situation.format(1)}").status == 404
    found = shown(service, COMPLETE.format(1))
    assert (found["consumer_generation"], found["project_id"]) == (3, OLD_PROJECT)
    assert len(world.get(f"/resource_providers/{SECOND}/allocations")["allocations"]) == 9
    assert world.usages(SECOND)["VCPU"] == VCPU

    world.release(COMPLETE.format(1))

    assert world.usages(SECOND)["VCPU"] == VCPU - 1
    # The record of the one that could not be deleted is still there.
    stayed = write(service, ("PUT", 38), WITHOUT_ALLOCATIONS.format(1), 0, 7)
    assert "expected 3 but got 7" in stayed.detail
    refused = service.send("DELETE", f"/resource_providers/{SECOND}")
    assert (refused.status, "Resource provider has allocations" in refused.detail) == (409, True)
