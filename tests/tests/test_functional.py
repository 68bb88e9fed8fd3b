"""A functional test as other projects write them: a fixture of their own and keystoneauth.

Nova subclasses :class:`PlacementFixture` like this, sends every request through one adapter to the
endpoint of the fixture, reshapes as ``admin``, and hands the configuration of the fixture to
:class:`PlacementDirect` (specification 05 part B, specification 06 sections 9 and 10).
"""

from collections.abc import Iterator
from typing import Any

import fixtures
import pytest
import requests
from keystoneauth1 import adapter, session
from requests import adapters

from placement.direct import PlacementDirect
from placement.tests.functional.fixtures import placement as placement_fixtures

HOST = "5b8784cc-0001-4ed4-ba61-1ee63950767e"
GPU = "5b8784cc-0002-4ed4-ba61-1ee63950767e"
SERVER = "7c34be36-0001-44d1-8a7c-39b7a1e6f7c5"
VCPU, VGPU = {"VCPU": {"total": 4}}, {"VGPU": {"total": 2}}
OWNERS = {"project_id": "project", "user_id": "user"}


class CloudFixture(placement_fixtures.PlacementFixture):
    """The fixture of the other project."""

    def setUp(self) -> None:
        super().setUp()
        # The options that keystoneauth sets on its sockets mean nothing to an intercepted one.
        self.useFixture(
            fixtures.MonkeyPatch(
                "keystoneauth1.session.TCPKeepAliveAdapter.init_poolmanager",
                adapters.HTTPAdapter.init_poolmanager,
            )
        )
        self._client = adapter.Adapter(session.Session(auth=None), raise_exc=False)

    def call(self, method: str, url: str, version: str = "1.36", **more: Any) -> requests.Response:
        headers = {"x-auth-token": self.token, "OpenStack-API-Version": f"placement {version}"}
        answer: requests.Response = getattr(self._client, method)(
            url, endpoint_override=self.endpoint, headers=headers, **more
        )
        return answer

    def put_inventories(self, uuid: str, generation: int, inventories: Any) -> None:
        body = {"resource_provider_generation": generation, "inventories": inventories}
        assert self.call("put", f"/resource_providers/{uuid}/inventories", json=body)


@pytest.fixture
def cloud() -> Iterator[CloudFixture]:
    with CloudFixture() as started:
        yield started


def test_boot_and_reshape(cloud: CloudFixture) -> None:
    assert cloud.call("post", "/resource_providers", json={"name": "host", "uuid": HOST})
    child = {"name": "gpu", "uuid": GPU, "parent_provider_uuid": HOST}
    assert cloud.call("post", "/resource_providers", json=child)
    cloud.put_inventories(HOST, 0, VCPU | VGPU)

    found = cloud.call("get", "/allocation_candidates?resources=VCPU:1,VGPU:1").json()
    (claim,) = found["allocation_requests"]
    body = claim | OWNERS | {"consumer_generation": None}
    assert cloud.call("put", f"/allocations/{SERVER}", json=body).status_code == 204

    reshaped = cloud.call("post", "/reshaper", "1.30", json=_vgpus_to_child())
    assert reshaped.status_code == 204, reshaped.text
    held = cloud.call("get", f"/allocations/{SERVER}").json()
    assert {uuid: entry["resources"] for uuid, entry in held["allocations"].items()} == {
        HOST: {"VCPU": 1},
        GPU: {"VGPU": 1},
    }
    assert held["consumer_generation"] == 2
    usages = cloud.call("get", "/usages?project_id=project&user_id=user", "1.9").json()
    assert usages == {"usages": {"VCPU": 1, "VGPU": 1}}


def _vgpus_to_child() -> dict[str, Any]:
    places = {HOST: {"resources": {"VCPU": 1}}, GPU: {"resources": {"VGPU": 1}}}
    return {
        "inventories": {
            HOST: {"resource_provider_generation": 2, "inventories": VCPU},
            GPU: {"resource_provider_generation": 0, "inventories": VGPU},
        },
        "allocations": {SERVER: {"allocations": places, "consumer_generation": 1, **OWNERS}},
    }


def test_options_change_while_it_runs(cloud: CloudFixture) -> None:
    for uuid in (HOST, GPU):
        assert cloud.call("post", "/resource_providers", json={"name": uuid, "uuid": uuid})
        cloud.put_inventories(uuid, 0, VCPU)

    def found() -> int:
        answer = cloud.call("get", "/allocation_candidates?resources=VCPU:1")
        return len(answer.json()["allocation_requests"])

    assert found() == 2
    cloud.conf_fixture.config(group="placement", max_allocation_candidates=1)
    assert found() == 1
    cloud.conf_fixture.config(group="workarounds", optimize_for_wide_provider_trees=True)
    assert found() == 1


def test_direct_client_on_the_configuration_of_the_fixture(cloud: CloudFixture) -> None:
    assert cloud.call("post", "/resource_providers", json={"name": "host", "uuid": HOST})

    with PlacementDirect(cloud.conf_fixture.conf, latest_microversion=True) as client:
        (provider,) = client.get("/resource_providers").json()["resource_providers"]
        assert provider["uuid"] == HOST
        assert cloud.call("get", f"/resource_providers/{HOST}").json()["name"] == "host"

    assert cloud.call("get", f"/resource_providers/{HOST}").json()["name"] == "host"
