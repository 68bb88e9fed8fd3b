"""The API over data of any age, and data migrations while it is written to (specification 06 section 7.4)."""

import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest
import webob

from placement import deploy
from placement.db import invariants, online_migrations, schema
from placement.db.database import Database
from placement.db.migrations import MigrationBlocked
from tests.ops import clouds
from tests.ops.conftest import AT_HEAD, at, on
from tests.support.databases import opened, scratch_database
from tests.support.service import configure

LATEST = "placement latest"
COUNTERS = "c5d20b9e4f18"
IDS = online_migrations.IncompleteIds("nobody", "nobody")
Ask = Callable[..., webob.Response]


def serve(database: Database) -> Ask:
    application = deploy.loadapp(configure(), database=database)

    def ask(method: str, path: str, body: Any = None, version: str = LATEST) -> webob.Response:
        request = webob.Request.blank(path, method=method)
        request.headers["x-auth-token"] = "admin"
        request.headers["openstack-api-version"] = version
        request.accept = "application/json"
        if body is not None:
            request.json_body = body
            request.content_type = "application/json"
        return request.get_response(application)

    return ask


def settle(database: Database) -> None:
    """Compute everything that is derived from the rows which were loaded."""
    for invariant in invariants.INVARIANTS:
        invariants.repair(database, invariant)


def answers(ask: Ask) -> dict[str, Any]:
    """Everything a client could read about the cloud."""
    paths = ["/resource_providers", "/resource_classes"]
    paths += [f"/usages?project_id={project}" for project in ("project-a", "nobody")]
    for provider in ask("GET", "/resource_providers").json["resource_providers"]:
        base = f"/resource_providers/{provider['uuid']}"
        kinds = ("inventories", "usages", "allocations", "traits", "aggregates")
        paths += [base, *(f"{base}/{kind}" for kind in kinds)]
    paths += [f"/allocations/{clouds.uuid(2, number)}" for number in range(1, clouds.CONSUMERS + 1)]
    paths += ["/allocation_candidates?resources=VCPU:1,MEMORY_MB:100"]
    found = {path: ask("GET", path) for path in paths}
    assert {answer.status_int for answer in found.values()} == {200}
    return {path: answer.json for path, answer in found.items()}


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
        return answers(serve(fresh))


@at(*schema.REVISIONS[: schema.REVISIONS.index("611cd6dffd7b")])
def test_completed_database_answers_like_a_new_one(database: Database, revision: str) -> None:
    """Rows without a root or a consumer: a copy that is stamped, completed and upgraded."""
    clouds.load(database, clouds.with_gaps())
    with database.engine.connect() as connection:
        connection.exec_driver_sql("DROP TABLE alembic_version")
    schema.stamp(database, revision)
    with pytest.raises(MigrationBlocked):
        schema.sync(database)
    for _, migrate in online_migrations.MIGRATIONS:
        migrate(database, IDS, 50)
    schema.sync(database)

    found = answers(serve(database))

    had_generations = revision != schema.REVISIONS[0]
    assert found == expected_answers(int(had_generations), incomplete=True)
    assert len(found["/usages?project_id=nobody"]["usages"]["unknown"]) == 3


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


def claim(number: int, host: int, **more: Any) -> dict[str, Any]:
    return {
        "allocations": {clouds.uuid(1, host): {"resources": {"MEMORY_MB": 100}}},
        "project_id": "project-a",
        "user_id": "user-a",
        **more,
    }


@AT_HEAD
def test_data_migrations_while_the_service_writes(database: Database) -> None:
    """Consumers are claimed for, replaced and deleted while they are being completed."""
    with_incomplete(database, extra=48)
    ask = serve(database)
    deleted: list[int] = []
    claimed: list[int] = []
    begin = threading.Barrier(3)

    def delete_some() -> None:
        begin.wait()
        for number in range(10, 60, 2):
            deleted.append(ask("DELETE", f"/allocations/{clouds.uuid(2, number)}").status_int)

    def claim_some() -> None:
        begin.wait()
        for number in range(11, 61, 2):
            path = f"/allocations/{clouds.uuid(2, number)}"
            answer = ask("PUT", path, claim(number, number % 4 + 1), version="placement 1.12")
            claimed.append(answer.status_int)

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
    ask = serve(database)
    uuid, minor = clouds.uuid(2, 9), int(version.split(".")[1])
    body = claim(9, 2)
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

    answer = ask("PUT", f"/allocations/{uuid}", body, version=f"placement {version}")

    assert answer.status_int == 204, answer.text
    shown = ask("GET", f"/allocations/{uuid}").json
    assert shown["consumer_generation"] == 1
    assert shown["project_id"] == (
        "00000000-0000-0000-0000-000000000000" if minor < 8 else "project-a"
    )
    assert [*shown["allocations"]] == [clouds.uuid(1, 2)]
    online_migrations.create_incomplete_consumers(database, IDS, 1000)
    assert invariants.violations(database) == []


@AT_HEAD
def test_deleting_allocations_that_had_no_consumer(database: Database) -> None:
    with_incomplete(database)
    ask = serve(database)

    path = f"/allocations/{clouds.uuid(2, 9)}"
    before = clouds.dump(database)["allocations"]

    assert ask("DELETE", path).status_int == 404
    assert clouds.dump(database)["allocations"] == before

    online_migrations.create_incomplete_consumers(database, IDS, 1000)
    assert ask("GET", path).json["consumer_generation"] == 0
    assert ask("DELETE", path).status_int == 204
    assert invariants.violations(database) == []
