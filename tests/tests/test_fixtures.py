"""What other projects' functional tests import (specification 06 section 10)."""

import logging
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import os_resource_classes
import pytest
import requests
from oslo_config import cfg
from oslo_config import fixture as config_fixture
from sqlalchemy import select

from placement import conf as configuration
from placement import db_api
from placement.db import models, schema
from placement.db.database import Reader
from placement.tests import fixtures as database_fixtures
from placement.tests.functional.fixtures import capture
from placement.tests.functional.fixtures.placement import PlacementFixture
from tests.support.processes import ENDS_S, ran
from tests.support.revisions import sqlite_url as sqlite_url

GROUP = "placement_database"
LATEST = {"x-auth-token": "admin", "openstack-api-version": "placement latest"}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Each test begins and ends without a configured database."""
    db_api.reset()
    yield
    with pytest.raises(RuntimeError):
        db_api.database()


def providers(placement: PlacementFixture) -> list[str]:
    answer = requests.get(f"{placement.endpoint}/resource_providers", headers=LATEST, timeout=ENDS_S)
    assert answer.status_code == 200, answer.text
    return [provider["name"] for provider in answer.json()["resource_providers"]]


def create(placement: PlacementFixture, name: str) -> None:
    answer = requests.post(
        f"{placement.endpoint}/resource_providers", json={"name": name}, headers=LATEST, timeout=ENDS_S
    )
    assert answer.status_code == 200, answer.text


def test_again_and_again_in_one_process() -> None:
    for number in range(3):
        with PlacementFixture() as placement:
            assert providers(placement) == []
            create(placement, f"host-{number}")
            assert providers(placement) == [f"host-{number}"]
            assert placement.endpoint.endswith("/placement")
        with pytest.raises(requests.ConnectionError):
            providers(placement)


USED_WHERE_THE_HOST_IS_HIDDEN = """
import os
from placement.tests.functional.fixtures.placement import PlacementFixture

def poisoned():
    raise Exception("tests should not be inspecting the host")

os.uname = poisoned
import requests
with PlacementFixture() as placement:
    url = placement.endpoint + "/allocation_candidates?resources=VCPU:1"
    headers = {"x-auth-token": "admin", "openstack-api-version": "placement latest"}
    requests.get(url, headers=headers).raise_for_status()
"""


def test_everything_is_imported_with_the_fixture() -> None:
    """Nova's tests hide parts of the standard library that libraries need while they load."""
    ran([sys.executable, "-c", USED_WHERE_THE_HOST_IS_HIDDEN], check=True)


def test_twice_on_one_database() -> None:
    with PlacementFixture() as first:
        create(first, "host")
        with PlacementFixture(
            conf_fixture=first.conf_fixture, db=False, register_opts=False
        ) as second:
            assert second.endpoint != first.endpoint
            assert providers(second) == ["host"]
        assert providers(first) == ["host"]


def test_an_inner_fixture_leaves_the_outer_as_it_was() -> None:
    with PlacementFixture() as outer:
        policy = outer.conf_fixture.conf.oslo_policy
        before = (policy.enforce_new_defaults, policy.policy_file, policy.policy_dirs)
        with PlacementFixture(conf_fixture=outer.conf_fixture, db=False, register_opts=False):
            assert policy.enforce_new_defaults is False
        assert (policy.enforce_new_defaults, policy.policy_file, policy.policy_dirs) == before


def test_without_the_database_fixture_nothing_is_left_either(tmp_path: Path) -> None:
    """Each uses the database that its own configuration names."""
    for name in ("one", "other"):
        with config_fixture.Config(cfg.ConfigOpts()) as conf_fixture:
            configuration.register_opts(conf_fixture.conf)
            conf_fixture.config(connection=f"sqlite:///{tmp_path / name}", group=GROUP)
            conf_fixture.config(sync_on_startup=True, group=GROUP)
            with PlacementFixture(conf_fixture=conf_fixture, db=False) as placement:
                assert providers(placement) == []
                create(placement, "host")


