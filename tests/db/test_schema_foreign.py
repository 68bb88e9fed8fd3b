"""A database of another application is refused and left as it is (specification 06 section 7.3)."""

import pytest
from sqlalchemy import inspect

from placement.db import models, schema
from placement.db.database import Database
from tests.support.programs import SYNC, Command, critical
from tests.support.programs import command as command
from tests.support.programs import environment as environment
from tests.support.programs import start as start
from tests.support.revisions import execute, on

FOREIGN = ("CREATE TABLE projects (id int, title varchar(9))", "CREATE TABLE users (id int)")
TAKEN = r"names that the placement service needs \(projects, users\)"
REVISION = "16f1fbcab42b"
WITH_REVISION = (
    "CREATE TABLE alembic_version (version_num varchar(32) NOT NULL)",
    f"INSERT INTO alembic_version VALUES ('{REVISION}')",
    "CREATE TABLE instances (id int)",
)
COMMANDS = {
    "placement-manage db sync": 1,
    "placement-manage db check": 1,
    "placement-manage db online_data_migrations": 1,
    "placement-status upgrade check": 255,
}
NOAUTH = {"OS_API__AUTH_STRATEGY": "noauth2"}


def tables(database: Database) -> set[str]:
    """Return the names of the tables of a database."""
    return set(inspect(database.engine).get_table_names())


def refuses(database: Database, words: str) -> None:
    """Check that everything that begins with a schema refuses the database, and changes nothing."""
    before = tables(database)
    for act in (
        *(schema.sync, schema.require_usable, schema.require_upgradable, schema.require_examinable),
        *(lambda db: schema.stamp(db, "head"), lambda db: schema.stamp(db, "base")),
    ):
        with pytest.raises(schema.SchemaError, match=words):
            act(database)
    assert tables(database) == before


def test_no_schema_is_made_among_tables_of_the_same_names(database: Database) -> None:
    execute(database, *FOREIGN)
    refuses(database, TAKEN)


@pytest.mark.parametrize("name", sorted(models.whole_metadata().tables.keys() - {"coexistence"}))
@on("sqlite")
def test_each_table_of_the_service_counts(database: Database, name: str) -> None:
    execute(database, f"CREATE TABLE {name} (title varchar(9))")
    with pytest.raises(schema.SchemaError):
        schema.sync(database)
    assert tables(database) == {name}


def test_tables_of_other_names_stay_beside_those_of_the_service(database: Database) -> None:
    execute(database, "CREATE TABLE project (id int)", "CREATE TABLE wp_posts (id int)")

    schema.sync(database)

    assert schema.current(database) == schema.HEAD
    assert tables(database) >= {"project", "wp_posts", *models.whole_metadata().tables}


def test_a_first_migration_that_was_interrupted_goes_on(database: Database) -> None:
    """On MySQL it leaves this table alone, if it ends before its next statement."""
    models.coexistence.create(database.engine)

    schema.sync(database)

    assert schema.current(database) == schema.HEAD


def test_a_revision_of_another_application_is_refused(database: Database) -> None:
    """Nothing is stamped either: the revision is the only note of that application."""
    execute(database, *WITH_REVISION)

    refuses(database, f"not a database of the placement service: its revision {REVISION}")

    assert schema.current(database) == REVISION


@on("sqlite")
@pytest.mark.parametrize(
    ("statements", "told"),
    [(FOREIGN, "(projects, users)"), (WITH_REVISION, f"revision {REVISION} is of another")],
    ids=["tables", "revision"],
)
def test_start_and_commands_say_whose_database_it_is(
    command: Command, start: Command, url: str, database: Database, statements: tuple[str], told: str
) -> None:
    execute(database, *statements)
    before = tables(database)
    for more in ({}, SYNC):
        assert told in critical(start(url, **more))
        looked = command("placement-manage", "config", "check", url=url, **NOAUTH, **more)
        assert looked.returncode == 1
        assert told in looked.stdout
    for words, code in COMMANDS.items():
        refused = command(*words.split(), url=url)
        assert refused.returncode == code
        (line,) = refused.stderr.splitlines()
        assert told in line
    assert tables(database) == before
