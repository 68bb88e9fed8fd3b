"""Sequences of PostgreSQL that stand behind their tables, as a restore of rows alone leaves them.

What the database refuses then is no conflict of the client. ``db check`` names each one and its remedy.
"""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import func, select, text

from placement.db import invariants, models, sequences
from placement.db.database import Database
from placement.objects import restored
from tests.extensions.claims.test_claims import claim, place
from tests.support import bodies
from tests.support.client import Answer
from tests.support.clock import let_holds_end
from tests.support.databases import synced
from tests.support.service import Service, configure
from tests.support.world import World, new_uuid

Ask = Callable[[Service, str], Answer]


@pytest.fixture
def service() -> Iterator[Service]:
    """The service on a database of its own, in which each table has a row."""
    with synced("postgresql") as db:
        made = Service(configure(insight__enabled=True, insight__history_days=1), db)
        world = World(made)
        aggregate = new_uuid()
        host = world.provider("host", None, {"VCPU": 100}, [], [aggregate])
        held = claim(1, groups=["g"])
        assert place(made, held, hold_s=900, groups={"g": {"rule": "apart"}}).status_int == 200
        assert made.send("PUT", "/traits/CUSTOM_A").status == 201
        assert made.send("GET", f"/resource_providers/{host}").status == 200
        yield made


def set_back(db: Database, table: str) -> None:
    """Let the sequence of a table be as in a new database."""
    db.write(lambda tx: tx.rows(text(f"SELECT setval('{table}_id_seq', 1, false)")))


def the_host(service: Service) -> str:
    (host,) = World(service).get("/resource_providers")["resource_providers"]
    return str(host["uuid"])


def add_provider(service: Service) -> Answer:
    return service.send("POST", "/resource_providers", {"name": new_uuid()})


def add_trait(service: Service) -> Answer:
    return service.send("PUT", "/traits/CUSTOM_B")


def add_inventory(service: Service) -> Answer:
    body = {"resource_class": "DISK_GB", "total": 1}
    host = the_host(service)
    body["resource_provider_generation"] = World(service).generation(host)
    return service.send("POST", f"/resource_providers/{host}/inventories", body)


def add_aggregate(service: Service) -> Answer:
    host = the_host(service)
    body = {
        "aggregates": [new_uuid()],
        "resource_provider_generation": World(service).generation(host),
    }
    return service.send("PUT", f"/resource_providers/{host}/aggregates", body)


def add_consumer(service: Service, **more: str) -> Answer:
    body = bodies.entry({the_host(service): {"VCPU": 1}}, **more)
    return service.send("PUT", f"/allocations/{new_uuid()}", body)


def add_owner(service: Service) -> Answer:
    return add_consumer(service, project_id=new_uuid(), user_id=new_uuid(), consumer_type="OTHER")


def add_group(service: Service) -> Answer:
    body = {"claims": [claim(1, groups=["h"])], "groups": {"h": {"rule": "apart"}}}
    return service.send("POST", "/-/claims", body)


WRITES: dict[str, Callable[[Service], Answer]] = {
    "resource_providers": add_provider,
    "traits": add_trait,
    "inventories": add_inventory,
    "placement_aggregates": add_aggregate,
    "consumers": add_consumer,
    "allocations": add_consumer,
    "projects": add_owner,
    "users": add_owner,
    "consumer_types": add_owner,
    "consumer_groups": add_group,
    "history": add_consumer,
}
"""A write for each table whose ids are drawn from a sequence."""


@pytest.mark.parametrize("table", WRITES)
def test_a_taken_id_is_not_a_taken_name(service: Service, table: str) -> None:
    """The answer is an error of the server that says what to do; db check and its repair mend it."""
    set_back(service.db, table)
    (found,) = invariants.violations(service.db)

    refused = WRITES[table](service)

    (error,) = refused.json["errors"]
    assert (refused.status, error["reason"]) == (500, "sequence_behind"), error
    assert table in error["detail"]
    assert "placement-manage db check" in error["detail"]
    highest = service.db.read(lambda reader: reader.value(highest_id(table)))
    remedy = f"SELECT setval('public.{table}_id_seq', {highest})"
    assert found.examples == (f"table {table}, highest id {highest}: {remedy};",)
    service.db.write(lambda tx: tx.rows(text(remedy)))
    assert WRITES[table](service).status in (200, 201, 204)
    assert invariants.violations(service.db) == []


def test_a_hold_whose_end_cannot_be_written_stops_no_read(service: Service) -> None:
    """Searches and other reads are answered; once the sequence is set, the hold ends (09 section 5)."""
    let_holds_end(service.db)

    search = "/allocation_candidates?resources=VCPU:1"
    for path in (search, "/-/trees", "/-/changes", "/-/capacity?resources=VCPU:1"):
        # Each attempt draws the next id, and one will be free.
        set_back(service.db, "history")
        assert service.send("GET", path).status == 200, path
    host = the_host(service)
    usages = f"/resource_providers/{host}/usages"
    assert service.send("GET", usages).json["usages"] == {"VCPU": 1}

    service.db.write(sequences.set_lagging)
    assert service.send("GET", "/allocation_candidates?resources=VCPU:100").json["allocation_requests"]
    assert service.send("GET", usages).json["usages"] == {"VCPU": 0}


def highest_id(table: str) -> object:
    return select(func.max(models.whole_metadata().tables[table].c.id))


def test_every_table_with_a_sequence_is_tried() -> None:
    drawn = {
        name
        for name, table in models.whole_metadata().tables.items()
        if table.autoincrement_column is not None
    }
    # Whose ids are chosen, not drawn.
    assert drawn - {"resource_classes"} == WRITES.keys()


@pytest.mark.parametrize("called", [True, False])
def test_a_sequence_that_goes_on_is_not_told(service: Service, called: bool) -> None:
    """Also one that was set to what comes next, and has not been used since."""
    highest = service.db.read(lambda reader: reader.value(highest_id("traits")))
    following = highest if called else highest + 1
    setting = text(f"SELECT setval('traits_id_seq', {following}, {called})")
    service.db.write(lambda tx: tx.rows(setting))

    assert service.db.snapshot(sequences.find_lagging) == []


def test_the_repair_and_the_command_after_a_restore_set_them_all(service: Service) -> None:
    """A write that leaves history needs one of them itself."""
    for mend in (
        lambda: invariants.repair(service.db, invariants.SEQUENCES),
        lambda: len(restored.settle(service.db, lambda what, done, total: None).sequences),
    ):
        for table in WRITES:
            set_back(service.db, table)

        assert mend() == len(WRITES)

        assert invariants.violations(service.db) == []


@pytest.mark.parametrize("kind", ["sqlite", "mysql"])
def test_other_databases_have_none(kind: str) -> None:
    with synced(kind) as db:
        assert db.snapshot(sequences.find_lagging) == []
