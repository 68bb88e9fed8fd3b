"""The console commands as an operator runs them (specification 06 sections 6 to 8)."""

import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from placement.db import invariants, schema
from placement.db.database import Database
from tests.proofs.faults.proxy import Proxy
from tests.support import clouds
from tests.support.commands import Forked
from tests.support.databases import opened, scratch_database
from tests.support.processes import ran, wait_until
from tests.support.programs import Command
from tests.support.revisions import AT_HEAD, at, execute, on

MISSING_ROOT = "which is missing its root provider id."

FIRST = schema.REVISIONS[0]
OLD = "b4ed3a175331"
OLD_HEAD = "a082b8bb98d0"


def execute_at(url: str, *statements: str) -> None:
    with opened(url) as database:
        execute(database, *statements)


def load(url: str, rows: clouds.Rows) -> None:
    with opened(url) as database:
        clouds.load(database, rows)


def revision_of(url: str) -> str | None:
    with opened(url) as database:
        return schema.current(database)


@pytest.fixture
def gaps(url: str) -> str:
    """The URL of an old database with rows that lack a root or a consumer."""
    load(url, clouds.with_gaps())
    return url


WITH_GAPS = at(OLD)


def is_one_line(result: "subprocess.CompletedProcess[str]", code: int = 1) -> bool:
    assert result.returncode == code, result
    assert "Traceback" not in result.stderr + result.stdout
    progress = ("attempts left", "Upgraded the database schema to")
    lines = [line for line in result.stderr.splitlines() if not any(w in line for w in progress)]
    assert len(lines) == 1, result.stderr
    return True


# placement-manage


@pytest.mark.parametrize("program", ["placement-manage", "placement-status", "placement-tree"])
def test_the_commands_come_first_in_the_help(command: Command, program: str) -> None:
    """They stood behind thirty options of the libraries, which another option shows."""
    said = command(program, "--help").stdout
    libraries = "--help-identity" if program == "placement-tree" else "--help-all"
    option = "--os-auth-url" if program == "placement-tree" else "--log-file"

    assert said.index("\ncommands:\n") < said.index("\noptions")
    assert len(said.splitlines()) < 40
    assert libraries in said and option not in said.partition("identity options:")[0]
    shown = command(program, libraries)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"\n  {option} " in shown.stdout


def test_the_driver_is_missing(command: Command) -> None:
    """127 was "no such command" to every shell."""
    result = command("placement-migrate-compute-inventory")

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("usage: placement-migrate-compute-inventory")
    assert "an installed driver, or a callable" in result.stderr
    assert result.stderr.endswith("the following arguments are required: --driver\n")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [([], 1, "--config-file"), (["db"], 0, "{sync,version,stamp,online_data_migrations,check")],
)
def test_no_command_is_help_and_needs_no_configuration(
    command: Command, arguments: list[str], code: int, words: str
) -> None:
    result = command("placement-manage", *arguments)

    assert (result.returncode, result.stderr) == (code, "")
    assert result.stdout.startswith("usage: placement-manage")
    assert words in result.stdout


USAGE_ERRORS = (
    "manage dib", "manage db snyc", "manage db sync more", "manage db stamp", "manage --nothing",
    "status", "status upgrade", "status upgrade chekc",
)  # fmt: skip


@pytest.mark.parametrize("line", USAGE_ERRORS)
def test_usage_errors(command: Command, synced: str, line: str) -> None:
    result = command(*f"placement-{line}".split(), url=synced)

    assert (result.returncode, result.stdout) == (2, "")
    assert f"usage: placement-{line.split()[0]}" in result.stderr


@on("sqlite")
def test_sync_version_and_stamp(command: Command, url: str) -> None:
    def run(*arguments: str) -> tuple[int, str, str]:
        result = command("placement-manage", "db", *arguments, url=url)
        return result.returncode, result.stdout, result.stderr

    def upgraded_after(revision: str | None) -> str:
        first = schema.REVISIONS.index(revision) + 1 if revision else 0
        return "".join(
            f"Upgraded the database schema to {each}\n" for each in schema.REVISIONS[first:]
        )

    assert run("version") == (0, "None\n", "")
    code, _, told = run("stamp", "head")
    assert code == 1 and "has no tables" in told
    assert run("sync") == (0, "", upgraded_after(None))
    assert run("version") == (0, f"{schema.HEAD}\n", "")
    assert run("sync") == (0, "", "")
    assert run("stamp", "a08") == (0, "", "")
    assert run("version") == (0, "a082b8bb98d0\n", "")
    assert run("sync") == (0, "", upgraded_after("a082b8bb98d0"))
    assert run("stamp", "base") == (0, "", "")
    assert run("version") == (0, "None\n", "")


