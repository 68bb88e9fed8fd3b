"""The API over data of any age, and data migrations while it is written to (specification 06 section 7.4)."""

import functools
import threading
from typing import Any

import pytest

from placement.db import invariants, online_migrations, schema
from placement.db.database import Database
from tests.support import bodies, clouds
from tests.support.databases import opened, scratch_database
from tests.support.revisions import AT_HEAD, on
from tests.support.service import Service, configure
from tests.support.world import World

COUNTERS = "a4d7f2609b3e_4b7e1d90c6a2"
IDS = online_migrations.IncompleteIds("nobody", "nobody")


def serve(database: Database) -> Service:
    return Service(configure(), database)


def settle(database: Database) -> None:
    """Compute everything that is derived from the rows which were loaded."""
    for invariant in invariants.list_invariants():
        invariants.repair(database, invariant)


def answers(database: Database) -> dict[str, Any]:
    """Everything a client could read about the cloud."""
    world = World(serve(database))
    paths = ["/resource_providers", "/resource_classes"]
    paths += [f"/usages?project_id={project}" for project in ("project-a", "nobody")]
    for provider in world.get("/resource_providers")["resource_providers"]:
        base = f"/resource_providers/{provider['uuid']}"
        kinds = ("inventories", "usages", "allocations", "traits", "aggregates")
        paths += [base, *(f"{base}/{kind}" for kind in kinds)]
    paths += [f"/allocations/{clouds.uuid(2, number)}" for number in range(1, clouds.CONSUMERS + 1)]
    paths += ["/allocation_candidates?resources=VCPU:1,MEMORY_MB:100"]
    return {path: world.get(path) for path in paths}


@functools.cache
def expected_answers(generation: int, incomplete: bool) -> dict[str, Any]:
    """What the service answers on a database that never knew another schema.

    :param generation: of the consumers that had a record.
    :param incomplete: the last five had none, and belong to nobody.
    """
    rows = clouds.complete()
    for row in rows["consumers"]:
        row["generation"] = generation
    if incomplete:
        for table in ("projects", "users"):
            rows[table].append({"id": 2, "external_id": "nobody"})
        for row in rows["consumers"][-5:]:
            row |= {"project_id": 2, "user_id": 2, "generation": 0}
        for row in rows["resource_providers"]:
            if row["id"] in (clouds.HOSTS, 100 + clouds.HOSTS):
                row |= {"root_provider_id": row["id"], "parent_provider_id": None}
    with scratch_database("sqlite", schema.HEAD) as url, opened(url) as fresh:
        clouds.load(fresh, rows)
        settle(fresh)
        return answers(fresh)


def with_incomplete(database: Database, extra: int = 0) -> None:
    """Load a cloud, into a database at head, in which some consumers have allocations and no row."""
    rows = clouds.complete()
    for number in range(clouds.CONSUMERS + 1, clouds.CONSUMERS + 1 + extra):
        clouds._add_consumer(rows, number)
    for row in rows["inventories"]:
        row["total"] = row["max_unit"] = 100000
    rows["consumers"] = rows["consumers"][:4]
    clouds.load(database, rows)
    settle(database)


def claim(host: int) -> dict[str, Any]:
    return bodies.entry_1_12({clouds.uuid(1, host): {"MEMORY_MB": 100}})


@AT_HEAD
def test_data_migrations_while_the_service_writes(database: Database) -> None:
    """Consumers are claimed for, replaced and deleted while they are being completed."""
    with_incomplete(database, extra=48)
    send = serve(database).send
    deleted: list[int] = []
    claimed: list[int] = []
    begin = threading.Barrier(3)

    def delete_some() -> None:
        begin.wait()
        for number in range(10, 60, 2):
            deleted.append(send("DELETE", f"/allocations/{clouds.uuid(2, number)}").status)

    def claim_some() -> None:
        begin.wait()
        for number in range(11, 61, 2):
            path = f"/allocations/{clouds.uuid(2, number)}"
            answer = send("PUT", path, claim(number % 4 + 1), "1.12")
            claimed.append(answer.status)

    writers = [threading.Thread(target=work) for work in (delete_some, claim_some)]
    for writer in writers:
        writer.start()
    begin.wait()
    while online_migrations.create_incomplete_consumers(database, IDS, 3) != (0, 0):
        pass
    for writer in writers:
        writer.join()
    online_migrations.create_incomplete_consumers(database, IDS, 1000)

    assert set(claimed) == {204}
    # What has no consumer yet cannot be deleted (03 section 10).
    assert set(deleted) <= {204, 404}
    assert invariants.violations(database) == []
    rows = clouds.dump(database)
    assert len(rows["consumers"]) == 60 - deleted.count(204)


@pytest.mark.parametrize("migrated", [False, True], ids=["before", "after"])
@AT_HEAD
@on("sqlite")
@pytest.mark.parametrize("version", ["1.0", "1.7", "1.8", "1.12", "1.27", "1.28", "1.38"])
def test_replacing_allocations_that_had_no_consumer(
    database: Database, version: str, migrated: bool
) -> None:
    """Specification 06 section 7.4: whoever replaces them gives them a consumer."""
    with_incomplete(database)
    if migrated:
        online_migrations.create_incomplete_consumers(database, IDS, 1000)
    send = serve(database).send
    uuid, minor = clouds.uuid(2, 9), int(version.split(".")[1])
    body = claim(2)
    if minor < 12:
        resources = {"MEMORY_MB": 100}
        body["allocations"] = [
            {"resource_provider": {"uuid": clouds.uuid(1, 2)}, "resources": resources}
        ]
    if minor < 8:
        del body["project_id"], body["user_id"]
    if minor >= 28:
        body["consumer_generation"] = 0 if migrated else None
    if minor >= 38:
        body["consumer_type"] = "INSTANCE"

    answer = send("PUT", f"/allocations/{uuid}", body, version)

    assert answer.status == 204, answer.text
    shown = send("GET", f"/allocations/{uuid}").json
    assert shown["consumer_generation"] == 1
    assert shown["project_id"] == ("00000000-0000-0000-0000-000000000000" if minor < 8 else "red")
    assert [*shown["allocations"]] == [clouds.uuid(1, 2)]
    online_migrations.create_incomplete_consumers(database, IDS, 1000)
    assert invariants.violations(database) == []


@AT_HEAD
def test_deleting_allocations_that_had_no_consumer(database: Database) -> None:
    with_incomplete(database)
    send = serve(database).send

    path = f"/allocations/{clouds.uuid(2, 9)}"
    before = clouds.dump(database)["allocations"]

    assert send("DELETE", path).status == 404
    assert clouds.dump(database)["allocations"] == before

    online_migrations.create_incomplete_consumers(database, IDS, 1000)
    assert send("GET", path).json["consumer_generation"] == 0
    assert send("DELETE", path).status == 204
    assert invariants.violations(database) == []