def test_settings_of_the_fixture() -> None:
    with PlacementFixture(use_intercept=False) as placement:
        conf = placement.conf_fixture.conf
        assert conf.api.auth_strategy == "noauth2"
        assert conf.oslo_policy.enforce_new_defaults is False
        assert conf.placement_database.connection == "sqlite://"
        assert placement.endpoint is None
        assert placement.token == "admin"


def test_options_change_on_a_running_application() -> None:
    """With the new defaults an administrator may not reshape; nova's tests need to."""

    def reshape() -> int:
        body = {"inventories": {}, "allocations": {}}
        answer = requests.post(
            f"{placement.endpoint}/reshaper", json=body, headers=LATEST, timeout=ENDS_S
        )
        return answer.status_code

    with PlacementFixture() as placement:
        assert reshape() != 403
        placement.conf_fixture.config(group="oslo_policy", enforce_new_defaults=True)
        assert reshape() == 403


def test_hook_chooses_the_database(sqlite_url: str) -> None:
    class OnFile(PlacementFixture):
        def _configure_placement(self, conf_fixture: config_fixture.Config) -> None:
            conf_fixture.config(connection=sqlite_url, group="placement_database")

    for _ in range(2):
        with OnFile() as placement:
            assert str(db_api.database().engine.url) == sqlite_url
            assert providers(placement) == []
            create(placement, "host")


def test_options_given_by_the_caller_are_put_back() -> None:
    with config_fixture.Config(cfg.ConfigOpts()) as conf_fixture:
        configuration.register_opts(conf_fixture.conf)
        with PlacementFixture(conf_fixture=conf_fixture, register_opts=False) as placement:
            assert placement.conf_fixture is conf_fixture
            assert providers(placement) == []
        assert conf_fixture.conf.oslo_policy.enforce_new_defaults is True
        assert conf_fixture.conf.oslo_policy.policy_file == "policy.yaml"


def _class_names(reader: Reader) -> list[str]:
    return list(reader.connection.scalars(select(models.resource_classes.c.name)))


def test_database_alone() -> None:
    """It registers the options that it needs."""
    for _ in range(2):
        with (
            config_fixture.Config(cfg.ConfigOpts()) as conf_fixture,
            database_fixtures.Database(conf_fixture, set_config=True),
        ):
            assert conf_fixture.conf.placement_database.connection == "sqlite://"
            database = db_api.database()
            assert schema.current(database) == schema.HEAD
            names = database.read(_class_names)
            assert sorted(names) == sorted(os_resource_classes.STANDARDS)


def test_database_removes_everything(sqlite_url: str) -> None:
    with config_fixture.Config(cfg.ConfigOpts()) as conf_fixture:
        configuration.register_opts(conf_fixture.conf)
        conf_fixture.config(connection=sqlite_url, group="placement_database")
        with database_fixtures.Database(conf_fixture, set_config=True):
            opened = db_api.open_database(conf_fixture.conf)
            assert schema.current(opened) == schema.HEAD
        assert schema.current(opened) is None
        tables = "SELECT COUNT(*) FROM sqlite_master"
        assert opened.read(lambda c: c.connection.exec_driver_sql(tables).scalar_one()) == 0


def test_logs_are_captured_from_info_on() -> None:
    logger = logging.getLogger("ops.capture")
    level = logging.getLogger().level
    with capture.Logging() as captured:
        logger.debug("quiet %s", "detail")
        logger.info("heard")
        output = captured.logger.output
    assert "heard" in output
    assert "quiet" not in output
    assert logging.getLogger().level == level


def test_broken_debug_lines_are_found() -> None:
    with capture.Logging(), pytest.raises(TypeError):
        logging.getLogger("ops.capture").debug("one %s", "too", "many")


def test_warnings_fixture_puts_filters_back() -> None:
    before = list(warnings.filters)
    with capture.WarningsFixture():
        assert warnings.filters != before
    assert warnings.filters == before