def test_unknown_stamp(command: Command, synced: str) -> None:
    result = command("placement-manage", "db", "stamp", "zzz", url=synced)

    assert is_one_line(result)
    assert "a082b8bb98d0" in result.stderr


@WITH_GAPS
@on("sqlite")
def test_blockers_name_the_way_out(command: Command, gaps: str) -> None:
    url = gaps
    first = command("placement-manage", "db", "sync", url=url)
    assert is_one_line(first)
    assert MISSING_ROOT in first.stderr
    assert "placement-manage db online_data_migrations" in first.stderr
    migrated = command("placement-manage", "db", "online_data_migrations", url=url)
    assert migrated.returncode == 0
    assert command("placement-manage", "db", "sync", url=url).returncode == 0
    assert command("placement-manage", "db", "check", url=url).returncode == 0


# Online data migrations

TABLE = """\
+-----------------------------+-------------+-----------+
|          Migration          | Total Found | Completed |
+-----------------------------+-------------+-----------+
|    set_root_provider_ids    |      {0}      |     {0}     |
| create_incomplete_consumers |      {1}      |     {1}     |
|     note_consumer_uuids     |      0      |     0     |
+-----------------------------+-------------+-----------+
"""
TWO_OF_THEM = "".join(line for line in TABLE.splitlines(True) if "uuids" not in line)
FIRST_ONLY = """\
+-----------------------+-------------+-----------+
|       Migration       | Total Found | Completed |
+-----------------------+-------------+-----------+
| set_root_provider_ids |      2      |     2     |
+-----------------------+-------------+-----------+
"""


def migrate(command: Command, url: str, *arguments: str, **more: str) -> tuple[int, str]:
    result = command(
        "placement-manage", "db", "online_data_migrations", *arguments, url=url, **more
    )
    return result.returncode, result.stdout


@WITH_GAPS
def test_migrations_until_complete(command: Command, gaps: str) -> None:
    running = "Running batches of 50 until complete\n"
    matched = (
        "2 rows matched query set_root_provider_ids, 2 migrated\n"
        "5 rows matched query create_incomplete_consumers, 5 migrated\n"
    )

    assert migrate(command, gaps) == (0, running + matched + TABLE.format(2, 5))
    assert migrate(command, gaps) == (0, running + TABLE.format(0, 0))


@WITH_GAPS
@on("sqlite")
def test_migrations_as_json(command: Command, gaps: str) -> None:
    """What is said meanwhile goes elsewhere."""
    result = command("placement-manage", "db", "online_data_migrations", "--json", url=gaps)

    assert result.returncode == 0
    assert json.loads(result.stdout) == {
        "migrations": [
            {"migration": "set_root_provider_ids", "found": 2, "completed": 2},
            {"migration": "create_incomplete_consumers", "found": 5, "completed": 5},
            {"migration": "note_consumer_uuids", "found": 0, "completed": 0},
        ]
    }
    assert result.stderr.startswith("Running batches of 50 until complete\n2 rows matched")


@WITH_GAPS
@on("sqlite")
def test_one_batch_at_a_time(command: Command, gaps: str) -> None:
    """A batch that one migration uses up never calls, nor lists, the next."""
    roots = "2 rows matched query set_root_provider_ids, 2 migrated\n"
    consumers = "{0} rows matched query create_incomplete_consumers, {0} migrated\n"

    assert migrate(command, gaps, "--max-count", "2") == (1, roots + FIRST_ONLY)
    for done, table in ((3, TWO_OF_THEM), (2, TABLE)):
        said = consumers.format(done) + table.format(0, done)
        assert migrate(command, gaps, "--max-count", "3") == (1, said)
    assert migrate(command, gaps, "--max-count", "3") == (0, TABLE.format(0, 0))


