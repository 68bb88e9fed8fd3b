"""A database at any revision is upgraded in place and loses nothing (specification 06 section 7)."""

import itertools
from collections import Counter, defaultdict
from hashlib import md5
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import event, exc, text

from placement.db import invariants, models, online_migrations, schema
from placement.db.coexistence import state, takeover
from placement.db.database import Database
from placement.db.migrations import MigrationBlocked
from tests.db.schema_changes import is_left_behind
from tests.db.test_online_migrations import COUNTERS, IDS, answers, expected_answers
from tests.support import clouds
from tests.support.databases import is_mariadb, require_mariadb
from tests.support.programs import Command
from tests.support.programs import command as command
from tests.support.programs import environment as environment
from tests.support.revisions import AT_HEAD, at, execute, on

RELEASED = ("b4ed3a175331", "611cd6dffd7b", "b5c396305c25", "422ece571366", "a082b8bb98d0")
BEFORE_BLOCKERS = schema.REVISIONS[: schema.REVISIONS.index("611cd6dffd7b")]
COMPUTED: defaultdict[str, set[str]] = defaultdict(
    set, inventories={"used"}, resource_providers={"revision", "own_generation", "own_revision", "digest"}
)


def differences(database: Database) -> list[Any]:
    """What Alembic would still change to make the database what the models say; not what is left behind."""
    with database.engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        found = compare_metadata(context, models.whole_metadata())
        return [each for each in found if not is_left_behind(each)]


def test_chain_is_linear_and_keeps_the_released_ids() -> None:
    scripts = ScriptDirectory.from_config(schema.alembic_config())
    chain = [script.revision for script in scripts.walk_revisions()][::-1]

    assert tuple(chain) == schema.REVISIONS
    first = chain.index(RELEASED[0])
    assert tuple(chain[first : first + len(RELEASED)]) == RELEASED


@at(*schema.REVISIONS)
def test_upgrade_keeps_every_row_and_is_served_like_a_new_database(
    database: Database, revision: str
) -> None:
    """While the old service may still write, and after that; what is new is computed."""
    clouds.load(database, clouds.complete())
    before = clouds.dump(database)

    schema.sync(database)
    if schema.REVISIONS.index(revision) >= schema.REVISIONS.index(COUNTERS):
        # The rows were written behind the back of the counters.
        takeover.finish(database)
    # The service adds the standard ones.
    synced = clouds.dump(database)
    names = {table: synced[table] for table in ("resource_classes", "traits")}
    had_generations = revision != schema.REVISIONS[0]
    found = answers(database)
    assert found == expected_answers(int(had_generations), incomplete=False)
    assert found["/usages?project_id=project-a"]["usages"]["unknown"]["VCPU"] == 24
    candidates = found["/allocation_candidates?resources=VCPU:1,MEMORY_MB:100"]
    assert len(candidates["allocation_requests"]) == 4

    takeover.finish(database)

    after = clouds.dump(database) | names
    # Computed whole, a log, and how far the scrub is.
    for table in ("owner_usages", "provider_changes", "scrub"):
        before.pop(table, None)
    for table, rows in before.items():
        columns = set(rows[0] if rows else ()) - COMPUTED[table]
        assert clouds.project(after[table], columns) == clouds.project(rows, columns), table
    check_counters(after)
    assert {row["generation"] for row in after["consumers"]} == {int(had_generations)}
    assert differences(database) == []


@at(RELEASED[-1])
def test_upgrade_gives_every_provider_a_generation(database: Database) -> None:
    clouds.load(database, clouds.complete())
    execute(database, "UPDATE resource_providers SET generation = NULL")

    schema.sync(database)

    assert {row["generation"] for row in clouds.dump(database)["resource_providers"]} == {0}


