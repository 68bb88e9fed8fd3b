"""The version of the schema, and how to read, upgrade and stamp it (specification 06 sections 6 and 7)."""

import hashlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Inspector, exc, false, func, inspect, select, text

from placement.db import cluster_lock, dialects, driver_errors, models
from placement.db.coexistence.state import is_under_way, note_generations
from placement.db.database import Database
from placement.db.migrations import Progress, RevisionOvertaken, afterwards

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

REVISIONS = (
    "0d4e8f62b1a7",
    "0e6a91c5d327",
    "b4ed3a175331",
    "611cd6dffd7b",
    "b5c396305c25",
    "422ece571366",
    "a082b8bb98d0",
    "a4d7f2609b3e_4b7e1d90c6a2",
    "0b9dadf6faa7_a4d7f2609b3e",
    "5604191eeb43_a4d7f2609b3e",
    "be24efba91a6_a4d7f2609b3e",
)
"""Every revision, oldest first. They stand here so that a start needs no migration scripts.

Since the first release an id has two parts, ``<own>_<oldest>``: the second is the own part of the head of the
oldest release whose workers can serve on this schema. So a release learns from a revision that it does not
know whether it may start, and the database needs no other mark. Nothing reads the second part of the first
release's own head, which names one of :data:`NEVER_RELEASED`.
"""

HEAD = REVISIONS[-1]

RELEASE_HEADS = ("a4d7f2609b3e",)
"""The own part of the head of each release, oldest first: the possible second parts of later ids."""

NEVER_RELEASED = (
    "c5d20b9e4f18",
    "d71f3a8c6e05",
    "e82c4d7a9b36",
    "f93b5e8d0a47",
    "b8d2f04c7e19",
    "c3f7a5e81d62",
    "9ec573870318",
    "4b7e1d90c6a2",
    "6f1c8a3e5d92_4b7e1d90c6a2",
)
"""Revisions of builds before the first release, which are steps of its head now. Each step checks first."""

_EXAMINED = ("resource_providers", "resource_classes", "inventories", "allocations", "consumers")
"""The tables that checks read. Queens had them all, with two tables of owners besides."""

_STAMPS_BEFORE = {
    "history": "0b9dadf6faa7_a4d7f2609b3e",
    "scrub": "a4d7f2609b3e_4b7e1d90c6a2",
    **dict.fromkeys(("capacity_records", "coexistence", "owner_usages", "provider_changes"), "a082b8bb98d0"),
    **dict.fromkeys(("consumer_group_members", "consumer_holds"), "a082b8bb98d0"),
}
"""The newest revision without each table, for tables of this service that a sync from there makes again.

consumer_groups is not one of them: if the foreign key to it was dropped too, no sync makes the key again.
"""

LOCK_NAME = "placement.schema"
LOCK_WAIT_S = 600
LOCKED = (
    f"Another process has been changing the schema for {LOCK_WAIT_S} seconds. See what it is doing (SHOW "
    "PROCESSLIST, on each node of a cluster) and try again."
)
ALREADY_DONE = frozenset({1050, 1060, 1061, 1062, 1091, 1684, 1826})
"""MySQL: a table, column, key, row or foreign key exists, a key is missing, or a table is just being changed:
another node was faster."""


class SchemaError(Exception):
    """The schema does not suit this release; the message says what to do."""


def current(database: Database) -> str | None:
    """Return the revision of the database, or None without one."""
    return database.snapshot(lambda tx: _current(tx.connection))


