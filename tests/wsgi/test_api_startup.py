"""How the application starts (specification 06 sections 1 to 3 and 7.5)."""

import json
import os
import re
import sys
from pathlib import Path

import os_resource_classes
import os_traits
import pytest
from oslo_config import cfg
from sqlalchemy import select

from placement import conf as configuration
from placement import db_api, deploy
from placement.db import models, schema, standard_names
from placement.db.database import Database
from placement.version import VERSION
from tests.db.test_schema_history import differences
from tests.support import clouds
from tests.support.commands import Forked
from tests.support.processes import ran
from tests.support.programs import START_LINE, SYNC, Command, critical, of_start
from tests.support.revisions import AT_HEAD, execute, on
from tests.support.service import configure

# Finding the configuration


def test_environment_alone_is_enough(environment: dict[str, str], sqlite_url: str) -> None:
    """A full collection of garbage, for which all requests wait, leaves out what was there at the start.

    Imported modules alone have more than 100,000 objects to look at.
    """
    result = ran([sys.executable, *START_LINE], env=of_start(environment, sqlite_url, **SYNC))

    assert "STARTED 200" in result.stdout, result.stderr
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("COLLECTABLE")]
    assert int(line.split()[1]) < 5_000


def test_another_owner_of_the_package_is_told(
    synced: str, environment: dict[str, str], tmp_path: Path
) -> None:
    """The OpenStack service beside this one: a line, and it serves."""
    folder = tmp_path / "openstack_placement-16.0.0.dist-info"
    folder.mkdir()
    metadata = "Metadata-Version: 2.1\nName: openstack-placement\nVersion: 16.0.0\n"
    (folder / "METADATA").write_text(metadata)
    # Where Python looks first.
    paths = os.pathsep.join(filter(None, [str(tmp_path), environment.get("PYTHONPATH")]))
    variables = of_start({**environment, "PYTHONPATH": paths}, synced)

    owners = f"placement-service {VERSION} and openstack-placement 16.0.0"
    owned = f"Two distributions own the package placement: {owners}."

    started = ran([sys.executable, *START_LINE], env=variables)

    assert "STARTED 200" in started.stdout, started.stderr
    log = (started.stdout + started.stderr).splitlines()
    [line] = [line for line in log if owned in line]
    assert "WARNING" in line
    check = [sys.executable, "-m", "placement.cmd.manage", "config", "check"]
    for before, code, kind in (((), 1, "error"), (("--before", "start"), 0, "warning")):
        checked = ran([*check, *before], env=variables)
        assert checked.returncode == code
        assert f"{kind}: {owned}" in checked.stdout


def write_configuration(folder: Path, url: str) -> None:
    folder.mkdir(parents=True)
    (folder / "placement.conf").write_text(f"[placement_database]\nconnection = {url}\n")


def test_named_directory_is_the_only_one(start: Command, synced: str, tmp_path: Path) -> None:
    write_configuration(tmp_path / "etc", synced)
    write_configuration(tmp_path / ".placement", "sqlite:////not/this/one")

    assert "STARTED" in start(OS_PLACEMENT_CONFIG_DIR=str(tmp_path / "etc")).stdout
    missing = start(OS_PLACEMENT_CONFIG_DIR=str(tmp_path / "nothing"))
    assert "ConfigFilesNotFoundError" in missing.stderr
    assert str(tmp_path / "nothing" / "placement.conf") in critical(missing)


@pytest.mark.parametrize("blank", ["", "  "])
def test_default_search(start: Command, synced: str, tmp_path: Path, blank: str) -> None:
    write_configuration(tmp_path / ".placement", "sqlite:////not/this/one")
    later = tmp_path / ".placement" / "placement.conf.d"
    later.mkdir()
    (later / "10-db.conf").write_text(f"[placement_database]\nconnection = {synced}\n")

    assert "STARTED" in start(OS_PLACEMENT_CONFIG_DIR=blank).stdout


# Misconfiguration


def test_connection_is_required(start: Command) -> None:
    result = start()

    assert "RequiredOptError" in result.stderr
    assert "[placement_database]/connection is not set" in critical(result)


def test_wrong_strategy(start: Command, synced: str) -> None:
    result = start(synced, OS_API__AUTH_STRATEGY="trust")

    assert result.returncode == 1
    assert "auth_strategy" in result.stdout + result.stderr


def test_deprecated_place_of_the_strategy(sqlite_url: str, tmp_path: Path) -> None:
    file = tmp_path / "placement.conf"
    file.write_text(
        f"[DEFAULT]\nauth_strategy = noauth2\n[placement_database]\nconnection = {sqlite_url}\n"
        "[oslo_policy]\nenforce_scope = false\n"
    )
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)

    conf([], default_config_files=[str(file)], default_config_dirs=[])

    assert conf.api.auth_strategy == "noauth2"


@pytest.mark.parametrize("revision", [None, "a082b8bb98d0"])
@on("sqlite")
def test_schema_must_be_at_head(start: Command, url: str) -> None:
    assert 'Run the "placement-manage db sync" command.' in critical(start(url))