@at(RELEASED[-1])
def test_ratios_keep_the_digits_that_were_shown(database: Database) -> None:
    """A database that was taken over shows what it showed before, on MariaDB too."""
    clouds.load(database, clouds.complete())
    ratios = (1.1, 16.0, 0.3, 1234.5)
    for key, ratio in enumerate(ratios, start=1):
        execute(database, f"UPDATE inventories SET allocation_ratio = {ratio} WHERE id = {key}")

    schema.sync(database)

    rows = clouds.dump(database)["inventories"]
    found = {row["id"]: float(row["allocation_ratio"]) for row in rows}
    assert tuple(found[key] for key in range(1, len(ratios) + 1)) == ratios
    execute(database, "UPDATE inventories SET allocation_ratio = 1.2345674 WHERE id = 1")
    assert float(clouds.dump(database)["inventories"][0]["allocation_ratio"]) == 1.2345674


@at(RELEASED[-1])
def test_inventories_without_a_class_are_taken_over(database: Database) -> None:
    """A race of an older service left them: no upgrade fails on them, and no new one comes."""
    clouds.load(database, clouds.complete())
    execute(database, "DELETE FROM resource_classes WHERE id = 10000")
    schema.sync(database)
    # Back to the old service, and here again.
    schema.stamp(database, RELEASED[-1])
    schema.sync(database)
    assert differences(database) == []

    (found,) = (each for each in invariants.check(database) if each.invariant is invariants.CLASSES)
    assert found.count == clouds.HOSTS
    if database.dialect != "sqlite":
        with pytest.raises(exc.IntegrityError):
            execute(database, "UPDATE inventories SET resource_class_id = 10001 WHERE id = 1")
    assert invariants.repair(database, invariants.CLASSES) == 1
    names = {row["name"] for row in clouds.dump(database)["resource_classes"]}
    assert names == {"VCPU", "MEMORY_MB", "CUSTOM_LOST_10000"}


def check_counters(rows: clouds.Rows) -> None:
    """What is used of every inventory is the sum of its allocations, and was no change of it."""
    ledger: Counter[tuple[int, int]] = Counter()
    for row in rows["allocations"]:
        ledger[row["resource_provider_id"], row["resource_class_id"]] += row["used"]
    for row in rows["inventories"]:
        used = ledger[row["resource_provider_id"], row["resource_class_id"]]
        assert row["used"] == used
        assert row["updated_at"] == clouds.CHANGED
    assert sum(ledger.values()) == clouds.CONSUMERS * (512 + 2)


@at(*BEFORE_BLOCKERS)
def test_gaps_block_until_the_data_is_migrated(database: Database, revision: str) -> None:
    """The operator's way: sync is refused twice, and the data migrations clear the way."""
    unstamped_with_gaps(database, revision)

    with pytest.raises(MigrationBlocked, match=r"missing its root provider id.*online_data_migr"):
        schema.sync(database)
    assert schema.current(database) == "b4ed3a175331"
    assert online_migrations.set_root_provider_ids(database, IDS, 50) == (2, 2)

    with pytest.raises(MigrationBlocked, match=r"missing a consumer record.*online_data_migr"):
        schema.sync(database)
    assert schema.current(database) == "611cd6dffd7b"
    assert online_migrations.create_incomplete_consumers(database, IDS, 50) == (5, 5)

    is_complete_after_sync(database, revision)


@at(*BEFORE_BLOCKERS)
def test_the_data_can_be_migrated_before_the_first_sync(database: Database, revision: str) -> None:
    """What the message about a database without a revision advises: the way is clear at once."""
    unstamped_with_gaps(database, revision)

    assert online_migrations.set_root_provider_ids(database, IDS, 50) == (2, 2)
    assert online_migrations.create_incomplete_consumers(database, IDS, 50) == (5, 5)

    is_complete_after_sync(database, revision)


def unstamped_with_gaps(database: Database, revision: str) -> None:
    """Load rows without a root or a consumer: a copy from nova, which is stamped."""
    clouds.load(database, clouds.with_gaps())
    execute(database, "DROP TABLE alembic_version")
    schema.stamp(database, revision)


