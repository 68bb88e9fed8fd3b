"""Workers serve on the schema of the next release, and not on a later one (specification 06 section 7.6)."""

import pytest

from placement.cmd import status
from placement.db import schema
from placement.db.database import Database
from tests.support.databases import opened, scratch_database
from tests.support.programs import SYNC, Command, critical
from tests.support.programs import command as command
from tests.support.programs import environment as environment
from tests.support.programs import start as start
from tests.support.revisions import AT_HEAD, at, execute

HEAD = schema.HEAD
OLD_HEAD = "a082b8bb98d0"
OWN_HEAD = schema.parts(HEAD)[0]
NEXT = f"fedcba987654_{OWN_HEAD}"
LATER = ("0123456789ab_fedcba987654", "fedcba987654", "")

SERVICE_COMMANDS = (
    ("placement-manage", "db", "release"),
    ("placement-manage", "db", "sync"),
    ("placement-manage", "db", "sync", "--finish"),
    ("placement-manage", "db", "check"),
    ("placement-manage", "db", "online_data_migrations"),
    ("placement-status", "upgrade", "check"),
)


def stamp(database: Database, revision: str) -> None:
    """Write a revision that this release does not know."""
    execute(database, f"UPDATE alembic_version SET version_num = '{revision}'")


@pytest.fixture
def newer(synced: str, request: pytest.FixtureRequest) -> str:
    """The URL of an SQLite file that a newer release has upgraded."""
    with opened(synced) as database:
        stamp(database, request.param)
    return synced


of_the_next = pytest.mark.parametrize("newer", [NEXT], indirect=True)
of_a_later_one = pytest.mark.parametrize("newer", LATER, indirect=True)


@AT_HEAD
def test_the_schema_of_the_next_release_is_used_and_left_alone(database: Database) -> None:
    stamp(database, NEXT)

    schema.require_usable(database)
    schema.sync(database)

    assert schema.current(database) == NEXT


@AT_HEAD
def test_the_schema_of_a_later_release_is_refused(database: Database) -> None:
    for later in LATER:
        stamp(database, later)
        for act in (schema.sync, schema.require_usable):
            with pytest.raises(schema.SchemaError, match=f"{later}.*newer release"):
                act(database)
        assert schema.current(database) == later


@of_the_next
@pytest.mark.parametrize("settings", [{}, SYNC], ids=["", "sync_on_startup"])
def test_a_worker_starts_on_the_schema_of_the_next_release(
    start: Command, newer: str, settings: dict[str, str]
) -> None:
    started = start(newer, **settings)

    assert "STARTED 200" in started.stdout, started.stderr
    assert f"at revision {NEXT} of a newer release" in started.stdout


@of_a_later_one
def test_a_worker_does_not_start_on_that_of_a_later_one(start: Command, newer: str) -> None:
    assert "newer release has upgraded it" in critical(start(newer))


@of_the_next
def test_commands_work_on_the_schema_of_the_next_release(command: Command, newer: str) -> None:
    for words in SERVICE_COMMANDS:
        done = command(*words, url=newer)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert command("placement-manage", "db", "version", url=newer).stdout == f"{NEXT}\n"
    with opened(newer) as database:
        execute(database, "INSERT INTO owner_usages VALUES (1, 1, 0, 0, 0, 5)")
    found = command("placement-status", "upgrade", "check", url=newer)
    assert "Check: Usage Counters" in found.stdout


@of_a_later_one
def test_commands_refuse_that_of_a_later_one(command: Command, newer: str) -> None:
    for words in SERVICE_COMMANDS[:5]:
        done = command(*words, url=newer)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert "newer release has upgraded it" in line
    done = command("placement-status", "upgrade", "check", url=newer)
    assert done.returncode == 2
    assert "Check: Schema Upgrade" in done.stdout


EXPANDED = f"111111111111_{OWN_HEAD}"
CONTRACTED = "222222222222_111111111111"


@pytest.fixture
def two_releases_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this the release after the next one, whose workers are the oldest that it lets serve."""
    monkeypatch.setattr(schema, "REVISIONS", (*schema.REVISIONS, EXPANDED, CONTRACTED))
    monkeypatch.setattr(schema, "HEAD", CONTRACTED)


@pytest.mark.usefixtures("two_releases_later")
@AT_HEAD
def test_sync_passes_over_no_release_while_workers_may_run(database: Database) -> None:
    """Its workers would have to be the only ones first; unless none runs at all."""
    with pytest.raises(schema.SchemaError, match=rf"{EXPANDED} first.*db sync --stopped"):
        schema.sync(database, target=CONTRACTED)

    assert schema.current(database) == HEAD
    assert f"{EXPANDED} first" in announced(database)
    assert first_step(database, stopped=True) == EXPANDED


@pytest.mark.usefixtures("two_releases_later")
@at(OLD_HEAD)
def test_databases_of_the_openstack_service_are_upgraded_at_once(database: Database) -> None:
    assert announced(database) == ""
    assert first_step(database) == schema.REVISIONS[schema.REVISIONS.index(OLD_HEAD) + 1]


@pytest.mark.usefixtures("two_releases_later")
def test_an_empty_database_is_filled_at_once() -> None:
    with scratch_database("sqlite") as url, opened(url) as database:
        assert first_step(database) == schema.REVISIONS[0]


@pytest.mark.usefixtures("two_releases_later")
@AT_HEAD
def test_sync_goes_on_from_the_release_before(database: Database) -> None:
    stamp(database, EXPANDED)

    assert announced(database) == ""
    assert first_step(database) == CONTRACTED


def announced(database: Database) -> str:
    """Return what the upgrade check says of the next sync."""
    (check,) = (each for each in status.SHOWN_IF_FOUND if each.title == "Schema Upgrade")
    result = check.result(database)
    assert (result.code == status.Code.FAILURE) is bool(result.details)
    return result.details or ""


class FirstStep(Exception):
    """The first revision that sync would apply."""


def first_step(database: Database, *, stopped: bool = False) -> str:
    """Return the first revision that sync would apply."""
    with pytest.MonkeyPatch.context() as patch:

        def stop(_connection: object, revision: str, _rows: object) -> None:
            raise FirstStep(revision)

        patch.setattr(schema, "_upgrade_one", stop)
        with pytest.raises(FirstStep) as stopped_at:
            schema.sync(database, target=CONTRACTED, stopped=stopped)
    return str(stopped_at.value)