def test_secrets_are_masked(start: Command, sqlite_url: str) -> None:
    result = start(
        sqlite_url, **SYNC, OS_DEFAULT__DEBUG="true", OS_PLACEMENT_DATABASE__SLAVE_CONNECTION="s3c"
    )

    assert "STARTED" in result.stdout
    log = result.stdout + result.stderr
    assert "placement_database.sync_on_startup = True" in log
    assert "s3c" not in log
    # The line of the start names the database without its password; the dump of options does not.
    assert re.search(r"placement_database\.connection\s+= \*\*\*\*", log)


def test_start_with_a_synced_database_runs_no_migration(start: Command, sqlite_url: str) -> None:
    assert "Upgraded the database schema" in start(sqlite_url, **SYNC).stdout

    again = start(sqlite_url, **SYNC)

    assert "STARTED" in again.stdout
    assert "Upgraded the database schema" not in again.stdout


# Standard names


@AT_HEAD
def test_standard_names(database: Database) -> None:
    """What is missing of them is added, and others stay."""
    standard_names.synchronise(database)
    standard_names.synchronise(database)

    rows = clouds.dump(database)
    classes = {row["id"]: row["name"] for row in rows["resource_classes"]}
    assert classes == dict(enumerate(os_resource_classes.STANDARDS))
    assert classes[0] == "VCPU"
    assert classes[20] == "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC"
    traits = {row["name"] for row in rows["traits"]}
    assert traits == set(os_traits.get_traits())
    assert all(row["created_at"] and not row["updated_at"] for row in rows["traits"])

    execute(
        database,
        "DELETE FROM resource_classes WHERE id IN (0, 7)",
        "INSERT INTO resource_classes (id, name) VALUES (10000, 'CUSTOM_X')",
        "DELETE FROM traits WHERE name = 'HW_CPU_X86_AVX'",
    )
    standard_names.synchronise(database)

    rows = clouds.dump(database)
    found = {row["id"]: row["name"] for row in rows["resource_classes"]}
    assert found == classes | {10000: "CUSTOM_X"}
    assert {row["name"] for row in rows["traits"]} == traits


# Several at once


def test_workers_start_at_once_on_an_empty_database(
    environment: dict[str, str], url: str, database: Database
) -> None:
    starts = [Forked(*START_LINE, environment=of_start(environment, url, **SYNC)) for _ in range(4)]

    for result in [each.wait() for each in starts]:
        assert "STARTED 200" in result.stdout, result.stderr
    assert differences(database) == []
    names = database.read(
        lambda connection: sorted(
            connection.connection.scalars(select(models.resource_classes.c.name))
        )
    )
    assert names == sorted(os_resource_classes.STANDARDS)


# One process, several databases


@pytest.fixture
def unconfigured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite://")
    db_api.reset()


@pytest.mark.usefixtures("unconfigured")
def test_database_is_configured_once(caplog: pytest.LogCaptureFixture) -> None:
    db_api.configure(configure(placement_database__connection="sqlite://"))
    first = db_api.database()

    db_api.configure(configure(placement_database__connection="sqlite:///other"))

    assert caplog.messages == ["TransactionFactory already started, not reconfiguring."]
    assert db_api.database() is first
    db_api.reset()
    with pytest.raises(RuntimeError, match="configure"):
        db_api.database()


@pytest.mark.usefixtures("unconfigured")
def test_options_of_the_database(sqlite_url: str) -> None:
    given = {
        "connection": sqlite_url,
        "connection_parameters": "timeout=7",
        "max_pool_size": 3,
        "max_overflow": 4,
        "pool_timeout": 5,
        "connection_recycle_time": 6,
        "sqlite_synchronous": False,
        "connection_trace": True,
    }
    conf = configure(**{f"placement_database__{name}": value for name, value in given.items()})

    opened = db_api.open_database(conf)

    assert opened.engine.url.query["timeout"] == "7"
    assert opened.engine.pool.size() == 3
    assert opened.engine.pool._max_overflow == 4
    assert opened.engine.pool._timeout == 5
    assert opened.engine.pool._recycle == 6
    synchronous = opened.read(
        lambda connection: connection.connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
    )
    assert synchronous == 0
    opened.dispose()


@pytest.mark.usefixtures("unconfigured")
def test_an_application_may_have_a_database_of_its_own() -> None:
    applications = []
    for _ in range(2):
        conf = configure(
            placement_database__connection="sqlite://", placement_database__sync_on_startup=True
        )
        own = db_api.open_database(conf)
        applications.append((deploy.loadapp(conf, database=own), own))

    assert all(schema.current(own) == schema.HEAD for _, own in applications)
    with pytest.raises(RuntimeError):
        db_api.database()


def test_every_option_is_declared_with_help() -> None:
    for group, options in configuration.list_opts():
        for option in options:
            assert option.help, (group, option.name)


def test_option_defaults() -> None:
    """Specification 06 section 4, as a table."""
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    expected = json.loads((Path(__file__).parent / "defaults.json").read_text())

    found = {group: {name: conf[group][name] for name in expected[group]} for group in expected}

    assert found == expected