def is_complete_after_sync(database: Database, revision: str) -> None:
    """The database answers like a new one, and has lost nothing."""
    before = clouds.dump(database)["allocations"]

    schema.sync(database)

    after = clouds.dump(database)
    assert after["allocations"] == before
    assert len(after["consumers"]) == clouds.CONSUMERS
    assert all(row["generation"] is not None for row in after["consumers"])
    had_generations = revision != schema.REVISIONS[0]
    found = answers(database)
    assert found == expected_answers(int(had_generations), incomplete=True)
    assert len(found["/usages?project_id=nobody"]["usages"]["unknown"]) == 3
    assert invariants.violations(database) == []


@pytest.mark.parametrize(
    ("revision", "made_by"),
    [
        (RELEASED[-1], "another service"),
        (None, "this one"),
        (RELEASED[-1], "this one, interrupted"),
    ],
)
def test_migrations_lead_to_the_models_and_a_coexistence_with_what_another_service_has_made(
    database: Database, made_by: str
) -> None:
    """Also while it holds no provider yet: the other service may make the first ones afterwards."""
    if made_by == "another service":
        execute(database, "DROP TABLE coexistence")

    schema.sync(database)

    assert database.read(state.is_under_way) is (made_by == "another service")
    assert differences(database) == []
    assert schema.current(database) == schema.HEAD


@AT_HEAD
def test_sync_at_head_changes_nothing(database: Database) -> None:
    clouds.load(database, clouds.complete())
    before = clouds.dump(database)

    schema.sync(database)

    assert clouds.dump(database) == before


class Interruption(Exception):
    """The process dies here."""


READING = ("SELECT", "PRAGMA", "SHOW", "DESCRIBE", "ROLLBACK")


def sync_until(database: Database, statement_number: int) -> None:
    """Sync, and die after so many statements that may have changed something."""
    changing = itertools.count(1)

    def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.split()[0] not in READING and next(changing) >= statement_number:
            raise Interruption(statement)

    event.listen(database.engine, "after_cursor_execute", count)
    try:
        with pytest.raises(Interruption):
            schema.sync(database)
    finally:
        event.remove(database.engine, "after_cursor_execute", count)


@pytest.mark.parametrize("cut", [1, 4, 8, 15, 28, 33, 50, 54])
@at(schema.REVISIONS[0])
def test_interrupted_upgrade_is_finished_by_the_next(database: Database, cut: int) -> None:
    clouds.load(database, clouds.complete())
    before = clouds.dump(database)
    sync_until(database, cut)

    schema.sync(database)

    assert differences(database) == []
    after = clouds.dump(database)
    assert after["allocations"] == before["allocations"]
    takeover.finish(database)
    check_counters(clouds.dump(database))


