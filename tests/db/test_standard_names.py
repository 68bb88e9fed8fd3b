"""Standard resource classes that SQL by hand has renamed or moved (specification 06 section 7.5)."""

import re

import os_traits
import pytest

from placement.db import invariants, schema, standard_names
from placement.db.database import Database
from tests.support import clouds
from tests.support.databases import opened
from tests.support.programs import Command, critical
from tests.support.programs import command as command
from tests.support.programs import environment as environment
from tests.support.programs import start as start
from tests.support.revisions import AT_HEAD, execute

RENAMED = "UPDATE resource_classes SET name = 'CUSTOM_CPU' WHERE name = 'VCPU'"
TAKEN = "the id 0 of the standard resource class VCPU is taken by the class CUSTOM_CPU"
RENAMED_BACK = "UPDATE resource_classes SET name = 'VCPU' WHERE id = 0;"
SWAPPED = (
    "UPDATE resource_classes SET name = 'CUSTOM_X' WHERE id = 0",
    "UPDATE resource_classes SET name = 'VCPU' WHERE id = 1",
    "UPDATE resource_classes SET name = 'MEMORY_MB' WHERE id = 0",
)


@pytest.fixture
def filled(database: Database) -> Database:
    """A database with the standard names."""
    standard_names.synchronise(database)
    return database


def found(database: Database) -> tuple[str, ...]:
    """Return what db check says of the standard classes."""
    (finding,) = [
        each for each in invariants.check(database) if each.invariant is invariants.STANDARD_CLASSES
    ]
    return finding.examples


@AT_HEAD
def test_a_taken_id_is_named_with_the_statement_that_frees_it(filled: Database) -> None:
    assert found(filled) == ()
    execute(filled, RENAMED)

    with pytest.raises(schema.SchemaError) as refused:
        standard_names.synchronise(filled)

    assert TAKEN in str(refused.value)
    assert str(refused.value).endswith(RENAMED_BACK)
    assert found(filled) == (f"{TAKEN}: {RENAMED_BACK}",)
    execute(filled, RENAMED_BACK)
    standard_names.synchronise(filled)
    assert found(filled) == ()


def test_start_and_commands_name_the_taken_id(command: Command, start: Command, synced: str) -> None:
    assert "STARTED 200" in start(synced).stdout
    with opened(synced) as database:
        execute(database, RENAMED)

    assert TAKEN in critical(start(synced))
    checked = command("placement-manage", "db", "check", url=synced)
    assert checked.returncode == 1
    assert f"  {TAKEN}: {RENAMED_BACK}\n" in checked.stdout
    looked = command(
        *("placement-manage", "config", "check"), url=synced, OS_API__AUTH_STRATEGY="noauth2"
    )
    assert looked.returncode == 1
    assert re.search(f"^error: .*{TAKEN}", looked.stdout, re.MULTILINE)


@AT_HEAD
@pytest.mark.parametrize(
    ("statements", "faults"),
    [
        (SWAPPED, ["VCPU has the id 1, not 0", "MEMORY_MB has the id 0, not 1"]),
        (["UPDATE resource_classes SET id = 10000 WHERE name = 'VCPU'"], []),
    ],
    ids=["swapped", "moved"],
)
def test_a_class_under_another_id_starts_and_is_found_if_another_has_its_own(
    filled: Database, statements: list[str], faults: list[str]
) -> None:
    execute(filled, *statements)

    standard_names.synchronise(filled)

    assert found(filled) == tuple(f"the standard resource class {fault}" for fault in faults)


@AT_HEAD
def test_a_missing_class_and_a_renamed_trait_are_inserted_again(filled: Database) -> None:
    """A start cannot know a trait that was renamed, since the ids of traits are free."""
    before = {row["id"]: row["name"] for row in clouds.dump(filled)["resource_classes"]}
    execute(
        filled,
        "DELETE FROM resource_classes WHERE name = 'VCPU'",
        "UPDATE traits SET name = 'CUSTOM_X' WHERE name = 'HW_CPU_X86_AVX'",
    )
    assert found(filled) == ()

    standard_names.synchronise(filled)

    rows = clouds.dump(filled)
    assert {row["id"]: row["name"] for row in rows["resource_classes"]} == before
    assert {row["name"] for row in rows["traits"]} == {*os_traits.get_traits(), "CUSTOM_X"}
