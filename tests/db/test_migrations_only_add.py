"""Since the first release a revision takes nothing away that the release before uses (06 section 7.6)."""

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Column, ForeignKey, Integer, SmallInteger

from placement.db import models, schema
from placement.db.database import Database
from tests.db.schema_changes import LEFT_BEHIND, Shape, faults, shape_of
from tests.db.test_schema_history import differences
from tests.support.databases import opened, scratch_database
from tests.support.revisions import AT_HEAD, execute, on

OWN_PARTS = [schema.parts(each)[0] for each in schema.REVISIONS]
FIRST = OWN_PARTS.index(schema.RELEASE_HEADS[0])


@cache
def shape_at(kind: str, revision: str) -> Shape:
    """Return the schema of a database at a revision."""
    with (
        scratch_database(kind, revision) as url,
        opened(url) as database,
        database.engine.connect() as connection,
    ):
        return shape_of(connection)


def droppable(revision: str) -> set[str]:
    """Return what no worker uses that may serve on the schema of this revision."""
    oldest = OWN_PARTS.index(schema.parts(revision)[1])
    return {thing for thing, since in LEFT_BEHIND.items() if OWN_PARTS.index(since) <= oldest}


def faults_of(kind: str, before: str, revision: str, may_go: set[str]) -> list[str]:
    """Return what of a revision would break workers that served on the schema before it."""
    return faults(shape_at(kind, before), shape_at(kind, revision), may_go)


def test_each_revision_since_the_first_release_only_adds(kind: str) -> None:
    for before, revision in pairwise(schema.REVISIONS[FIRST:]):
        assert faults_of(kind, before, revision, droppable(revision)) == [], revision


def test_each_id_names_the_release_whose_workers_can_serve() -> None:
    oldest = []
    for revision in schema.REVISIONS[FIRST + 1 :]:
        assert re.fullmatch("[0-9a-f]{12}_[0-9a-f]{12}", revision)
        assert schema.parts(revision)[1] in schema.RELEASE_HEADS
        oldest.append(OWN_PARTS.index(schema.parts(revision)[1]))
    assert oldest == sorted(oldest)
    assert len(set(OWN_PARTS)) == len(OWN_PARTS)
    assert [each for each in OWN_PARTS if each in schema.RELEASE_HEADS] == list(
        schema.RELEASE_HEADS
    )


def test_what_is_left_behind_is_not_used() -> None:
    used = {*models.whole_metadata().tables}
    for table in models.whole_metadata().sorted_tables:
        used |= {f"{table.name}.{column.name}" for column in table.columns}
        used |= {f"{table.name}/{index.name}" for index in table.indexes}

    assert used.isdisjoint(LEFT_BEHIND)
    assert set(LEFT_BEHIND.values()) <= {*schema.RELEASE_HEADS, OWN_PARTS[-1]}


@AT_HEAD
def test_what_is_left_behind_is_no_difference_from_the_models(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the release that stops using it and the one that drops it."""
    execute(
        database,
        "ALTER TABLE inventories ADD COLUMN spare INTEGER",
        "CREATE TABLE spares (id INTEGER)",
        "CREATE INDEX spares_id ON spares (id)",
        "CREATE INDEX allocations_spare ON allocations (used)",
    )
    assert differences(database) != []
    for name in ("inventories.spare", "spares", "allocations/allocations_spare"):
        monkeypatch.setitem(LEFT_BEHIND, name, OWN_PARTS[-1])

    assert differences(database) == []


FAULTS = {
    "b5c396305c25": None,
    "a082b8bb98d0": "resource_providers/resource_providers_name_idx is gone",
    "422ece571366": "new foreign key of consumers (consumer_type_id)",
    "a4d7f2609b3e_4b7e1d90c6a2": "new foreign key of inventories (resource_class_id)",
}
"""What is found of revisions up to the first release: nothing where they changed nothing."""


def test_revisions_that_did_more_than_add_have_faults(kind: str) -> None:
    for revision, words in FAULTS.items():
        before = schema.REVISIONS[schema.REVISIONS.index(revision) - 1]
        found = faults_of(kind, before, revision, set())
        assert words in found if words else found == [], revision


def altered(table: str, method: str, *given: Any, **more: Any) -> Callable[[Operations], None]:
    """Return a change of one table, by a method of Alembic's batch."""

    def change(op: Operations) -> None:
        with op.batch_alter_table(table) as batch:
            getattr(batch, method)(*given, **more)

    return change


HOLDING = Column("id", Integer(), ForeignKey("resource_providers.id"), primary_key=True)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda op: op.drop_table("owner_usages"), "owner_usages is gone"),
        (
            lambda op: op.drop_index("inventories_resource_class_id_idx", "inventories"),
            "inventories/inventories_resource_class_id_idx is gone",
        ),
        (
            altered("inventories", "alter_column", "used", new_column_name="taken"),
            "inventories.used is gone",
        ),
        (
            altered("inventories", "alter_column", "total", type_=SmallInteger()),
            "inventories.total is SMALLINT, and was INTEGER",
        ),
        (
            altered("resource_providers", "alter_column", "generation", nullable=False),
            "resource_providers.generation may not be null any more",
        ),
        (
            altered("inventories", "alter_column", "used", server_default=None),
            "inventories.used has another default",
        ),
        (
            altered("consumers", "add_column", Column("weight", Integer(), nullable=False)),
            "consumers.weight is neither null nor has it a default",
        ),
        (
            altered("inventories", "create_unique_constraint", "uniq_made_up", ["total", "used"]),
            "new unique constraint of inventories (total, used)",
        ),
        (lambda op: op.create_table("notes", HOLDING), "new foreign key of notes (id)"),
    ],
)
@on("sqlite")
@AT_HEAD
def test_what_would_break_workers_is_found(
    database: Database, change: Callable[[Operations], None], found: str
) -> None:
    with database.engine.connect() as connection:
        before = shape_of(connection)
        change(Operations(MigrationContext.configure(connection)))
        after = shape_of(connection)

    assert faults(before, after) == [found]


@AT_HEAD
def test_what_no_worker_uses_may_go(database: Database) -> None:
    with database.engine.connect() as connection:
        before = shape_of(connection)
        connection.exec_driver_sql("ALTER TABLE inventories DROP COLUMN used")
        connection.exec_driver_sql("DROP TABLE owner_usages")
        after = shape_of(connection)

    assert faults(before, after, {"inventories.used", "owner_usages"}) == []
    assert faults(before, after, {"owner_usages"}) == ["inventories.used is gone"]