@pytest.mark.parametrize("count", ["0", "-1", "many", "1.5", ""])
def test_bad_count(command: Command, synced: str, count: str) -> None:
    assert migrate(command, synced, f"--max-count={count}") == (
        127,
        "Must supply a positive value for max_count\n",
    )


@WITH_GAPS
def test_a_count_beyond_all_integers_is_one_batch(command: Command, gaps: str) -> None:
    result = command(
        "placement-manage", "db", "online_data_migrations", "--max-count", "9" * 20, url=gaps
    )

    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout.endswith(TABLE.format(2, 5))


def test_owners_of_incomplete_consumers(command: Command, synced: str) -> None:
    """Project and user appear also when there is nothing to do; the options name them."""
    named = {
        "OS_PLACEMENT__INCOMPLETE_CONSUMER_PROJECT_ID": "lost-project",
        "OS_PLACEMENT__INCOMPLETE_CONSUMER_USER_ID": "lost-user",
    }
    assert migrate(command, synced, **named)[0] == 0

    with opened(synced) as database:
        rows = clouds.dump(database)
    assert [row["external_id"] for row in rows["projects"]] == ["lost-project"]
    assert [row["external_id"] for row in rows["users"]] == ["lost-user"]
    assert rows["consumers"] == []


@WITH_GAPS
@on("sqlite")
def test_migration_that_fails(command: Command, gaps: str) -> None:
    """It is reported and the other one runs; the exit code says whether to call again."""
    execute_at(gaps, "ALTER TABLE projects RENAME TO gone")
    failure = "Error attempting to run <create_incomplete_consumers>\n"
    unexpected = "Some migrations failed unexpectedly. Check log for details.\n"
    roots = "2 rows matched query set_root_provider_ids, 2 migrated\n"

    first, second = (migrate(command, gaps, "--max-count", "5") for _ in range(2))
    assert first == (1, roots + failure + TABLE.format(2, 0))
    assert second == (2, failure + TABLE.format(0, 0) + unexpected)
    result = command("placement-manage", "db", "online_data_migrations", url=gaps)
    assert result.returncode == 2
    assert "no such table: projects" in result.stderr
    assert "Traceback" not in result.stderr


# Check and repair


def violations(result: "subprocess.CompletedProcess[str]") -> dict[str, tuple[str, int]]:
    """Return result and number by invariant, for those that are violated."""
    rows = [line.split("|")[1:4] for line in result.stdout.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row] for row in rows[1:]]
    return {name: (verdict, int(number)) for name, verdict, number in cells if number != "0"}


@AT_HEAD
def test_check_finds_and_repairs(command: Command, url: str, database: Database) -> None:
    clouds.load(database, clouds.complete())
    idle = {"id": 99, "uuid": clouds.uuid(2, 99), "project_id": 1, "user_id": 1, "generation": 3}
    clouds.load(database, {"consumers": [idle]})
    execute(database, "UPDATE resource_providers SET root_provider_id = 1 WHERE id = 103")
    before = {row["id"]: row["revision"] for row in clouds.dump(database)["resource_providers"]}

    found = command("placement-manage", "db", "check", url=url)
    as_json = command("placement-manage", "db", "check", "--json", url=url)
    listed = [each for each in json.loads(as_json.stdout)["invariants"] if each["violations"]]
    repaired = command("placement-manage", "db", "check", "--repair", url=url)
    again = command("placement-manage", "db", "check", url=url)

    assert (found.returncode, repaired.returncode, again.returncode) == (1, 1, 0)
    wrong = violations(found)
    assert {each["invariant"]: (each["result"], each["violations"]) for each in listed} == {
        name: (result.lower(), number) for name, (result, number) in wrong.items()
    }
    assert any(f"consumer {clouds.uuid(2, 99)}" in each["examples"] for each in listed)
    assert all(len(each["examples"]) == min(each["violations"], 3) for each in listed)
    assert wrong["usage counters equal the sums of the ledger"] == ("WRONG", 8)
    assert wrong["consumers have allocations"] == ("WRONG", 1)
    assert wrong["every provider names the root of its tree"] == ("WRONG", 1)
    assert f"consumer {clouds.uuid(2, 99)}" in found.stdout
    assert "WRONG" not in again.stdout
    rows = clouds.dump(database)
    assert {row["id"]: row["root_provider_id"] for row in rows["resource_providers"]}[103] == 3
    # A searching worker must read again what was repaired.
    assert all(row["revision"] > before[row["id"]] for row in rows["resource_providers"])
    assert len(rows["consumers"]) == clouds.CONSUMERS