def _current(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.scalar(text("SELECT version_num FROM alembic_version"))


def parts(revision: str) -> tuple[str, str]:
    """Return both parts of the id of a revision; the second is empty before the first release."""
    own, _, oldest = revision.partition("_")
    return own, oldest


def is_usable(revision: str | None) -> bool:
    """Return whether this release works with a schema: its own, or a newer one that declares so."""
    return revision == HEAD or (revision is not None and _is_newer_and_usable(revision))


def _is_newer_and_usable(revision: str) -> bool:
    known = {parts(each)[0] for each in REVISIONS}
    return revision not in REVISIONS and parts(revision)[1] in known


def require_usable(database: Database) -> None:
    """Check that this release works with the schema.

    :raises SchemaError: it is absent, too old or too new, or tables are missing.
    """
    revision = current(database)
    if is_usable(revision):
        database.snapshot(lambda tx: _require_tables(tx.connection, revision))
        return
    database.snapshot(lambda tx: _require_known(tx.connection, revision))
    if revision is None:
        raise SchemaError(
            "The database has no schema of the placement service. Run the "
            '"placement-manage db sync" command.'
        )
    raise SchemaError(
        f"The database schema is at revision {revision}, this release needs {HEAD}. Run the "
        '"placement-manage db sync" command.'
    )


def _require_tables(connection: Connection, revision: str | None) -> None:
    inspector = inspect(connection)
    unlisted = models.whole_metadata().tables.keys() - inspector.get_table_names()
    # PostgreSQL lists one schema, but finds tables in all of the search path.
    missing = sorted(name for name in unlisted if not inspector.has_table(name))
    if missing:
        raise SchemaError(
            f"The database schema is at revision {revision}, but tables of it are missing: "
            f"{', '.join(missing)}. Restore them from a backup.{_explain_new_tables(missing)}"
        )


def _explain_new_tables(missing: Collection[str]) -> str:
    """Return how to make missing tables again, if the service can answer without their rows."""
    if not _STAMPS_BEFORE.keys() >= set(missing):
        return ""
    stamp = min((_STAMPS_BEFORE[name] for name in missing), key=REVISIONS.index)
    of_old = stamp == "a082b8bb98d0"
    return (
        f' Or make them again without their rows: run "placement-manage db stamp {stamp}" and then '
        f'"placement-manage db sync{" --finish" if of_old else ""}".'
        f"{' All holds and groups of consumers end then.' if of_old else ''}"
    )


def _require_known(connection: Connection, revision: str | None) -> None:
    """Refuse a database that no upgrade of this release can begin with."""
    if revision is None:
        _require_empty(connection)
    if revision in NEVER_RELEASED:
        raise SchemaError(
            f"The database schema is at revision {revision}, which no release has: a build before the first "
            'release made it. Run "placement-manage db stamp a082b8bb98d0" and then "placement-manage db '
            'sync", which adds what is missing.'
        )
    if revision is not None and revision not in REVISIONS:
        if not inspect(connection).has_table("resource_providers"):
            raise SchemaError(
                f"This is not a database of the placement service: its revision {revision} is of another "
                "application, and it has no table resource_providers. Correct "
                "[placement_database]/connection."
            )
        raise SchemaError(
            f"The database schema is at revision {revision}, which this release does not know: a "
            "newer release has upgraded it. Install that release, or restore the database from a "
            "backup made before the upgrade."
        )


def _require_no_leap(revision: str | None) -> None:
    """Refuse an upgrade to a schema on which the present workers could not serve.

    The running workers are not known, but those of the release that made this schema may run. Before the
    first release there are none; the OpenStack service does not need anything that a later release removes.
    """
    own_parts = [parts(each)[0] for each in REVISIONS]
    present = REVISIONS.index(revision) if revision is not None else -1
    if present < own_parts.index(RELEASE_HEADS[0]):
        return
    needed = max((own_parts.index(parts(each)[1]) for each in REVISIONS[present + 1 :]), default=0)
    if needed > present:
        raise SchemaError(
            f"Workers of the release that left the database schema at revision {revision} cannot serve on "
            f"that of this release. Upgrade to a release at revision {REVISIONS[needed]} first, with all its "
            'workers. Or stop all workers, and run the "placement-manage db sync --stopped" command.'
        )


def require_upgradable(database: Database) -> None:
    """Check that :func:`sync` would not refuse, while workers run.

    :raises SchemaError: it would refuse; with the same text.
    """
    revision = current(database)
    if not is_usable(revision):
        database.snapshot(lambda tx: _require_known(tx.connection, revision))
        _require_no_leap(revision)


def require_rights(database: Database) -> None:
    """Check, by harmless statements, that the service may read and write every table of the head.

    :raises SchemaError: rights are missing; the text names each.
    """
    with database.engine.connect() as connection:
        missing = [
            f"{verb} {table.name}"
            for table in models.whole_metadata().sorted_tables
            for verb in ("SELECT", "INSERT", "UPDATE", "DELETE")
            if not _may(connection, verb, table.name)
        ]
        missing += [f"USAGE of {name}" for name in _sequences(connection)]
    if missing:
        raise SchemaError(
            f"The user of [placement_database]/connection lacks rights: {', '.join(missing)}. Grant "
            "SELECT, INSERT, UPDATE and DELETE on all tables (on PostgreSQL also USAGE on all "
            "sequences) of the database to this user."
        )


def _may(connection: Connection, verb: str, table: str) -> bool:
    subject = models.whole_metadata().tables[table]
    column = next(iter(subject.columns))
    statements = {
        "SELECT": select(column).where(false()),
        "INSERT": subject.insert().from_select(
            [one.name for one in subject.columns], select(*subject.columns).where(false())
        ),
        "UPDATE": subject.update().where(false()).values({column.name: column}),
        "DELETE": subject.delete().where(false()),
    }
    try:
        connection.execute(statements[verb])
    except exc.DBAPIError as error:
        if not driver_errors.lacks_rights(error):
            raise
        return False
    return True


def _sequences(connection: Connection) -> list[str]:
    """Return PostgreSQL's sequences of ids that this user may not use."""
    if connection.dialect.name != "postgresql":
        return []
    missing = []
    for table in models.whole_metadata().sorted_tables:
        if "id" in table.columns:
            name = connection.scalar(select(func.pg_get_serial_sequence(table.name, "id")))
            if name and not connection.scalar(select(func.has_sequence_privilege(name, "USAGE"))):
                missing.append(str(name))
    return missing


def sync(
    database: Database,
    *,
    target: str = HEAD,
    stopped: bool = False,
    progress: Callable[[str], object] = lambda _: None,
    rows: Progress = lambda what, done, total: None,
) -> None:
    """Upgrade the schema to head; several processes may do so at once.

    Workers of the previous release, and the old service, can serve meanwhile. A newer schema with which this
    release works is left unchanged.

    Each revision, or each of its steps, is one transaction; then the generations of providers are noted in
    small transactions. If another service made the database, a coexistence is under way until
    :func:`placement.db.coexistence.takeover.finish`.

    :param target: stop at this revision.
    :param stopped: no worker runs, so more than one release can be skipped.
    :param progress: called with the id of each revision that was completed.
    :param rows: called with the progress of a revision that works on many rows, and of the noting.
    :raises placement.db.migrations.MigrationBlocked: the data must be migrated first.
    :raises SchemaError: the schema is newer than this release works with, or so old that the workers that may
        run could not serve on the new one.
    """
    with _exclusive(database) as connection:
        while True:
            with _transaction(connection):
                revision = _current(connection)
                if revision == target or is_usable(revision):
                    break
                _require_known(connection, revision)
                if not stopped:
                    _require_no_leap(revision)
                if revision is None:
                    _note_beginning(connection)
                following = REVISIONS[0 if revision is None else REVISIONS.index(revision) + 1]
                try:
                    _upgrade_one(connection, following, rows)
                except RevisionOvertaken:
                    continue
            progress(following)
    if not is_usable(revision):
        return
    if database.read(is_under_way):
        note_generations(database, rows)


def require_examinable(database: Database) -> None:
    """Require the tables and columns that the checks and the data migrations read, older than most revisions.

    :raises SchemaError: a table or column is missing; the text has the commands that make it.
    """
    with database.engine.connect() as connection:
        inspector = inspect(connection)
        if _has_all(inspector, *_EXAMINED):
            return
        _require_known(connection, _current(connection))
    raise SchemaError(
        "The database has no schema of the placement service to check, or one that is not complete. "
        'Run the "placement-manage db sync" command first.'
    )


def require_migratable(database: Database) -> None:
    """Require what the data migrations read, and a revision that this release knows or can work on.

    :raises SchemaError: the schema is of a newer release, or as in :func:`require_examinable`.
    """
    require_examinable(database)
    revision = current(database)
    if not is_usable(revision):
        database.snapshot(lambda tx: _require_known(tx.connection, revision))


def _has_all(inspector: Inspector, *tables: str) -> bool:
    """Return whether the tables and the columns for the trees of providers exist."""
    return all(map(inspector.has_table, tables)) and _has_column(
        inspector, "resource_providers", "root_provider_id"
    )


def _has_column(inspector: Inspector, table: str, name: str) -> bool:
    return any(column["name"] == name for column in inspector.get_columns(table))


def _require_empty(connection: Connection) -> None:
    """Refuse tables without a revision; an interrupted first migration has left one and can continue."""
    inspector = inspect(connection)
    if inspector.has_table("alembic_version"):
        return
    if inspector.has_table("resource_providers"):
        ways = " then ".join(f'"placement-manage db {step}"' for step in _steps_from(inspector))
        raise SchemaError(
            "The database has tables of the placement service but no revision. If they were copied "
            f"from nova, run {ways}."
        )
    # An interrupted first migration on MySQL may have left the table coexistence alone.
    names = models.whole_metadata().tables.keys() - {models.coexistence.name}
    if taken := sorted(filter(inspector.has_table, names)):
        raise SchemaError(
            f"The database has tables with names that the placement service needs ({', '.join(taken)}), but "
            "not its table resource_providers: another application made them. Name a database of the "
            "service's own in [placement_database]/connection."
        )


def _note_beginning(connection: Connection) -> None:
    """Make the coexistence table first: if it is missing later, another service made the tables."""
    if not inspect(connection).has_table("resource_providers"):
        models.coexistence.create(connection, checkfirst=True)


def _steps_from(inspector: Inspector) -> tuple[str, ...]:
    """Return the commands that bring tables without a revision to head (specification 06 section 7.3)."""
    if not _has_all(inspector, *_EXAMINED, "projects", "users"):
        # The first migration creates missing tables.
        return ("stamp base", "sync", "online_data_migrations", "sync")
    generations = _has_column(inspector, "consumers", "generation")
    revision = "b4ed3a175331" if generations else REVISIONS[0]
    return (f"stamp {revision}", "online_data_migrations", "sync")


def _upgrade_one(connection: Connection, revision: str, rows: Progress) -> None:
    said = None
    while True:
        try:
            _run_script(connection, revision, rows)
            return
        except exc.DBAPIError as error:
            number = getattr(error.orig, "args", (None,))[0]
            # The statement is compared too: the same words may describe an earlier step on another table.
            is_new = str(error) != said
            if dialects.kind(connection) != "mysql" or number not in ALREADY_DONE or not is_new:
                raise
            said = str(error)
        # An earlier release locks only its own node of a Galera cluster. Every step checks first: the next
        # run finds the other node's work and does not fail the same way.
        if _current(connection) == revision:
            return


def _run_script(connection: Connection, revision: str, rows: Progress) -> None:
    """Run a script as Alembic's command does, without loading all scripts again for each revision."""
    # Alembic's import is a tenth of the start of a service, so it is loaded only here.
    from alembic.runtime.environment import EnvironmentContext

    config, scripts = alembic_config(connection), _scripts()
    config.attributes |= {"rows": rows, "commit": partial(_commit_step, connection, _current(connection))}
    with EnvironmentContext(
        config, scripts, fn=lambda found, _: scripts._upgrade_revs(revision, found)
    ):
        scripts.run_env()


@cache
def _scripts() -> "ScriptDirectory":
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(alembic_config())


def stamp(database: Database, name: str) -> None:
    """Write a revision without running anything.

    :param name: a revision id, an unambiguous prefix of one, ``head`` or ``base``.
    :raises SchemaError: no revision matches, or several do, or the database has no tables.
    """
    from alembic import command

    revision = resolve(name)
    with _exclusive(database) as connection, _transaction(connection):
        if not inspect(connection).has_table("resource_providers"):
            _require_known(connection, _current(connection))
            if revision:
                raise SchemaError(
                    "The database has no tables that a revision could describe. Run "
                    '"placement-manage db sync".'
                )
        # Any revision is replaced, even one that this release does not know.
        command.stamp(alembic_config(connection), revision or "base", purge=True)


def resolve(name: str) -> str | None:
    """Return the revision id that ``name`` stands for; None for ``base``.

    :raises SchemaError: no revision matches, or several do.
    """
    if name == "base":
        return None
    if name == "head":
        return HEAD
    found = [revision for revision in REVISIONS if name and revision.startswith(name)]
    if len(found) == 1:
        return found[0]
    problem = f"fits {' and '.join(found)}" if found else "is unknown"
    raise SchemaError(
        f"Revision {name!r} {problem}. Give one of {', '.join(REVISIONS)}, head or base."
    )


def alembic_config(connection: Connection | None = None) -> "Config":
    """Return the configuration of Alembic's commands on this connection."""
    from alembic.config import Config

    config = Config()
    place = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", place.replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


@contextmanager
def _exclusive(database: Database) -> Iterator[Connection]:
    """Connect, and keep other processes from changing the schema until the end.

    MySQL commits each change of a table by itself; the others lock in :func:`_transaction`.

    :raises SchemaError: other processes hold the lock for too long.
    """
    with database.engine.connect() as connection:
        if database.dialect != "mysql":
            yield connection
            return
        # Locks belong to the server, and their names have at most 64 characters. Python computes the digest,
        # because MySQL since 9.6 lacks MD5(), and another digest would not exclude an earlier build.
        database_name = connection.scalar(text("SELECT DATABASE()"))
        digest = hashlib.md5(database_name.encode(), usedforsecurity=False).hexdigest()
        name = f"{LOCK_NAME}.{digest}"
        if not connection.scalar(
            text("SELECT GET_LOCK(:name, :wait)"), {"name": name, "wait": LOCK_WAIT_S}
        ):
            raise SchemaError(LOCKED)
        # Other nodes of a cluster do not see that lock.
        with (
            afterwards(connection, f"DO RELEASE_LOCK('{name}')"),
            cluster_lock.held(connection, LOCK_WAIT_S) as is_ours,
        ):
            if not is_ours:
                raise SchemaError(LOCKED)
            yield connection


@contextmanager
def _transaction(connection: Connection) -> Iterator[None]:
    if dialects.kind(connection) == "mysql":
        yield
        return
    try:
        _begin(connection)
        yield
        connection.exec_driver_sql("COMMIT")
    except BaseException:
        # Closing the connection ends the transaction in every state.
        connection.invalidate()
        raise


def _begin(connection: Connection) -> None:
    """Begin a transaction that keeps other processes from changing the schema."""
    if dialects.kind(connection) == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        return
    # READ COMMITTED, because another process's commits must be visible once the lock is held.
    connection.exec_driver_sql("BEGIN ISOLATION LEVEL READ COMMITTED")
    key = int.from_bytes(hashlib.sha256(LOCK_NAME.encode()).digest()[:7])
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


def _commit_step(connection: Connection, before: str | None) -> None:
    """Commit a step of a revision, and begin the next one unless another process was faster.

    :param before: the revision of the database until all steps are taken.
    """
    if dialects.kind(connection) != "mysql":
        connection.exec_driver_sql("COMMIT")
        _begin(connection)
    if _current(connection) != before:
        raise RevisionOvertaken


def remove(database: Database) -> None:
    """Drop every table of the service with all its data, for tests."""
    with _exclusive(database) as connection, _transaction(connection):
        models.whole_metadata().drop_all(connection)
        connection.exec_driver_sql("DROP TABLE IF EXISTS alembic_version")
