"""Changes of allocations that arrive at one process at once are written together; each has its own answer."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select

from placement import errors
from placement.db import invariants, provider_rows, writes
from placement.db.change import Change
from placement.db.database import Transaction
from placement.objects import allocation, batcher
from tests.proofs.promise.shared import write_together
from tests.support.batches import send_at_once
from tests.support.bodies import entry
from tests.support.client import Answer
from tests.support.databases import KINDS
from tests.support.processes import PATIENCE
from tests.support.service import Service, running
from tests.support.world import World, new_uuid

HANGS_S = 30.0 * PATIENCE
KEPT_ALIVE_S = 0.5


@pytest.fixture(params=KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """The service on an empty database."""
    with running(request.param) as made:
        yield made


def put(service: Service, uuid: str, host: str, amount: int = 1, **more: Any) -> Answer:
    """Claim for one consumer."""
    return service.send("PUT", f"/allocations/{uuid}", entry({host: {"VCPU": amount}}, **more))


def at_once(
    service: Service, monkeypatch: pytest.MonkeyPatch, requests: Sequence[Any]
) -> tuple[list[Answer], list[int]]:
    """Send requests that all arrive while a claim is written; return their answers, and the batches."""
    leading = partial(put, service, new_uuid(), World(service).host(VCPU=1))
    first, answers, sizes = send_at_once(monkeypatch, leading, requests)
    assert first.status == 204
    assert [found for found in invariants.check(service.db) if found.count] == []
    return answers, sizes


def test_each_request_has_its_own_answer(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, holder, new = World(service).host(VCPU=4), new_uuid(), new_uuid()
    assert put(service, holder, host).status == 204
    before = service.send("GET", f"/resource_providers/{host}").json["generation"]
    swapped = {holder: entry({}, 1), new: entry({host: {"VCPU": 2}})}

    answers, sizes = at_once(
        service,
        monkeypatch,
        [
            partial(put, service, new_uuid(), host),
            partial(put, service, new_uuid(), host, 9),
            partial(put, service, new_uuid(), new_uuid()),
            partial(put, service, new_uuid(), host, consumer_generation=3),
            partial(service.send, "DELETE", f"/allocations/{new_uuid()}"),
            partial(service.send, "POST", "/allocations", swapped),
        ],
    )

    assert sizes[0] == 6
    assert [answer.status for answer in answers] == [204, 409, 400, 409, 404, 204]
    reasons = [answer.json["errors"][0]["reason"] for answer in answers if answer.status >= 400]
    assert reasons == ["capacity_exceeded", "unknown_provider", "consumer_generation", "not_found"]
    assert service.send("GET", f"/allocations/{holder}").json == {"allocations": {}}
    after = service.send("GET", f"/resource_providers/{host}").json["generation"]
    assert after == before + 2


def test_a_deletion_does_not_step_the_provider(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, holders = World(service).host(VCPU=4), [new_uuid() for _ in range(3)]
    for holder in holders:
        assert put(service, holder, host).status == 204
    before = service.send("GET", f"/resource_providers/{host}").json["generation"]

    answers, sizes = at_once(
        service,
        monkeypatch,
        [partial(service.send, "DELETE", f"/allocations/{holder}") for holder in holders],
    )

    assert sizes == [3]
    assert [answer.status for answer in answers] == [204] * 3
    shown = service.send("GET", f"/resource_providers/{host}/usages").json
    assert shown == {"resource_provider_generation": before, "usages": {"VCPU": 0}}


@pytest.mark.parametrize("is_of_one_consumer", [False, True])
def test_a_large_request_does_not_hold_up_others(
    service: Service, monkeypatch: pytest.MonkeyPatch, is_of_one_consumer: bool
) -> None:
    """It takes no turn: it is answered while another request has the turn."""
    host = World(service).host(VCPU=100)
    monkeypatch.setattr(batcher, "PATIENCE_S", HANGS_S)
    many = {new_uuid(): entry({host: {"VCPU": 1}}) for _ in range(allocation.FEW + 1)}
    if is_of_one_consumer:
        monkeypatch.setattr(allocation, "FEW_ALLOCATIONS", 1)
        many = {new_uuid(): entry({host: {"VCPU": 1}, World(service).host(VCPU=1): {"VCPU": 1}})}
    turns = allocation._BATCHERS.setdefault(service.db, batcher.Batcher())

    with turns.take_turn(_change(new_uuid(), host)):
        assert service.send("POST", "/allocations", many).status == 204


def test_an_error_that_nobody_foresaw_is_that_of_its_request(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request that leads the others does not get the error of one of them."""
    host, finish = World(service).host(VCPU=9), writes.finish

    def refuse_sevens(tx: Transaction, change: Change, *place: Any) -> None:
        if any(amount == 7 for _, amount in change.counters):
            raise ArithmeticError("no sevens")
        finish(tx, change, *place)

    monkeypatch.setattr(writes, "finish", refuse_sevens)
    other = World(service).host(VCPU=9)
    answers, _ = at_once(
        service,
        monkeypatch,
        [
            partial(put, service, new_uuid(), host),
            partial(put, service, new_uuid(), other, 7),
            partial(put, service, new_uuid(), host),
        ],
    )

    assert [answer.status for answer in answers] == [204, 500, 204]