@AT_HEAD
def test_restored_says_what_it_did(command: Command, url: str, database: Database) -> None:
    """A held consumer keeps what it has, usage is counted, and what is left to an operator is named."""

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return command("placement-manage", "db", "restored", *arguments, url=url)

    clouds.load(database, clouds.complete())
    execute(
        database,
        "INSERT INTO consumer_holds (consumer_id, generation, expires_at) VALUES (1, 1, 1)",
        "UPDATE consumers SET generation = 1",
    )
    if database.dialect == "postgresql":
        execute(database, "SELECT setval('users_id_seq', 1, false)")

    first, second = run(), run()
    lost = "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used)"
    execute(database, f"{lost} VALUES (987654, 'nobody', 0, 5)")
    as_json = run("--json")

    assert (first.returncode, second.returncode, as_json.returncode) == (0, 0, 1)
    assert f"Holds ended: 1. Their consumers keep what they hold\n  {clouds.uuid(2, 1)}\n" in first.stdout
    assert ("Sequence public.users_id_seq" in first.stdout) == (database.dialect == "postgresql")
    assert re.search(r"^Usage counted anew: \d+ resource providers", first.stdout, re.MULTILINE)
    assert "Holds ended: 0." in second.stdout
    told = json.loads(as_json.stdout)
    assert (told["sequences"], told["no_longer_held"], told["rows"]) == ([], [], 0)
    assert "allocations have a consumer" in {each["invariant"] for each in told["left"]}
    rows = clouds.dump(database)
    assert {row["id"]: row["generation"] for row in rows["consumers"]}[1] == 2
    assert len(rows["consumers"]) == clouds.CONSUMERS
    assert [row for row in rows["allocations"] if row["consumer_id"] == clouds.uuid(2, 1)]


@AT_HEAD
def test_scrub_mends_and_says_what(command: Command, url: str, database: Database) -> None:
    """Rows that were loaded by SQL, of which nothing is counted; then one that only an operator can mend."""

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return command("placement-manage", "db", "scrub", *arguments, url=url)

    clouds.load(database, clouds.complete())
    lost = (
        "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used)"
        " VALUES (987654, 'nobody', 0, 5)"
    )

    def revisions() -> dict[int, int]:
        rows = clouds.dump(database)
        holders = {row["resource_provider_id"] for row in rows["allocations"]}
        return {row["id"]: row["revision"] for row in rows["resource_providers"] if row["id"] in holders}

    found, before = run(), revisions()
    again, after = run(), revisions()
    wrong = violations(command("placement-manage", "db", "check", url=url))
    execute(database, "UPDATE inventories SET total = total + 1 WHERE resource_provider_id = 3", lost)
    as_json, left = run("--json"), run()

    assert (found.returncode, again.returncode, as_json.returncode, left.returncode) == (1, 0, 1, 1)
    assert re.search(r"^Mended: \d+ resource providers whose usage differed", found.stdout, re.MULTILINE)
    assert re.search(r"^Mended: \d+ projects whose usage differed", found.stdout, re.MULTILINE)
    assert found.stderr.count("Something other than this service writes to this database") > 1
    assert (again.stdout, again.stderr) == ("Nothing was wrong.\n", "")
    # Whose consumers they are may have been changed in a way that nothing shows.
    assert after == {key: revision + 1 for key, revision in before.items()}
    assert not [name for name, (result, _) in wrong.items() if result == "WRONG"]
    told = json.loads(as_json.stdout)
    assert told["mended"] == {"contents": 1}
    lacking = "allocations have a provider with inventory of their class"
    assert [(each["invariant"], each["violations"]) for each in told["left"]] == [(lacking, 1)]
    assert "Mended" not in left.stdout
    assert "Delete the allocations of these consumers" in left.stdout