@at(RELEASED[-1])
@on("sqlite", "postgresql")
def test_another_process_may_complete_a_revision_between_two_steps(
    database: Database, url: str, command: Command
) -> None:
    """MySQL keeps its lock between them."""
    clouds.load(database, clouds.complete())
    others: list[str] = []
    own: list[str] = []

    def overtake(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement == "COMMIT" and not others:
            others.append(command("placement-manage", "db", "sync", url=url).stderr)

    event.listen(database.engine, "after_cursor_execute", overtake)
    schema.sync(database, progress=own.append)

    assert f"Upgraded the database schema to {schema.HEAD}" in others[0]
    assert own == []
    assert differences(database) == []
    takeover.finish(database)
    check_counters(clouds.dump(database))


@on("mysql")
@at(RELEASED[-1])
def test_another_node_may_be_faster_at_one_step_after_another(database: Database) -> None:
    """Nodes of a Galera cluster have no lock in common."""
    require_mariadb("Galera: there all tables are locked for a new column")
    done: set[str] = set()

    def be_faster(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "ADD COLUMN" in statement and statement not in done:
            done.add(statement)
            with database.engine.connect() as other:
                other.exec_driver_sql(statement)

    event.listen(database.engine, "before_cursor_execute", be_faster)
    schema.sync(database)

    assert len(done) == 7
    assert schema.current(database) == schema.HEAD
    assert differences(database) == []


@on("mysql")
@pytest.mark.parametrize("cut", [1, 9, 25, 41, 49, 58, 75])
def test_cuts_of_a_first_sync_on_mysql_are_mended(database: Database, cut: int) -> None:
    """MySQL keeps half a revision."""
    sync_until(database, cut)

    schema.sync(database)

    assert differences(database) == []
    assert schema.current(database) == schema.HEAD


@on("mysql")
def test_builds_of_any_age_keep_each_other_from_the_schema(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a lock whose name the server made, with a function that MySQL has no more."""
    monkeypatch.setattr(schema, "LOCK_WAIT_S", 0)
    database_name = str(database.engine.url.database)
    made = "MD5(DATABASE())" if is_mariadb() else f"'{md5(database_name.encode()).hexdigest()}'"
    with database.engine.connect() as earlier:
        name = f"CONCAT('{schema.LOCK_NAME}.', {made})"
        assert earlier.scalar(text(f"SELECT GET_LOCK({name}, 0)")) == 1
        with pytest.raises(schema.SchemaError, match="Another process"):
            schema.sync(database)


@on("mysql")
@at(RELEASED[-1])
def test_names_compare_byte_for_byte_on_mysql(database: Database) -> None:
    """Also after an upgrade of tables that another character set was the default of."""
    execute(
        database,
        "ALTER TABLE resource_providers ROW_FORMAT=COMPACT, "
        "CONVERT TO CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci",
    )

    schema.sync(database)

    def work(tx: Any) -> int:
        for number, name in enumerate(("host", "Host", "host ", "hôst", "h\N{OX}")):
            tx.connection.execute(
                text("INSERT INTO resource_providers (uuid, name) VALUES (:uuid, :name)"),
                {"uuid": clouds.uuid(1, number), "name": name},
            )
        statement = "SELECT COUNT(*) FROM resource_providers WHERE name = 'host'"
        return int(tx.connection.scalar(text(statement)))

    assert database.write(work) == 1


@AT_HEAD
def test_what_a_build_before_the_first_release_has_made_is_refused_with_a_way_out(
    database: Database,
) -> None:
    clouds.load(database, clouds.complete())
    before = clouds.dump(database)["allocations"]
    for revision in schema.NEVER_RELEASED:
        execute(database, f"UPDATE alembic_version SET version_num = '{revision}'")
        for refuse in (schema.sync, schema.require_usable, schema.require_upgradable):
            with pytest.raises(schema.SchemaError, match=f"{revision}.*db stamp a082b8bb98d0"):
                refuse(database)

    # Such a build had not added everything.
    execute(database, "ALTER TABLE resource_providers DROP COLUMN own_generation")
    execute(database, "DROP TABLE coexistence", "DROP TABLE capacity_records")
    schema.stamp(database, "a082b8bb98d0")
    schema.sync(database)

    takeover.finish(database)
    assert differences(database) == []
    assert clouds.dump(database)["allocations"] == before
    check_counters(clouds.dump(database))


@AT_HEAD
@pytest.mark.parametrize("name", ["a082b8bb98d0", "a0", "head", "base"])
def test_stamp(database: Database, name: str) -> None:
    schema.stamp(database, name)

    assert schema.current(database) == {
        "a0": "a082b8bb98d0",
        "head": schema.HEAD,
        "base": None,
    }.get(name, name)


@pytest.mark.parametrize("name", ["b", "", "zzz", "A082", "a082b8bb98d0x"])
def test_unknown_stamp_is_refused(name: str) -> None:
    with pytest.raises(schema.SchemaError):
        schema.resolve(name)
