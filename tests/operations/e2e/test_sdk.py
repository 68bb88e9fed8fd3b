"""openstacksdk's placement proxy and keystoneauth's discovery against the service."""

from collections.abc import Iterator
from typing import Any

import openstack
import pytest
from keystoneauth1 import discover, session, token_endpoint
from openstack import exceptions

from tests.support import deployment
from tests.support.deployment import Site
from tests.support.processes import public_folder

pytestmark = [pytest.mark.deploy, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with public_folder("placement-sdk-") as folder:
        environment = deployment.prepare(folder, f"sqlite:///{folder}/placement.sqlite")
        with deployment.builtin(folder, environment) as site:
            yield site


@pytest.fixture
def placement(site: Site) -> Iterator[Any]:
    with openstack.connect(
        load_yaml_config=False,
        load_envvars=False,
        auth_type="admin_token",
        auth={"endpoint": site.url, "token": "admin"},
        placement_endpoint_override=site.url,
        placement_default_microversion="1.39",
    ) as connection:
        yield connection.placement


def test_the_proxy_of_the_sdk(placement: Any) -> None:
    host = placement.create_resource_provider(name="sdk host")
    inventory = placement.create_resource_provider_inventory(host, "VCPU", total=8)
    assert (inventory.total, inventory.allocation_ratio) == (8, 1.0)
    placement.create_resource_class(name="CUSTOM_SDK")
    placement.create_trait("CUSTOM_SDK")
    assert "CUSTOM_SDK" in {each.name for each in placement.resource_classes()}
    assert placement.get_trait("CUSTOM_SDK").id == "CUSTOM_SDK"
    found = list(placement.resource_providers(name="sdk host"))
    assert [each.id for each in found] == [host.id]
    (inventory,) = placement.resource_provider_inventories(host)
    inventory = placement.update_resource_provider_inventory(
        inventory,
        host,
        total=9,
        resource_provider_generation=inventory.resource_provider_generation,
    )
    assert inventory.total == 9
    placement.update_resource_provider(host, name="renamed")
    assert placement.get_resource_provider(host.id).name == "renamed"
    placement.delete_resource_provider_inventory("VCPU", host)
    placement.delete_resource_provider(host)
    with pytest.raises(exceptions.NotFoundException):
        placement.get_resource_provider(host.id)


def test_aggregates_of_the_sdk(placement: Any) -> None:
    rack = "0f5c6c3c-0001-4d3f-9d8a-0f2f1d7d8a11"
    host = placement.create_resource_provider(name="sdk host in a rack")
    host = placement.set_resource_provider_aggregates(host, rack)
    assert placement.fetch_resource_provider_aggregates(host).aggregates == [rack]


def test_discovery_of_keystoneauth(site: Site) -> None:
    client = session.Session(auth=token_endpoint.Token(site.url, "admin"))
    (version,) = discover.Discover(client, site.url).version_data()
    assert (version["version"], version["status"]) == ((1, 0), "CURRENT")
    assert (version["min_microversion"], version["max_microversion"]) == ((1, 0), (1, 39))
    assert version["url"].rstrip("/") == site.url


def test_microversions_of_keystoneauth(site: Site) -> None:
    client = session.Session(auth=token_endpoint.Token(site.url, "admin"))
    answer = client.get(
        "/resource_providers",
        endpoint_filter={"service_type": "placement"},
        microversion="1.22",
    )
    assert answer.headers["OpenStack-API-Version"] == "placement 1.22"