def test_check_reports_what_it_cannot_repair(command: Command, synced: str) -> None:
    load(synced, clouds.complete())
    execute_at(
        synced,
        "DELETE FROM inventories WHERE resource_provider_id = 101",
        "UPDATE resource_providers SET parent_provider_id = 102 WHERE id = 2",
        "UPDATE inventories SET step_size = 500 WHERE resource_provider_id = 3",
        # Just what is allocated of it, which is no violation.
        "UPDATE inventories SET min_unit = 512, max_unit = 512, step_size = 512"
        " WHERE resource_provider_id = 4 AND resource_class_id = 1",
    )
    command("placement-manage", "db", "check", "--repair", url=synced)

    result = command("placement-manage", "db", "check", url=synced)

    assert result.returncode == 1
    assert violations(result) == {
        "allocations have a provider with inventory of their class": ("WRONG", 3),
        "every provider hangs on a root": ("WRONG", 2),
        "allocations fit min_unit, max_unit and step_size": ("note", 3),
    }
    # By what the API knows them by.
    assert re.search(
        r"\n  consumer \S+, provider [0-9a-f-]{36}, class [A-Z_]+, used", result.stdout
    )


# placement-status

HEALTHY = """\
+-------------------------------------------+
| Upgrade Check Results                     |
+-------------------------------------------+
| Check: Missing Root Provider IDs          |
| Result: Success                           |
| Details: None                             |
+-------------------------------------------+
| Check: Incomplete Consumers               |
| Result: Success                           |
| Details: None                             |
+-------------------------------------------+
| Check: Policy File JSON to YAML Migration |
| Result: Success                           |
| Details: None                             |
+-------------------------------------------+
"""
ROOTS_MISSING = """\
| Check: Missing Root Provider IDs                                     |
| Result: Failure                                                      |
| Details: There is at least one resource provider table record which  |
|   misses its root provider id. Run the "placement-manage db          |
|   online_data_migrations" command.                                   |
+----------------------------------------------------------------------+
"""
CONSUMERS_MISSING = """
| Check: Incomplete Consumers                                          |
| Result: Warning                                                      |
| Details: There are 5 incomplete consumers table records for existing |
|   allocations. Run the "placement-manage db                          |
|   online_data_migrations" command.                                   |
+----------------------------------------------------------------------+
"""


def status(command: Command, url: str, *words: str, **more: str) -> tuple[int, str]:
    result = command("placement-status", "upgrade", "check", *words, url=url, **more)
    return result.returncode, result.stdout


@at(FIRST, OLD)
@on("sqlite")
def test_the_advice_for_tables_without_a_revision_is_right(
    command: Command, gaps: str, revision: str
) -> None:
    """A copy from nova: what ``db sync`` prints is typed as it stands, and leads to head."""
    url = gaps
    execute_at(url, "DROP TABLE alembic_version")

    refused = command("placement-manage", "db", "sync", url=url)

    assert is_one_line(refused)
    advised = re.findall(r'"(placement-manage db [^"]+)"', refused.stderr)
    assert advised[0] == f"placement-manage db stamp {revision}"
    *before, last = [command(*line.split(), url=url) for line in advised]
    assert [each.stderr for each in before if "Traceback" in each.stderr] == []
    assert last.returncode == 0, last.stderr
    assert command("placement-manage", "db", "version", url=url).stdout == f"{schema.HEAD}\n"
    assert command("placement-manage", "db", "check", url=url).returncode == 0


@at(OLD, OLD_HEAD, schema.HEAD)
@on("sqlite")
def test_healthy_status(command: Command, url: str, revision: str) -> None:
    """All is well at every revision; before the last one, the row that says so names what waits."""
    code, shown = status(command, url)
    assert code == 0
    waits = "Check: Schema Revision" in shown
    assert waits == (revision != schema.HEAD)
    assert shown == HEALTHY or waits
    code, output = status(command, url, "--json")
    checks = json.loads(output)["checks"]
    assert (code, {check["result"] for check in checks}) == (0, {0})
    said = " ".join(str(check["details"]) for check in checks)
    assert ('Run the "placement-manage db sync" command before the workers are' in said) == waits
    assert (f"from {revision} to {schema.HEAD}" in said) == waits


