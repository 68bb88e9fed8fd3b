"""A missing table is named, with the way back that loses the least (specification 06 section 7.7)."""

import re

import pytest

from placement.cmd import manage
from placement.db import invariants, models, schema, standard_names
from placement.db.coexistence import takeover
from placement.db.database import Database
from tests.db.test_schema_history import differences
from tests.support import clouds
from tests.support.databases import opened
from tests.support.programs import Command, critical
from tests.support.programs import command as command
from tests.support.programs import environment as environment
from tests.support.programs import start as start
from tests.support.revisions import AT_HEAD, execute, on

A_GROUP = "INSERT INTO consumer_groups (name, rule, at_most, generation) VALUES ('g', 'apart', 1, 0)"
A_CHANGE = (
    "INSERT INTO history (written_at, request_id, by_user, by_project, method, route)"
    " VALUES (1, 'req-1', 'u', 'p', 'PUT', '/')"
)
OWN = sorted(schema._STAMPS_BEFORE)


def drop(database: Database, table: str) -> None:
    """Drop a table that others may refer to."""
    with database.engine.connect() as connection:
        if database.dialect == "mysql":
            connection.detach()
            connection.exec_driver_sql("SET SESSION foreign_key_checks = 0")
        cascade = " CASCADE" if database.dialect == "postgresql" else ""
        connection.exec_driver_sql(f"DROP TABLE {table}{cascade}")


@AT_HEAD
@pytest.mark.parametrize("table", OWN)
def test_the_way_back_of_a_dropped_table(
    database: Database, url: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is printed is typed as it stands, and loses nothing that OpenStack Placement has."""
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", url)
    clouds.load(database, clouds.complete())
    standard_names.synchronise(database)
    takeover.finish(database)
    execute(database, A_GROUP, A_CHANGE)
    before = clouds.dump(database)
    drop(database, table)

    with pytest.raises(schema.SchemaError, match=f"missing: {table}.*backup") as refused:
        schema.require_usable(database)

    ways = re.findall(r'"placement-manage ([^"]+)"', str(refused.value))
    assert len(ways) == 2
    for way in ways:
        assert manage.run(way.split()) == 0
    schema.require_usable(database)
    assert differences(database) == []
    assert invariants.violations(database) == []
    after = clouds.dump(database)
    for name in ("resource_providers", "allocations", "consumers", "traits", "resource_classes"):
        assert [row["id"] for row in after[name]] == [row["id"] for row in before[name]], name
    kept = {"history"} | ({"consumer_groups"} if table in ("history", "scrub") else set())
    for name in kept - {table}:
        assert after[name] == before[name]


@AT_HEAD
@pytest.mark.parametrize("table", sorted(models.whole_metadata().tables.keys() - set(OWN)))
@on("sqlite")
def test_a_table_with_the_data_of_clients_comes_from_a_backup(database: Database, table: str) -> None:
    drop(database, table)

    with pytest.raises(schema.SchemaError, match=f"missing: {table}. Restore them from a backup.$"):
        schema.require_usable(database)


def test_start_and_commands_name_the_table(
    command: Command, start: Command, synced: str
) -> None:
    with opened(synced) as database:
        drop(database, "history")

    assert "missing: history" in critical(start(synced))
    for words in ("db check", "db scrub", "db restored"):
        refused = command("placement-manage", *words.split(), url=synced)
        assert refused.returncode == 1
        (line,) = refused.stderr.splitlines()
        assert "missing: history" in line
    looked = command(
        *("placement-manage", "config", "check"), url=synced, OS_API__AUTH_STRATEGY="noauth2"
    )
    assert looked.returncode == 1
    assert "missing: history" in looked.stdout
