"""Holds and their confirmation (specification 09 section 5).

Nobody is refused, or waits, for the sake of those that are over.
"""

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
import webob
from sqlalchemy import Connection, Table, select, update

from placement import errors
from placement.db import invariants, models
from placement.db.database import Database, Transaction
from placement.db.transport import Message
from placement.extensions.claims import expiry, shortcuts
from placement.extensions.claims import tables as claims_tables
from tests.extensions.claims.test_claims import claim, let_holds_end, place
from tests.support import bodies
from tests.support.client import HANGS_S, Answer
from tests.support.databases import KINDS, opened
from tests.support.recorder import Hook, observed
from tests.support.service import Service, running
from tests.support.world import World, new_uuid


@pytest.fixture(params=KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """The service with what is under /-/, on an empty database, which is sound at the end."""
    with running(request.param, insight__enabled=True) as made:
        yield made
        assert invariants.violations(made.db) == []


# -- refusals ------------------------------------------------------------------------------------


class Held(NamedTuple):
    """A host with four processors, all of which a consumer in the group g holds for a time."""

    service: Service
    host: str
    holder: str

    def send(self, method: str, path: str, body: Any = None) -> Answer:
        return self.service.send(method, path, body)

    @property
    def path(self) -> str:
        return f"/resource_providers/{self.host}"

    @property
    def generation(self) -> int:
        return World(self.service).generation(self.host)

    @property
    def all_of_it(self) -> dict[str, dict[str, int]]:
        return {self.host: {"VCPU": 4}}


def put(held: Held) -> Answer:
    return held.send("PUT", f"/allocations/{new_uuid()}", bodies.entry(held.all_of_it))


def post(held: Held) -> Answer:
    return held.send("POST", "/allocations", {new_uuid(): bodies.entry(held.all_of_it)})


def put_as_new(held: Held) -> Answer:
    return held.send("PUT", f"/allocations/{held.holder}", bodies.entry(held.all_of_it))


def put_inventories(held: Held) -> Answer:
    body = bodies.stock(held.generation, {"DISK_GB": 4})
    return held.send("PUT", f"{held.path}/inventories", body)


def delete_inventories(held: Held) -> Answer:
    return held.send("DELETE", f"{held.path}/inventories")


def delete_inventory(held: Held) -> Answer:
    return held.send("DELETE", f"{held.path}/inventories/VCPU")


def delete_provider(held: Held) -> Answer:
    return held.send("DELETE", held.path)


def reshape_allocations(held: Held) -> Answer:
    inventories = {held.host: bodies.stock(held.generation, {"VCPU": 4})}
    allocations = {new_uuid(): bodies.entry(held.all_of_it)}
    body = {"inventories": inventories, "allocations": allocations}
    return held.send("POST", "/reshaper", body)


def reshape_inventories(held: Held) -> Answer:
    inventories = {held.host: bodies.stock(held.generation, {"DISK_GB": 4})}
    return held.send("POST", "/reshaper", {"inventories": inventories, "allocations": {}})


def claim_with_another_rule(held: Held) -> Answer:
    body = {"claims": [claim(1, groups=["g"])], "groups": {"g": {"rule": "together"}}}
    return held.send("POST", "/-/claims", body)


def claim_as_new(held: Held) -> Answer:
    """Its place is chosen on a picture that is young enough, so that no refresh removes anything."""
    return held.send("POST", "/-/claims", {"claims": [claim(1, consumer_uuid=held.holder)]})


REFUSED = {
    put: "capacity_exceeded",
    post: "capacity_exceeded",
    put_as_new: "consumer_generation",
    put_inventories: "inventory_in_use",
    delete_inventories: "inventory_in_use",
    delete_inventory: "inventory_in_use",
    delete_provider: "provider_in_use",
    reshape_allocations: "capacity_exceeded",
    reshape_inventories: "inventory_in_use",
    claim_with_another_rule: "group_rule",
    claim_as_new: "consumer_generation",
}
"""Requests, and why they are refused as long as the hold lasts."""


@pytest.mark.parametrize("ask", REFUSED, ids=[ask.__name__ for ask in REFUSED])
def test_nothing_is_refused_for_the_sake_of_a_hold_that_is_over(
    service: Service, ask: Callable[[Held], Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is about to be refused removes it, and is granted; before the time has come it is refused."""
    monkeypatch.setattr(shortcuts, "AGE_S", math.inf)
    host = World(service).provider(inventory={"VCPU": 4})
    holder = claim(4, groups=["g"])
    assert place(service, holder, hold_s=900, groups={"g": {"rule": "apart"}}).status_int == 200
    held = Held(service, host, holder["consumer_uuid"])
    World(service).provider(inventory={"VCPU": 1})
    refused = ask(held)
    service.request("GET", "/allocation_candidates?resources=VCPU:1", version="1.39")
    let_holds_end(service.db)

    granted = ask(held)

    assert (refused.status, refused.json["errors"][0]["reason"]) == (409, REFUSED[ask])
    assert granted.status in (200, 204), granted
    assert service.request("GET", "/-/holds").json["holds"] == []


def test_every_refusal_that_a_hold_may_cause_is_tried() -> None:
    """What consumers hold is the reason of just those that are declared so."""

    def below(error: type[errors.PlacementError]) -> Iterator[type[errors.PlacementError]]:
        for each in error.__subclasses__():
            yield each
            yield from below(each)

    declared = {each.reason for each in below(errors.PlacementError) if each.of_consumers}
    assert declared == set(REFUSED.values())


# -- confirmation --------------------------------------------------------------------------------


def confirm(service: Service, *consumers: str) -> webob.Response:
    """Confirm consumers as they were claimed."""
    listed = [{"consumer_uuid": uuid, "consumer_generation": 1} for uuid in consumers]
    return service.request("POST", "/-/claims/confirm", json={"consumers": listed})


def generation(service: Service, consumer: str) -> Any:
    return service.request("GET", f"/allocations/{consumer}", version="1.39").json["consumer_generation"]


def test_a_confirmation_steps_each_consumer_it_names(service: Service) -> None:
    """So that whoever still has the old generation of one of them is refused."""
    World(service).provider(inventory={"VCPU": 8})
    gang = [claim(2) for _ in range(3)]
    assert place(service, *gang, hold_s=900).status_int == 200
    uuids = [each["consumer_uuid"] for each in gang]

    assert confirm(service, *uuids).status_int == 200

    assert [generation(service, uuid) for uuid in uuids] == [2, 2, 2]
    repeated = confirm(service, *uuids).json["errors"][0]
    assert repeated["code"] == "placement.concurrent_update"


def test_what_is_over_is_not_confirmed_although_it_is_still_there(service: Service) -> None:
    """Nothing has removed it: all of a confirmation is refused then, by a list or alone."""
    World(service).provider(inventory={"VCPU": 8})
    early, late = claim(2), claim(2)
    for each in (early, late):
        assert place(service, each, hold_s=900).status_int == 200
    uuids = [each["consumer_uuid"] for each in (early, late)]
    let_holds_end(service.db, consumers=uuids[:1])

    alone = service.request("POST", f"/-/claims/{uuids[0]}/confirm")
    answers = [confirm(service, *uuids[::-1]), confirm(service, uuids[0]), alone]

    codes = [answer.json["errors"][0]["code"] for answer in answers]
    assert codes == ["placement.hold_expired"] * 3
    assert [generation(service, uuid) for uuid in uuids] == [1, 1]
    assert confirm(service, uuids[1]).status_int == 200


def test_only_a_new_consumer_is_held(service: Service) -> None:
    """What an existing one has must not go when a hold ends. One that has it is enough for a refusal."""
    World(service).provider(inventory={"VCPU": 8})
    existing = claim(2)
    assert place(service, existing).status_int == 200
    again = {**existing, "consumer_generation": 1}

    answers = [place(service, again, hold_s=900), place(service, claim(2), again, hold_s=900)]

    assert [each.json["errors"][0]["reason"] for each in answers] == ["consumer_not_new"] * 2
    assert service.request("GET", "/-/holds").json["holds"] == []
    assert generation(service, existing["consumer_uuid"]) == 1


# -- what was written by hand ------------------------------------------------------------------------


@pytest.mark.parametrize("expires_at", [10**18, -(10**18)])
def test_an_end_that_no_calendar_has_is_shown_as_the_last_or_first_day(
    service: Service, expires_at: int
) -> None:
    """Written by SQL: the lists are answered all the same."""
    host = World(service).provider(inventory={"VCPU": 4})
    held = claim(4)
    assert place(service, held, hold_s=900).status_int == 200
    rows = update(claims_tables.consumer_holds).values(expires_at=expires_at)
    service.db.write(lambda tx: tx.change(rows))

    listed = service.send("GET", "/-/holds")
    tree = service.send("GET", f"/-/trees/{host}?allocations=true")

    day = "9999-12-31" if expires_at > 0 else "1970-01-01"
    assert listed.json["holds"][0]["expires_at"].startswith(day)
    (provider,) = tree.json["trees"][0]["providers"]
    assert provider["allocations"][held["consumer_uuid"]]["held_until"].startswith(day)


def test_a_hold_that_expires_leaves_one_line_in_the_log(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """It names the consumer and its providers; those that are confirmed, or end otherwise, leave none."""
    host = World(service).provider(inventory={"VCPU": 8})
    expired, confirmed, deleted = claim(1), claim(1), claim(1)
    for each in (expired, confirmed, deleted):
        assert place(service, each, hold_s=900).status_int == 200
    assert confirm(service, confirmed["consumer_uuid"]).status_int == 200
    assert service.send("DELETE", f"/allocations/{deleted['consumer_uuid']}").status == 204
    let_holds_end(service.db)

    with caplog.at_level("INFO", logger=expiry.__name__):
        for _ in range(2):
            service.send("GET", "/allocation_candidates?resources=VCPU:1")

    (line,) = [each.getMessage() for each in caplog.records if each.name == expiry.__name__]
    assert expired["consumer_uuid"] in line
    assert host in line


# -- many that end at once -----------------------------------------------------------------------


def test_a_search_waits_for_what_another_process_is_removing(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two find the same holds over, and one removes the first of them: both answers have all the room."""
    World(service).provider(inventory={"VCPU": 3})
    for _ in range(3):
        assert place(service, claim(1), hold_s=900).status_int == 200
    other = Service(service.conf, Database(service.db.engine))
    let_holds_end(service.db)
    monkeypatch.setattr(expiry, "MOST_AT_ONCE", 1)
    about_to_commit, may_commit = threading.Event(), threading.Event()

    def stop_before_the_first_commit(_: Connection, sent: Message) -> None:
        if sent.statements[-1].text == "COMMIT" and not about_to_commit.is_set():
            about_to_commit.set()
            assert may_commit.wait(HANGS_S)

    def pass_on_when_looking(_: Connection, sent: Message) -> None:
        if any("FOR UPDATE" in each.text or "IMMEDIATE" in each.text for each in sent.statements):
            may_commit.set()

    def search(asked: Service) -> int:
        found = asked.request("GET", "/allocation_candidates?resources=VCPU:3", version="1.39")
        return len(found.json["allocation_requests"])

    with (
        observed(service.db, Hook(stop_before_the_first_commit)),
        observed(other.db, Hook(pass_on_when_looking)),
        ThreadPoolExecutor(2) as threads,
    ):
        first = threads.submit(search, service)
        assert about_to_commit.wait(HANGS_S)
        second = threads.submit(search, other)
        assert (first.result(HANGS_S), second.result(HANGS_S)) == (1, 1)


# -- what another transaction has locked -----------------------------------------------------------


@contextmanager
def locked(db: Database, table: Table, uuid: str) -> Iterator[None]:
    """Let another program have a row locked inside; in SQLite it has the file."""
    is_locked, is_enough = threading.Event(), threading.Event()

    def lock(tx: Transaction) -> None:
        tx.rows(select(table.c.id).where(table.c.uuid == uuid).with_for_update())
        is_locked.set()
        assert is_enough.wait(HANGS_S)

    # No server ends its transaction for being idle.
    with opened(db.engine.url, patient=True) as stranger:
        thread = threading.Thread(target=stranger.write, args=(lock,))
        thread.start()
        try:
            assert is_locked.wait(HANGS_S)
            yield
        finally:
            is_enough.set()
            thread.join()


@pytest.mark.parametrize("table", [models.consumers, models.resource_providers], ids=str)
def test_one_row_that_is_locked_stops_nobody(service: Service, table: Table) -> None:
    """Searches of several threads answer meanwhile. All that is not locked is removed, and later the rest."""
    world = World(service)
    hosts = [world.provider(inventory={"VCPU": 4}) for _ in range(3)]
    held = [claim(4, query=f"resources=VCPU:4&in_tree={host}") for host in hosts]
    assert place(service, *held, hold_s=900).status_int == 200
    let_holds_end(service.db)
    rows = {"consumers": held[0]["consumer_uuid"], "resource_providers": hosts[0]}

    def search() -> set[str]:
        found = service.request("GET", "/allocation_candidates?resources=VCPU:4", version="1.39")
        return {host for each in found.json["allocation_requests"] for host in each["allocations"]}

    def claim_of_first() -> int:
        path, body = f"/allocations/{new_uuid()}", bodies.entry({hosts[0]: {"VCPU": 4}})
        return service.send("PUT", path, body).status

    with ThreadPoolExecutor(4) as threads:
        with locked(service.db, table, rows[table.name]):
            searches = [threads.submit(search) for _ in range(4)]
            found = [each.result(HANGS_S) for each in searches]
        assert search() == set(hosts)

    # SQLite has one writer.
    free = set() if service.db.dialect == "sqlite" else set(hosts[1:])
    assert found == [free] * 4
    assert claim_of_first() == 204