def test_an_unknown_outcome_is_that_of_those_who_shared_it(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that would be refused was not in the transaction, and learns its own reason."""
    host, commit, lost = World(service).host(VCPU=4), Transaction.commit, list[int]()
    write_together = allocation._write_together

    def commit_and_lose(tx: Transaction) -> None:
        commit(tx)
        if not lost:
            lost.append(1)
            raise errors.OutcomeUnknown

    def lose(db: Any, changes: Any) -> Any:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Transaction, "commit", commit_and_lose)
            return write_together(db, changes)

    monkeypatch.setattr(allocation, "_write_together", lose)
    stored = [new_uuid(), new_uuid()]
    answers, _ = at_once(
        service,
        monkeypatch,
        [
            partial(put, service, stored[0], host),
            partial(put, service, new_uuid(), new_uuid()),
            partial(put, service, stored[1], host),
        ],
    )

    assert [answer.status for answer in answers] == [503, 400, 503]
    assert answers[0].json["errors"][0]["reason"] == "outcome_unknown"
    for uuid in stored:
        assert service.send("GET", f"/allocations/{uuid}").json["allocations"]


def test_a_locked_provider_holds_up_nobody_else(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the requests waits for a lock of somebody else; the others are answered meanwhile."""
    if service.db.dialect == "sqlite":
        pytest.skip("SQLite has one writer: there is no lock on a provider")
    world = World(service)
    locked, free = world.host(VCPU=4), world.host(VCPU=4)
    is_held, may_end = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        provider_rows.lock(tx, [locked])
        is_held.set()
        # The server ends a transaction that is idle for long.
        while not may_end.wait(KEPT_ALIVE_S):
            tx.value(select(1))

    monkeypatch.setattr(batcher, "PATIENCE_S", HANGS_S)
    with ThreadPoolExecutor(8) as threads:
        stranger = threads.submit(service.db.write, hold)
        assert is_held.wait(HANGS_S)
        uuids = [new_uuid() for _ in range(3)]
        changes = [
            _change(new_uuid(), locked),
            *(_change(uuid, free) for uuid in uuids),
        ]
        waiting = threads.submit(allocation.replace_allocations, service.db, changes[0])
        written = threads.submit(write_together, service.db, changes)
        # The shared transaction gives up, and each is written alone.
        assert written.result(HANGS_S) == [False] * 4
        assert not waiting.done()
        monkeypatch.setattr(batcher, "PATIENCE_S", 0.0)
        for uuid in uuids:
            assert put(service, uuid, free).status == 204
        assert not waiting.done()
        may_end.set()
        stranger.result(HANGS_S)
        waiting.result(HANGS_S)


def _change(uuid: str, host: str) -> allocation.AllocationChange:
    consumer = allocation.ConsumerChange(uuid, {host: {"VCPU": 1}}, project="red", user="ann")
    return allocation.AllocationChange.of_one(consumer)
