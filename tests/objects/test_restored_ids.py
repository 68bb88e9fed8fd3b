"""Holds and groups are of the consumer that was claimed, whatever id a database gives out again.

Specification 06 section 7.9 and 09 section 5. What a database that is restored, or emptied by hand, leaves in
our own tables must not touch the consumers that come after.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, Table, delete, func, insert, select, update

from placement.db import invariants, models, online_migrations, schema
from placement.db.coexistence import takeover
from placement.db.database import Database
from placement.extensions.claims import consumer_keys
from placement.extensions.claims import tables as claims_tables
from placement.objects import restored
from tests.extensions.claims.test_claims import claim, place
from tests.support import bodies
from tests.support.clock import let_holds_end
from tests.support.damage import unguarded
from tests.support.databases import KINDS, synced
from tests.support.service import Service, configure
from tests.support.world import World, new_uuid

OPENSTACK = "a082b8bb98d0"
OURS = {
    *(
        "owner_usages",
        "provider_changes",
        "coexistence",
        "consumer_groups",
        "consumer_group_members",
    ),
    *("consumer_holds", "capacity_records", "scrub", "history"),
}
THEIRS = [table for table in models.whole_metadata().sorted_tables if table.name not in OURS]
IDS = online_migrations.IncompleteIds("nobody", "nobody")

SERVERS = 4


@pytest.fixture(params=KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """The service on a database of its own, with a host on which nothing is."""
    with synced(request.param) as db:
        made = Service(configure(insight__enabled=True), db)
        World(made).provider("host", inventory={"VCPU": 100})
        yield made


def hold_some(service: Service) -> list[str]:
    """Claim as many consumers as come after, held and in a group; return their uuids."""
    gang = [claim(1, groups=["g"]) for _ in range(SERVERS)]
    answer = place(service, *gang, hold_s=900, groups={"g": {"rule": "together"}})
    assert answer.status_int == 200, answer
    return [each["consumer_uuid"] for each in gang]


def delete_by_hand(service: Service, *tables: Table) -> None:
    """Do what ``TRUNCATE`` does without foreign keys: ids begin anew, and our own tables stay."""
    with unguarded(service.db) as connection:
        for table in tables:
            connection.execute(delete(table))
    for table in tables:
        begin_ids_anew(service.db, table)


def begin_ids_anew(db: Database, table: Table) -> None:
    """Let the next row of a table without rows have the id 1; SQLite does that by itself."""
    statement = {
        "postgresql": f"ALTER SEQUENCE {table.name}_id_seq RESTART",
        "mysql": f"ALTER TABLE {table.name} AUTO_INCREMENT = 1",
    }.get(db.dialect)
    if statement and "id" in table.c:
        with db.engine.connect() as connection:
            connection.exec_driver_sql(statement)


def start_ordinary_servers(service: Service) -> list[str]:
    """Claim in the way of Nova; return the uuids."""
    world = World(service)
    (listed,) = world.get("/resource_providers")["resource_providers"]
    uuids = [new_uuid() for _ in range(SERVERS)]
    for uuid in uuids:
        body = bodies.entry({listed["uuid"]: {"VCPU": 1}})
        assert service.send("PUT", f"/allocations/{uuid}", body).status == 204
    return uuids


def ids(db: Database, column: Any) -> set[Any]:
    return set(db.read(lambda reader: reader.column(select(column))))


def require_untouched(service: Service, strangers: list[str]) -> None:
    """They are not held, are no members, keep what they have when holds end, and can be claimed beside."""
    search = "/allocation_candidates?resources=VCPU:1"
    assert service.send("GET", "/-/holds").json["holds"] == []
    assert service.send("GET", "/-/groups/g").status == 404
    let_holds_end(service.db)
    assert service.send("GET", search).status == 200
    for uuid in strangers:
        assert service.send("GET", f"/allocations/{uuid}").json["allocations"]
    again = hold_some(service)
    held = {each["consumer_uuid"] for each in service.send("GET", "/-/holds").json["holds"]}
    assert held == set(again)
    members = service.send("GET", "/-/groups/g").json["members"]
    assert {each["consumer_uuid"] for each in members} == set(again)


def test_rows_that_were_left_behind_are_of_nobody(service: Service) -> None:
    """Consumers and allocations are removed by SQL, and other servers get their ids."""
    hold_some(service)
    before = ids(service.db, models.consumers.c.id)
    delete_by_hand(service, models.allocations, models.consumers)

    strangers = start_ordinary_servers(service)

    assert ids(service.db, models.consumers.c.id) & before or service.db.dialect == "mysql"
    require_untouched(service, strangers)


def test_a_new_consumer_takes_the_place_of_a_row_that_was_left_behind(service: Service) -> None:
    """It is claimed, held and a member at once, with the ids of others: no key is taken."""
    hold_some(service)
    delete_by_hand(service, models.allocations, models.consumers)

    again = hold_some(service)

    held = {each["consumer_uuid"] for each in service.send("GET", "/-/holds").json["holds"]}
    assert held == set(again)
    assert invariants.repair(service.db, invariants.OWNER_USAGES) >= 0
    assert service.send("GET", "/-/groups/g").json["kept"] is True


def test_a_new_group_has_none_of_the_members_of_another_one(service: Service) -> None:
    """The rows of groups are removed by SQL; the next one gets the id of the first, at the first attempt."""
    former = hold_some(service)
    delete_by_hand(service, claims_tables.consumer_groups)

    later = claim(1, groups=["other"])
    assert place(service, later, groups={"other": {"rule": "together"}}).status_int == 200

    assert ids(service.db, claims_tables.consumer_groups.c.id) == {1}
    members = service.send("GET", "/-/groups/other").json["members"]
    assert [each["consumer_uuid"] for each in members] == [later["consumer_uuid"]]
    assert later["consumer_uuid"] not in former


# -- a backup of the OpenStack service, as the page on the switch describes it -------------------------


def restore(db: Database, backup: dict[Table, list[dict[str, Any]]]) -> None:
    """Put the rows of the OpenStack service back, with its revision, and leave our own tables as they are."""
    with unguarded(db) as connection:
        for table in reversed(THEIRS):
            connection.execute(delete(table))
        for table in THEIRS:
            if backup[table]:
                connection.execute(insert(table), backup[table])
        set_sequences(connection)
    schema.stamp(db, OPENSTACK)


def set_sequences(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        for table in THEIRS:
            if "id" in table.c:
                following = select(func.coalesce(func.max(table.c.id), 0) + 1).scalar_subquery()
                connection.execute(select(func.setval(f"{table.name}_id_seq", following, False)))


def backup_of(db: Database) -> dict[Table, list[dict[str, Any]]]:
    with db.engine.connect() as connection:
        return {
            table: [dict(row) for row in connection.execute(select(table)).mappings()]
            for table in THEIRS
        }


@pytest.mark.parametrize("before_uuids", [False, True])
def test_a_restored_backup_of_openstack_and_a_sync(service: Service, before_uuids: bool) -> None:
    """Nothing of before is left in our tables, also where a release without uuids has written it."""
    backup = backup_of(service.db)
    hold_some(service)
    if before_uuids:
        forget_uuids(service.db)
    restore(service.db, backup)
    for table in (models.consumers, models.allocations):
        begin_ids_anew(service.db, table)

    schema.sync(service.db)

    for table in (*consumer_keys.TABLES, claims_tables.consumer_groups):
        assert ids(service.db, next(iter(table.c))) == set(), table
    strangers = start_ordinary_servers(service)
    takeover.finish(service.db)
    require_untouched(service, strangers)


def test_a_stamp_back_without_a_restore_keeps_allocations(service: Service) -> None:
    """The OpenStack service worked for a while: holds and groups have ended, and nobody loses anything."""
    servers = hold_some(service)
    takeover.release(service.db)
    schema.stamp(service.db, OPENSTACK)

    schema.sync(service.db)

    takeover.finish(service.db)
    require_untouched(service, servers)


def test_a_token_of_before_is_void_after_a_sync(service: Service) -> None:
    token = service.send("GET", "/-/changes").json["next"]
    takeover.release(service.db)
    schema.stamp(service.db, OPENSTACK)

    schema.sync(service.db)

    takeover.finish(service.db)
    assert service.send("GET", f"/-/changes?since={token}").status == 410


# -- rows of a worker of the release before ------------------------------------------------------------


def forget_uuids(db: Database) -> None:
    """Let all rows be as such a worker writes them."""
    for table in consumer_keys.TABLES:
        db.write(lambda tx, table=table: tx.change(update(table).values(consumer_uuid=None)))


def test_what_the_release_before_writes_counts_and_gets_its_uuids(service: Service) -> None:
    """It counts by the id; the data migration notes the uuids, and is not a finding of db check."""
    servers = hold_some(service)
    forget_uuids(service.db)

    assert len(service.send("GET", "/-/holds").json["holds"]) == SERVERS
    assert len(service.send("GET", "/-/groups/g").json["members"]) == SERVERS
    assert invariants.violations(service.db) == []
    migrate = dict(online_migrations.list_migrations())["note_consumer_uuids"]
    assert migrate(service.db, IDS, 3) == (3, 3)
    assert sum(migrate(service.db, IDS, 50)[1] for _ in range(2)) == 2 * SERVERS - 3

    for table in consumer_keys.TABLES:
        assert ids(service.db, table.c.consumer_uuid) == set(servers)
    assert invariants.violations(service.db) == []


# -- db restored ---------------------------------------------------------------------------------------


@contextmanager
def restored_whole(service: Service) -> Iterator[None]:
    """Back up all tables, and put them all back at the end, as they were, some time later."""
    with service.db.engine.connect() as connection:
        saved = {
            table: [dict(row) for row in connection.execute(select(table)).mappings()]
            for table in models.whole_metadata().sorted_tables
        }
    yield
    with unguarded(service.db) as connection:
        for table, rows in saved.items():
            connection.execute(delete(table))
            if rows:
                connection.execute(insert(table), rows)
    let_holds_end(service.db)


def settle(service: Service) -> restored.Restored:
    return restored.settle(service.db, lambda what, done, total: None)


def test_no_hold_of_a_backup_removes_what_the_backup_has_brought_back(service: Service) -> None:
    """They were confirmed after the backup, so they are servers; their holds of then are over."""
    servers = hold_some(service)
    with restored_whole(service):
        for uuid in servers:
            assert service.send("POST", f"/-/claims/{uuid}/confirm").status == 200

    done = settle(service)

    assert sorted(done.no_longer_held) == sorted(servers)
    service.send("GET", "/allocation_candidates?resources=VCPU:1")
    for uuid in servers:
        shown = service.send("GET", f"/allocations/{uuid}").json
        assert (bool(shown["allocations"]), shown["consumer_generation"]) == (True, 2)
    # Who they are kept apart from, or together with, is still so.
    assert len(service.send("GET", "/-/groups/g").json["members"]) == SERVERS
    assert invariants.violations(service.db) == []


def test_it_may_be_done_again(service: Service) -> None:
    hold_some(service)
    with restored_whole(service):
        pass
    settle(service)

    again = settle(service)

    assert (again.no_longer_held, again.rows, again.sequences) == ([], 0, [])
    assert invariants.violations(service.db) == []


def test_tokens_and_pictures_of_before_are_void(service: Service) -> None:
    """A worker that ran through it searches what is there now, though revisions come by the same numbers."""
    world, host = (
        World(service),
        World(service).get("/resource_providers")["resource_providers"][0]["uuid"],
    )
    with restored_whole(service):
        for _ in range(3):
            generation = world.generation(host)
            body = bodies.stock(generation, {"VCPU": 100 + generation})
            assert (
                service.send("PUT", f"/resource_providers/{host}/inventories", body).status == 200
            )
        token = service.send("GET", "/-/changes").json["next"]
        assert service.send("GET", "/allocation_candidates?resources=VCPU:101").json[
            "allocation_requests"
        ]

    settle(service)

    assert service.send("GET", f"/-/changes?since={token}").status == 410
    found = service.send("GET", "/allocation_candidates?resources=VCPU:101").json
    assert found["allocation_requests"] == []


def test_what_refers_to_nothing_goes_and_usage_is_counted(service: Service) -> None:
    """Tables of two times stand together: consumers of an older one than our own tables."""
    servers = hold_some(service)
    with unguarded(service.db) as connection:
        for table, column in ((models.consumers, "uuid"), (models.allocations, "consumer_id")):
            connection.execute(delete(table).where(table.c[column].in_(servers[:2])))
        connection.execute(update(models.inventories).values(used=7))
        connection.execute(delete(models.owner_usages))
        connection.execute(
            delete(models.provider_changes).where(models.provider_changes.c.slot < 9)
        )
        kept = claims_tables.consumer_holds.c.consumer_uuid.in_(servers[2:])
        connection.execute(delete(claims_tables.consumer_holds).where(kept))

    done = settle(service)

    assert done.no_longer_held == []
    assert invariants.violations(service.db) == []
    (usage,) = service.db.read(lambda reader: reader.rows(select(models.inventories.c.used)))
    assert usage == (2,)


def test_nothing_else_of_ours_names_a_consumer_by_its_id_alone() -> None:
    """Who adds such a column says here why a database may give the id to another one."""
    uuids = {table.name for table in models.whole_metadata().tables.values() if "consumer_uuid" in table.c}
    numbers = {
        table.name
        for table in models.whole_metadata().tables.values()
        for column in table.c
        if any(key.column is models.consumers.c.id for key in column.foreign_keys)
    }
    assert numbers <= uuids