@WITH_GAPS
def test_status_of_old_data(command: Command, gaps: str) -> None:
    code, output = status(command, gaps)
    assert code == 2
    assert ROOTS_MISSING in output
    assert CONSUMERS_MISSING in output
    execute_at(gaps, "UPDATE resource_providers SET root_provider_id = id")
    code, output = status(command, gaps)
    assert code == 1
    assert CONSUMERS_MISSING in output


def test_status_of_a_json_policy(command: Command, synced: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text('{"a": "b"}')

    code, output = status(command, synced, OS_OSLO_POLICY__POLICY_FILE=str(policy))

    assert code == 2
    assert "Your policy file is JSON-formatted" in output


def test_status_of_wrong_counters(command: Command, synced: str) -> None:
    load(synced, clouds.complete())

    code, output = status(command, synced)

    assert code == 1
    assert "Check: Usage Counters" in output
    assert "db check --repair" in output


@at(OLD_HEAD)
def test_status_of_inventories_without_a_class(
    command: Command, url: str, database: Database
) -> None:
    """Told before the upgrade and after it, and gone after the repair, with all that is used."""
    clouds.load(database, clouds.complete())
    execute(database, "DELETE FROM resource_classes WHERE id = 10000")
    before = status(command, url)
    schema.sync(database)
    for code, output in (before, status(command, url)):
        assert code == 1
        assert "Check: Missing Resource Classes" in output
        assert "There are 4 inventories without a resource class." in output
    found = command("placement-manage", "db", "check", "--repair", url=url)
    assert violations(found)["inventories have a class"] == ("WRONG", 4)
    assert "class 10000" in found.stdout
    assert command("placement-manage", "db", "check", url=url).returncode == 0
    assert len(clouds.dump(database)["inventories"]) == 3 * clouds.HOSTS
    code, output = status(command, url)
    assert code == 0
    assert "Check: Shared Database" in output
    assert "Missing Resource Classes" not in output


def test_status_without_schema(command: Command, sqlite_url: str) -> None:
    """One sentence says what to do; the exit code is that of checks which could not be made."""
    result = command("placement-status", "upgrade", "check", url=sqlite_url)

    assert is_one_line(result, 255)
    assert result.stdout == ""
    assert 'Run the "placement-manage db sync" command first.' in result.stderr


def test_status_without_a_table(command: Command, url: str, database: Database) -> None:
    """As a restored dump leaves it that has not all tables."""
    schema.sync(database)
    execute(database, "DROP TABLE coexistence")

    result = command("placement-status", "upgrade", "check", url=url)

    assert is_one_line(result, 255)
    assert "coexistence" in result.stderr


# What an operator gets wrong


@pytest.mark.parametrize(
    "arguments", [["placement-manage", "db", "sync"], ["placement-status", "upgrade", "check"]]
)
class TestMistakes:
    """One line that says what to do, and exit code 1."""

    def test_no_connection_configured(self, command: Command, arguments: list[str]) -> None:
        result = command(*arguments)

        assert is_one_line(result)
        assert "[placement_database]/connection is not set" in result.stderr
        assert "OS_PLACEMENT_DATABASE__CONNECTION" in result.stderr

    def test_settings(self, command: Command, arguments: list[str], synced: str) -> None:
        """A file that is missing; a value that is not a number."""
        program, *words = arguments
        missing = command(program, "--config-file", "/nowhere/x.conf", *words)
        bad = command(*arguments, url=synced, OS_PLACEMENT_DATABASE__MAX_RETRIES="ten")

        assert is_one_line(missing) and "/nowhere/x.conf" in missing.stderr
        assert is_one_line(bad) and "max_retries" in bad.stderr

    @pytest.mark.parametrize("wrong", ["nonsense", "oracle9://host/x", "postgresql://h:port/x"])
    def test_wrong_url(self, command: Command, arguments: list[str], wrong: str) -> None:
        assert is_one_line(command(*arguments, url=wrong))

    @pytest.mark.parametrize("scheme", ["postgresql", "mysql+pymysql"])
    def test_unreachable_server(self, command: Command, arguments: list[str], scheme: str) -> None:
        retries = {
            "OS_PLACEMENT_DATABASE__MAX_RETRIES": "2",
            "OS_PLACEMENT_DATABASE__RETRY_INTERVAL": "0",
        }
        url = f"{scheme}://placement:s3cret@127.0.0.1:9/placement"
        result = command(*arguments, url=url, **retries)

        assert is_one_line(result)
        assert "cannot be reached" in result.stderr
        assert "2 attempts left" in result.stderr
        assert "refused" in result.stderr.splitlines()[0]
        assert "s3cret" not in result.stderr

    @on("mysql", "postgresql")
    def test_wrong_credentials(self, command: Command, arguments: list[str], url: str) -> None:
        stranger = make_url(url).set(username="nobody", password="s3cret")
        result = command(*arguments, url=stranger.render_as_string(hide_password=False))

        assert is_one_line(result)
        assert "user nobody" in result.stderr
        assert "s3cret" not in result.stderr

    def test_no_such_database(self, command: Command, arguments: list[str], url: str) -> None:
        result = command(*arguments, url=f"{url.rpartition('/')[0]}/no/such")

        assert is_one_line(result)
        wrong = "cannot be opened" if url.startswith("sqlite") else "no/such does not exist"
        assert wrong in result.stderr


@at(OLD_HEAD)
@on("sqlite")
def test_read_only_file(command: Command, url: str) -> None:
    load(url, clouds.complete())
    read_only = url.replace("sqlite:///", "sqlite:///file:") + "?mode=ro&uri=true"

    for arguments in (["sync"], ["online_data_migrations"], ["stamp", "head"]):
        result = command("placement-manage", "db", *arguments, url=read_only)

        assert result.returncode in (1, 2)
        assert "Traceback" not in result.stderr
        if arguments != ["online_data_migrations"]:
            assert is_one_line(result)
            assert "does not accept writes" in result.stderr
    assert revision_of(url) == OLD_HEAD
    assert command("placement-manage", "db", "version", url=read_only).returncode == 0


def test_file_that_may_not_be_written_is_not_waited_for(command: Command, sqlite_url: str) -> None:
    """As where ``db sync`` made it for root: its directory takes no journal of another user."""
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as made:
        made.execute("CREATE TABLE other (thing)")
    read_only = sqlite_url.replace("sqlite:///", "sqlite:///file:") + "?mode=ro&uri=true"

    result = command(
        "placement-manage", "db", "sync", url=read_only, OS_PLACEMENT_DATABASE__RETRY_INTERVAL="0"
    )

    assert is_one_line(result)
    assert "attempts left" not in result.stderr
    assert "Let this user write the file" in result.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 kB."""
    place = tmp_path / "small"
    place.mkdir()
    if ran(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", place]).returncode:
        pytest.skip("only root may mount a small file system")
    yield place
    ran(["umount", "--lazy", place], check=True)


def test_full_disk(command: Command, small_disk: Path) -> None:
    """What was completed stays, and the rest follows when there is room."""
    url = f"sqlite:///{small_disk / 'placement.sqlite'}"

    result = command("placement-manage", "db", "sync", url=url)

    assert is_one_line(result)
    assert "disk is full" in result.stderr
    reached = command("placement-manage", "db", "version", url=url).stdout.strip()
    assert reached in schema.REVISIONS[:-1]
    ran(["mount", "-o", "remount,size=4m", small_disk], check=True)
    assert command("placement-manage", "db", "sync", url=url).returncode == 0
    assert revision_of(url) == schema.HEAD


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["sync"], " rows"),
        (["online_data_migrations"], " rows"),
        (["check"], f"/{len(invariants.list_invariants())} "),
        (["check", "--repair"], f"/{len(invariants.list_invariants())} "),
        (["scrub"], " rows"),
    ],
    ids=" ".join,
)
def test_progress_is_shown_on_terminals_only(
    environment: dict[str, str], sqlite_url: str, synced: str, arguments: list[str], shown: str
) -> None:
    """In plain lines and files there is none of it."""
    url = sqlite_url if arguments == ["sync"] else synced
    environment = {**environment, "OS_PLACEMENT_DATABASE__CONNECTION": url}

    def run(stderr: str | None = None) -> "subprocess.CompletedProcess[str]":
        command = ("placement-manage", "db", *arguments)
        return Forked(*command, environment=environment, stderr=stderr).wait()

    terminal, end = pty.openpty()
    termios.tcsetwinsize(end, (24, 100))
    on_terminal = run(os.ttyname(end))
    os.write(end, b".")  # so that reading ends, whatever was written
    written = os.read(terminal, 10000).decode()
    for side in (end, terminal):
        os.close(side)
    elsewhere = run()

    assert on_terminal.returncode == elsewhere.returncode == 0
    assert shown in written
    assert elsewhere.stderr == ""
    assert elsewhere.stdout == on_terminal.stdout


def test_not_a_database(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("no database at all, but long enough to have a header" * 100)

    assert is_one_line(command("placement-manage", "db", "sync", url=f"sqlite:///{file}"))
    assert file.read_text().startswith("no database")


def test_configuration_directory_is_for_the_web_only(
    command: Command, sqlite_url: str, tmp_path: Path
) -> None:
    """OS_PLACEMENT_CONFIG_DIR does not steer the commands; --config-file and --config-dir do."""
    file = tmp_path / "etc" / "placement.conf"
    file.parent.mkdir()
    file.write_text(f"[placement_database]\nconnection = {sqlite_url}\n")
    directory = {"OS_PLACEMENT_CONFIG_DIR": str(file.parent)}

    assert command("placement-manage", "db", "version", **directory).returncode == 1
    for option, value in (("--config-file", str(file)), ("--config-dir", str(file.parent))):
        assert command("placement-manage", option, value, "db", "version").stdout == "None\n"


@at(OLD_HEAD)
@on("sqlite")
def test_command_line_beats_environment_beats_file(
    command: Command, url: str, synced: str, tmp_path: Path
) -> None:
    file = tmp_path / "placement.conf"
    file.write_text(f"[placement_database]\nconnection = {url}\n")

    def version(**more: Any) -> str:
        return command(
            "placement-manage", "--config-file", str(file), "db", "version", **more
        ).stdout

    assert version() == f"{OLD_HEAD}\n"
    assert version(url=synced) == f"{schema.HEAD}\n"


# Start and leave


def test_commands_do_not_wait_for_the_service_to_be_imported() -> None:
    """Nor for what speaks to an identity service."""
    heavy = ("keystoneauth1", "keystonemiddleware", "requests", "numpy", "alembic", "webob")
    program = (
        "import sys, placement.cmd.manage, placement.cmd.status\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = ran([sys.executable, "-c", program])
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.mysql
def test_commands_take_leave_of_the_database(command: Command, tmp_path: Path) -> None:
    """MariaDB and MySQL write a warning into their log for each client that does not."""
    goodbye = b"\x01\0\0\0\x01"
    tree = tmp_path / "tree.yaml"
    host = "{name: host, uuid: 00000000-0000-4000-8000-000000000001}"
    tree.write_text(f"placement_tree: 1\nproviders: [{host}]")
    settings = {"OS_TREE_DRIVER__TREE_FILE": str(tree), "OS_API__AUTH_STRATEGY": "noauth2"}
    runs = (
        ("placement-manage", "db", "sync"),
        ("placement-manage", "db", "check"),
        ("placement-manage", "db", "online_data_migrations"),
        ("placement-manage", "config", "check"),
        ("placement-status", "upgrade", "check"),
        ("placement-tree", "apply", "--direct", str(tree)),
        ("placement-tree", "export", "--direct", "--all"),
        ("placement-migrate-compute-inventory", "--driver", "file"),
    )
    with scratch_database("mysql") as url:
        proxy = Proxy(make_url(url).port or 3306)
        way = make_url(url).set(host="127.0.0.1", port=proxy.port)
        through = way.render_as_string(hide_password=False)
        for run in runs:
            before = proxy.connections
            result = command(*run, url=through, **settings)
            assert result.returncode == 0, result
            assert proxy.connections > before
            wait_until("all are gone", lambda: len(proxy.last_words) == proxy.connections)
            assert set(proxy.last_words) == {goodbye}, run
        proxy.close()
