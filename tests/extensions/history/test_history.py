"""The history of writes (specification 07 section 11): who wrote, how it is paged, and what is too old."""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from oslo_context.context import get_current
from sqlalchemy import delete, func, select, update

from placement import authorship
from placement.authorship import Author
from placement.db import invariants, models, scrub
from placement.extensions.history import history_rows, trimmer
from placement.extensions.history import tables as history_tables
from placement.extensions.history.trimmer import Trimmer
from placement.objects import scrubber
from tests.extensions.claims.test_claims import claim
from tests.proofs.year.ledger import require_whole
from tests.support.batches import send_at_once
from tests.support.bodies import entry
from tests.support.clock import let_holds_end
from tests.support.databases import KINDS
from tests.support.recorder import recorded
from tests.support.service import Service, running
from tests.support.world import World, new_uuid

DAY_MS = 86_400_000


@pytest.fixture(params=KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """The service, which keeps the history, on an empty database."""
    with running(request.param, insight__enabled=True, insight__history_days=30.0) as made:
        yield made


def writes(service: Service, query: str = "") -> list[dict[str, Any]]:
    """Return what the history shows, newest first."""
    answer = service.send("GET", f"/-/history?{query}")
    assert answer.status == 200, answer
    return list(answer.json["writes"])


# -- who -----------------------------------------------------------------------------------------


def test_holds_that_are_over_are_removed_by_the_service(service: Service) -> None:
    """The request that has met them is named, its user is not: he has removed nothing."""
    World(service).host(VCPU=2)
    holder, other = new_uuid(), new_uuid()
    held = {"claims": [claim(2, consumer_uuid=holder)], "hold_s": 900}
    assert service.send("POST", "/-/claims", held).status == 200
    let_holds_end(service.db)

    body = {"claims": [claim(2, consumer_uuid=other)]}
    answer = service.send("POST", "/-/claims", body)

    assert answer.status == 200
    newest, removal, first = writes(service)[:3]
    assert (newest["consumer_uuid"], newest["route"]) == (other, "/-/claims")
    assert first["consumer_uuid"] == removal["consumer_uuid"] == holder
    assert removal["route"] == "expiry of holds"
    assert removal["by"] == {"user_id": None, "project_id": None}
    assert removal["method"] is None
    assert removal["request_id"] == newest["request_id"] == answer.headers["x-openstack-request-id"]
    assert removal["before"]["resources"] == {"VCPU": 2}
    assert removal["after"] is None


STRATEGIES = ("any", "pack", "spread")
"""Claims of one strategy are written together."""


def claim_as(service: Service, number: int, strategy: str) -> tuple[str, dict[str, Any]]:
    """Claim for one consumer as a client of its own; return the consumer, and the author of its row."""
    asked, global_id = claim(1), f"req-{new_uuid()}"
    if number % 2:
        # Those that name several queries are written together with the others.
        asked["queries"] = [asked.pop("query"), "resources=VCPU:2"]
    answer = service.request(
        "POST",
        "/-/claims",
        version="1.39",
        json={"claims": [asked], "strategy": strategy},
        x_auth_token=f"user{number}:project{number}",
        x_roles="admin,service",
        x_openstack_request_id=global_id,
    )
    assert answer.status_int == 200, answer.text
    return asked["consumer_uuid"], {
        "by": {"user_id": f"user{number}", "project_id": f"project{number}"},
        "request_id": answer.headers["x-openstack-request-id"],
        "global_request_id": global_id,
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_written_together_names_each_author(
    service: Service, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """The thread of one client writes the claims of all who waited, each under its own name."""
    World(service).host(VCPU=100)
    asks = [partial(claim_as, service, number, strategy) for number in range(9)]

    first, others, sizes = send_at_once(monkeypatch, asks[0], asks[1:])

    assert sizes == [8]
    for consumer, author in (first, *others):
        (written,) = writes(service, f"consumer={consumer}")
        assert {name: written[name] for name in author} == author


def put_as(service: Service, number: int, host: str) -> tuple[str, dict[str, Any]]:
    """Send allocations as a client of its own; return the consumer, and the author of its row."""
    consumer = new_uuid()
    answer = service.request(
        "PUT",
        f"/allocations/{consumer}",
        version="1.39",
        json=entry({host: {"VCPU": 1}}),
        x_auth_token=f"user{number}:project{number}",
        x_roles="admin,service",
    )
    assert answer.status_int == 204, answer.text
    return consumer, {
        "by": {"user_id": f"user{number}", "project_id": f"project{number}"},
        "request_id": answer.headers["x-openstack-request-id"],
        "route": "/allocations/{consumer_uuid}",
    }


def test_allocations_written_together_name_each_author(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = World(service).host(VCPU=100)
    asks = [partial(put_as, service, number, host) for number in range(9)]

    first, others, sizes = send_at_once(monkeypatch, asks[0], asks[1:])

    assert sizes == [8]
    for consumer, author in (first, *others):
        (written,) = writes(service, f"consumer={consumer}")
        assert {name: written[name] for name in author} == author
        assert written["after"]["resources"] == {"VCPU": 1}


class Notes(logging.Handler):
    """Notes of each line of a log the request id and the user with which oslo.log would show it."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[str | None, str | None]] = []

    def emit(self, record: logging.LogRecord) -> None:
        context = get_current()
        self.said.append((context.request_id, context.user_id))


def test_a_scrub_writes_under_its_own_name(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request after whose answer it runs has nothing to do with what it mends."""
    host, uuid = World(service).host(VCPU=2), new_uuid()
    assert service.send("PUT", f"/allocations/{uuid}", entry({host: {"VCPU": 1}})).status == 204
    service.db.write(lambda tx: tx.change_unshown(delete(models.allocations)))
    service.conf.set_override("scrub_share", 50, group="placement_database")
    monkeypatch.setattr(scrubber.random, "uniform", lambda low, high: 0.0)
    scrubbing, notes, asked = Service(service.conf, service.db), Notes(), set()

    logging.getLogger(scrub.__name__).addHandler(notes)
    while (newest := writes(service)[0])["after"] is not None:
        asked.add(scrubbing.send("GET", "/traits").headers["x-openstack-request-id"])
    logging.getLogger(scrub.__name__).removeHandler(notes)

    assert (newest["consumer_uuid"], newest["method"], newest["route"]) == (uuid, None, "scrub")
    assert newest["by"] == {"user_id": None, "project_id": None}
    assert (newest["request_id"], None) in notes.said
    assert all(request_id not in asked and user is None for request_id, user in notes.said)


def test_a_confirmation_leaves_what_was_there(service: Service) -> None:
    World(service).host(VCPU=2)
    holder = new_uuid()
    held = {"claims": [claim(2, consumer_uuid=holder)], "hold_s": 900}
    assert service.send("POST", "/-/claims", held).status == 200

    assert service.send("POST", f"/-/claims/{holder}/confirm").status == 200

    newest = writes(service, f"consumer={holder}")[0]
    assert newest["route"] == "/-/claims/{consumer_uuid}/confirm"
    assert newest["before"] == newest["after"]
    assert newest["after"]["resources"] == {"VCPU": 2}
    assert newest["generation"] == {"before": 1, "after": 2}


def test_repairs_are_written_by_the_command(service: Service) -> None:
    """What ``db check --repair`` removes and names leaves its rows."""
    host = World(service).host(VCPU=2)
    uuid = new_uuid()
    assert service.send("PUT", f"/allocations/{uuid}", entry({host: {"VCPU": 1}})).status == 204
    service.db.write(lambda tx: tx.change_unshown(delete(models.allocations)))
    nameless = update(models.resource_providers).values(name=None, updated_at=None)
    service.db.write(lambda tx: tx.change_unshown(nameless))

    with authorship.acting(Author(route="placement-manage db")):
        for invariant in (invariants.IDLE, invariants.BARE):
            invariants.repair(service.db, invariant)

    # A provider without a name is shown with its uuid, before and after: nothing that is shown has changed.
    (removal, *_) = writes(service)
    assert removal["route"] == "placement-manage db"
    assert removal["request_id"] is None
    assert (removal["consumer_uuid"], removal["provider_uuid"]) == (uuid, None)
    assert removal["before"]["resources"] == {}
    assert removal["after"] is None


def test_names_that_no_column_holds_are_written_all_the_same(service: Service) -> None:
    """A token may name anybody: neither its letters nor its length cost the client its write."""
    answer = service.request(
        "POST",
        "/resource_providers",
        version="1.39",
        json={"name": "h"},
        x_auth_token=f"admin{'ä' * 300}:p",
        x_roles="admin,service",
    )
    assert answer.status_int == 200
    (written,) = writes(service)
    assert written["by"]["user_id"].startswith("admin\\x")
    assert len(written["by"]["user_id"]) == 255


def test_a_project_is_found_by_any_name(service: Service) -> None:
    host = World(service).host(VCPU=2)
    body = entry({host: {"VCPU": 1}}, project_id="dépôt")
    assert service.send("PUT", f"/allocations/{new_uuid()}", body).status == 204

    (written,) = writes(service, "project_id=d%C3%A9p%C3%B4t")
    assert written["after"]["project_id"] == "dépôt"
    assert writes(service, "request_id=d%C3%A9p%C3%B4t") == []


def test_each_project_sees_its_part_of_a_change_of_hands(service: Service) -> None:
    host, uuid = World(service).host(VCPU=2), new_uuid()
    for generation, project in ((None, "red"), (1, "blue")):
        body = entry({host: {"VCPU": 1}}, generation, project_id=project)
        assert service.send("PUT", f"/allocations/{uuid}", body).status == 204

    (lost, got), (taken,) = writes(service, "project_id=red"), writes(service, "project_id=blue")
    assert (got["after"], lost["before"]) == (lost["before"], got["after"])
    assert lost["after"] is taken["before"] is None
    assert taken["after"]["project_id"] == "blue"
    assert lost["request_id"] == taken["request_id"]


# -- pages ---------------------------------------------------------------------------------------


def test_no_page_loses_a_row_whatever_their_times_are(service: Service) -> None:
    """Many rows have one time, and a row that is committed late stands between others."""
    host = World(service).host(VCPU=100)
    for _ in range(25):
        body = entry({host: {"VCPU": 1}})
        assert service.send("PUT", f"/allocations/{new_uuid()}", body).status == 204
    rows = history_tables.history
    same = update(rows).values(written_at=1_700_000_000_000 + rows.c.id % 3)
    service.db.write(lambda tx: tx.change_unshown(same))
    in_order = select(rows.c.request_id).order_by(rows.c.written_at.desc(), rows.c.id.desc())
    everything = service.db.read(lambda reader: reader.column(in_order))
    assert len(everything) == 27

    for limit in (1, 4, 26, 27, 28):
        found, marker = list[str](), ""
        while marker is not None:
            page = service.send("GET", f"/-/history?limit={limit}{marker and '&marker=' + marker}").json
            found += [each["request_id"] for each in page["writes"]]
            marker = page["next"]
        assert found == everything, limit


# -- what is too old ------------------------------------------------------------------------------


def test_what_is_too_old_goes_in_parts(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(6):
        World(service).host()
    kept = writes(service)[::2]
    is_old = history_tables.history.c.id % 2 != newest_id(service) % 2
    age = update(history_tables.history).values(written_at=history_tables.history.c.written_at - 31 * DAY_MS)
    service.db.write(lambda tx: tx.change(age.where(is_old)))
    monkeypatch.setattr(trimmer, "MOST_AT_ONCE", 2)
    trims = Trimmer(service.db, 30.0)

    assert not trims.is_due()
    for left in (1, 0, 0):
        trims.go_on()
        assert len(writes(service)) == len(kept) + left
    assert writes(service) == kept


def newest_id(service: Service) -> int:
    return int(service.db.read(lambda reader: reader.value(select(func.max(history_tables.history.c.id)))))


def test_a_database_that_is_not_there_keeps_nobody(service: Service) -> None:
    """The answer has been given when old rows go."""
    trims = Trimmer(service.db, 30.0)
    service.db.write(lambda tx: tx.connection.exec_driver_sql("ALTER TABLE history RENAME TO gone"))
    try:
        trims.go_on()
    finally:
        service.db.write(lambda tx: tx.connection.exec_driver_sql("ALTER TABLE gone RENAME TO history"))


# -- off -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_option_nothing_is_sent(kind: str) -> None:
    with running(kind, insight__enabled=True) as service:
        with recorded(service.db) as statements:
            host = World(service).host(VCPU=2)
            uuid = new_uuid()
            body = entry({host: {"VCPU": 1}})
            assert service.send("PUT", f"/allocations/{uuid}", body).status == 204
            assert service.send("DELETE", f"/allocations/{uuid}").status == 204
        assert not [each for each in statements if "history" in each]
        assert service.send("GET", "/-/history").status == 404


def test_a_service_that_begins_to_keep_it_leaves_whole_rows(service: Service) -> None:
    """What was there before is known from what is written next."""
    host = World(service).host(VCPU=2)
    service.db.write(lambda tx: tx.change(delete(history_tables.history)))
    assert service.send("DELETE", f"/resource_providers/{host}").status == 204

    (written,) = writes(service)
    assert written["before"]["name"] == f"provider-{host}"
    assert written["before"]["inventories"]["VCPU"]["total"] == 2
    assert written["after"] is None


@pytest.mark.parametrize(
    ("state", "name"),
    [(None, None), ('{"name": "old"}', "old"), ('{"name": ""}', ""), ('{"name": [5]}', None), ("[]", None)],
)
def test_name_is_what_exists_or_what_the_entry_has(service: Service, state: str, name: str) -> None:
    """An empty name is a name; a row that was changed by SQL gives none."""
    host = World(service).host(VCPU=2)
    assert service.send("PUT", f"/resource_providers/{host}", {"name": ""}).status == 200
    assert {each["name"] for each in writes(service)} == {""}

    assert service.send("DELETE", f"/resource_providers/{host}").status == 204
    told = update(history_tables.history).values(state_before=state, state_after=None)
    service.db.write(lambda tx: tx.change(told))
    assert [each["name"] for each in writes(service, "limit=1")] == [name]


def test_many_rows_of_one_request(service: Service) -> None:
    """More than one statement takes: three hundred consumers at once."""
    host = World(service).host(VCPU=1000)
    body = {new_uuid(): entry({host: {"VCPU": 1}}) for _ in range(300)}
    assert service.send("POST", "/allocations", body).status == 204
    assert len(writes(service, "limit=1000")) == 302
    require_whole(service.db)
    assert history_rows.HistoryRow._fields == (*history_tables.history.c.keys(), "provider_name")
