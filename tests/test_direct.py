"""PlacementDirect: specification 05 part B."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import webob
from keystoneauth1 import adapter
from keystoneauth1 import exceptions as keystone_exceptions
from oslo_config import cfg

from placement import conf as options
from placement import db_api, deploy
from placement.conf import unknown
from placement.direct import PlacementDirect
from placement.policies import files
from placement.web.request_log import WSGIApp
from tests.client.conftest import configured, serving_trees
from tests.client.conftest import direct as direct
from tests.client.conftest import http as http
from tests.client.world import World
from tests.support.world import new_uuid

conf = pytest.fixture(scope="module")(configured)
url = pytest.fixture(scope="module")(serving_trees)


def test_it_is_an_adapter_for_placement(direct: PlacementDirect) -> None:
    assert isinstance(direct, adapter.Adapter)
    assert direct.service_type == "placement"
    assert direct.raise_exc is False
    host = urlsplit(str(direct.get_endpoint())).hostname
    assert uuid.UUID(host)
    assert direct.get_endpoint() == f"http://{host}/placement"


def test_the_version_document_and_its_microversions(conf: cfg.ConfigOpts) -> None:
    with PlacementDirect(conf) as client:
        versions = client.get("/").json()["versions"][0]
        assert versions["min_version"] == "1.0"
        assert client.get("/resource_providers").headers["openstack-api-version"] == (
            "placement 1.0"
        )
        shown = client.get("/resource_providers", microversion="1.14")
        assert shown.headers["openstack-api-version"] == "placement 1.14"
    with PlacementDirect(conf, latest_microversion=True) as client:
        shown = client.get("/resource_providers")
        assert shown.headers["openstack-api-version"] == f"placement {versions['max_version']}"
        shown = client.get("/resource_providers", microversion="1.14")
        assert shown.headers["openstack-api-version"] == "placement 1.14"


def test_links_start_with_the_prefix_and_failures_are_falsy(direct: PlacementDirect) -> None:
    key = new_uuid()
    made = direct.post("/resource_providers", json={"name": key, "uuid": key})
    assert made
    assert made.headers["location"].endswith(f"/placement/resource_providers/{key}")
    links = direct.get(f"/resource_providers/{key}").json()["links"]
    assert all(link["href"].startswith("/placement/resource_providers/") for link in links)
    assert not direct.get("/resource_providers/nowhere")
    assert direct.delete(f"/resource_providers/{key}").status_code == 204


def test_the_reshaper_is_allowed_without_saying_who_one_is(direct: PlacementDirect) -> None:
    root = World(direct).provider()
    body = {
        "inventories": {root: {"resource_provider_generation": 0, "inventories": {}}},
        "allocations": {},
    }

    def reshape(**headers: str) -> int:
        return direct.post("/reshaper", json=body, headers=headers, microversion="1.30").status_code

    assert reshape(**{"X-Roles": "admin"}) == 403
    assert reshape(**{"X-Auth-Token": "admin"}) == 403
    assert reshape(**{"X-Auth-Token": "user"}) == 403
    assert reshape(**{"X-Auth-Token": "user", "X-Roles": "service"}) == 204
    body["inventories"][root]["resource_provider_generation"] = 1
    assert reshape() == 204


def test_a_caller_of_its_own_has_the_roles_it_says(direct: PlacementDirect) -> None:
    listed = direct.get("/resource_providers", headers={"X-Auth-Token": "user"})
    assert listed.status_code == 403
    assert direct.get("/resource_providers").status_code == 200


def test_several_on_one_database_nested_and_in_a_row(conf: cfg.ConfigOpts) -> None:
    with PlacementDirect(conf) as outer:
        key = World(outer).provider()
        with PlacementDirect(conf) as inner:
            assert World(inner).exists(key)
        assert World(outer).exists(key)
    with PlacementDirect(conf) as later:
        assert World(later).exists(key)


@pytest.mark.parametrize("failure", [None, ZeroDivisionError])
def test_after_the_block_the_service_is_out_of_reach(
    conf: cfg.ConfigOpts, failure: type[Exception] | None
) -> None:
    """Exceptions pass through, and end the intercept too."""
    with pytest.raises(failure) if failure else nullcontext(), PlacementDirect(conf) as client:
        client.get("/")
        if failure:
            raise failure
    with pytest.raises(keystone_exceptions.ClientException):
        client.get("/")


def test_the_application_is_built_once(
    conf: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[cfg.ConfigOpts] = []
    loadapp = deploy.loadapp

    def counted(given: cfg.ConfigOpts) -> WSGIApp:
        built.append(given)
        return loadapp(given)

    monkeypatch.setattr(deploy, "loadapp", counted)
    with PlacementDirect(conf) as client:
        for _ in range(3):
            client.get("/resource_providers")
            client.session.session.close()
    assert built == [conf]


def test_other_sessions_keep_their_endpoints(
    http: adapter.Adapter, direct: PlacementDirect, url: str
) -> None:
    assert http.get("/").json()["versions"]
    assert http.get_endpoint() == url != direct.get_endpoint()


def test_it_sets_the_authentication_on_the_configuration(conf: cfg.ConfigOpts) -> None:
    conf.set_override("auth_strategy", "keystone", group="api")
    try:
        with PlacementDirect(conf) as client:
            assert conf.api.auth_strategy == "noauth2"
            assert client.get("/resource_providers").status_code == 200
    finally:
        conf.set_override("auth_strategy", "noauth2", group="api")


@contextmanager
def unread_conf(folder: Path) -> Iterator[cfg.ConfigOpts]:
    """Options that were set on an object which was never called, as tests of other projects do."""
    made = cfg.ConfigOpts()
    options.register_opts(made)
    made.set_override("connection", f"sqlite:///{folder}/p.sqlite", group="placement_database")
    made.set_override("sync_on_startup", True, group="placement_database")
    made.set_override("auth_strategy", "noauth2", group="api")
    db_api.reset()
    yield made
    db_api.reset()


def test_a_configuration_that_was_never_called_is_enough(tmp_path: Path) -> None:
    """For PlacementDirect; and what was set before and after counts."""
    with unread_conf(tmp_path) as conf:
        conf.set_override("enabled", True, group="insight")
        with PlacementDirect(conf) as client:
            root = World(client).provider(inventory={"VCPU": 1})
            assert client.get(f"/-/trees/{root}").status_code == 200
        assert (tmp_path / "p.sqlite").exists()


def test_a_configuration_that_was_never_called_reads_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of this machine would be of a service that is not tested."""
    (tmp_path / ".placement").mkdir()
    (tmp_path / ".placement" / "placement.conf").write_text("[insight]\nenabled = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    with unread_conf(tmp_path) as conf:
        application = deploy.loadapp(conf)
        assert not conf.insight.enabled
        assert webob.Request.blank("/").get_response(application).status_code == 200


@pytest.mark.parametrize(
    "ask", [files.find_faults, unknown.find_unknown_options, unknown.find_misspelt_sections]
)
def test_what_looks_at_files_finds_none_then(
    tmp_path: Path, ask: Callable[[cfg.ConfigOpts], list[object]]
) -> None:
    with unread_conf(tmp_path) as conf:
        deploy.loadapp(conf)
        assert ask(conf) == []
