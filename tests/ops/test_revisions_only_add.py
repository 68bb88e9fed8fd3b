"""Since the first release a revision takes nothing away that the release before uses (06 section 7.6)."""

import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import BigInteger, Column, ForeignKey, Integer, SmallInteger

from placement.db import models, schema
from placement.db.database import Database
from tests.ops.conftest import AT_HEAD
from tests.ops.schema_changes import LEFT_BEHIND, Shape, faults, shape_of
from tests.ops.test_schema_history import differences
from tests.support.databases import opened, scratch_database

FIRST = schema.REVISIONS.index(schema.RELEASE_HEADS[0])
OWN_PARTS = [schema.parts(each)[0] for each in schema.REVISIONS]


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
    used = {*models.metadata.tables}
    for table in models.metadata.sorted_tables:
        used |= {f"{table.name}.{column.name}" for column in table.columns}
        used |= {f"{table.name}/{index.name}" for index in table.indexes}

    assert used.isdisjoint(LEFT_BEHIND)
    assert set(LEFT_BEHIND.values()) <= {*schema.RELEASE_HEADS, OWN_PARTS[-1]}


@AT_HEAD
def test_what_is_left_behind_is_no_difference_from_the_models(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the release that stops using it and the one that drops it."""
    with database.engine.connect() as connection:
        connection.exec_driver_sql("ALTER TABLE inventories ADD COLUMN spare INTEGER")
        connection.exec_driver_sql("CREATE TABLE spares (id INTEGER)")
        connection.exec_driver_sql("CREATE INDEX spares_id ON spares (id)")
        connection.exec_driver_sql("CREATE INDEX allocations_spare ON allocations (used)")
    assert differences(database) != []
    for name in ("inventories.spare", "spares", "allocations/allocations_spare"):
        monkeypatch.setitem(LEFT_BEHIND, name, OWN_PARTS[-1])

    assert differences(database) == []


@pytest.mark.parametrize(
    "revision", ["c5d20b9e4f18", "d71f3a8c6e05", "f93b5e8d0a47", "4b7e1d90c6a2"]
)
def test_revisions_that_only_added_have_no_fault(kind: str, revision: str) -> None:
    before = schema.REVISIONS[schema.REVISIONS.index(revision) - 1]

    assert faults_of(kind, before, revision, set()) == []


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        ("a082b8bb98d0", "resource_providers/resource_providers_name_idx is gone"),
        ("422ece571366", "new foreign key of consumers (consumer_type_id)"),
        ("9ec573870318", "new foreign key of inventories (resource_class_id)"),
    ],
)
def test_revisions_that_did_more_have_faults(kind: str, revision: str, words: str) -> None:
    before = schema.REVISIONS[schema.REVISIONS.index(revision) - 1]

    assert words in faults_of(kind, before, revision, set())


def renamed(op: Operations) -> None:
    with op.batch_alter_table("inventories") as batch:
        batch.alter_column("used", new_column_name="taken", existing_type=BigInteger())


def narrowed(op: Operations) -> None:
    with op.batch_alter_table("inventories") as batch:
        batch.alter_column("total", type_=SmallInteger(), existing_nullable=False)


def stricter(op: Operations) -> None:
    with op.batch_alter_table("resource_providers") as batch:
        batch.alter_column("generation", existing_type=Integer(), nullable=False)


def without_default(op: Operations) -> None:
    with op.batch_alter_table("inventories") as batch:
        batch.alter_column("used", existing_type=BigInteger(), server_default=None)


def demanding(op: Operations) -> None:
    with op.batch_alter_table("consumers") as batch:
        batch.add_column(Column("weight", Integer(), nullable=False))


def unique(op: Operations) -> None:
    with op.batch_alter_table("inventories") as batch:
        batch.create_unique_constraint("uniq_made_up", ["total", "used"])


def holding(op: Operations) -> None:
    op.create_table(
        "notes", Column("id", Integer(), ForeignKey("resource_providers.id"), primary_key=True)
    )


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda op: op.drop_table("owner_usages"), ["owner_usages is gone"]),
        (
            lambda op: op.drop_index("inventories_resource_class_id_idx", "inventories"),
            ["inventories/inventories_resource_class_id_idx is gone"],
        ),
        (renamed, ["inventories.used is gone"]),
        (narrowed, ["inventories.total is SMALLINT, and was INTEGER"]),
        (stricter, ["resource_providers.generation may not be null any more"]),
        (without_default, ["inventories.used has another default"]),
        (demanding, ["consumers.weight is neither null nor has it a default"]),
        (unique, ["new unique constraint of inventories (total, used)"]),
        (holding, ["new foreign key of notes (id)"]),
    ],
)
@pytest.mark.parametrize("kind", ["sqlite"])
@AT_HEAD
def test_what_would_break_workers_is_found(
    database: Database, change: Callable[[Operations], None], found: list[str]
) -> None:
    with database.engine.connect() as connection:
        before = shape_of(connection)
        change(Operations(MigrationContext.configure(connection)))
        after = shape_of(connection)

    assert faults(before, after) == found


@AT_HEAD
def test_what_no_worker_uses_may_go(database: Database) -> None:
    with database.engine.connect() as connection:
        before = shape_of(connection)
        connection.exec_driver_sql("ALTER TABLE inventories DROP COLUMN used")
        connection.exec_driver_sql("DROP TABLE owner_usages")
        after = shape_of(connection)

    assert faults(before, after, {"inventories.used", "owner_usages"}) == []
    assert faults(before, after, {"owner_usages"}) == ["inventories.used is gone"]
