"""Contract 01 section 13.1: tokens of an identity service, here one that cannot be reached."""

import importlib.util

import pytest
from keystoneauth1 import loading

from tests.support.processes import lacking
from tests.support.service import Service, running

URI = "http://identity.example.com/"
IDENTITY = {"x_user_id": "admin", "x_roles": "admin,service", "x_project_id": "p"}


@pytest.fixture
def service() -> Service:
    # Nobody listens on port 9 of this machine: every token that is looked at fails.
    with running(
        api__auth_strategy="keystone",
    ) as made:
        conf = made.conf
        conf.set_override("www_authenticate_uri", URI, group="keystone_authtoken")
        return Service(conf, made.db)


@pytest.mark.parametrize(
    "path", ["/traits", "/pony", "//", "/.", "/resource_providers/..", "/traits/%2F"]
)
def test_no_token_is_401_whatever_the_client_says_of_itself(service: Service, path: str) -> None:
    environ = {"PATH_INFO": path}
    response = service.request("GET", "/", x_auth_token=None, environ=environ, **IDENTITY)
    assert response.status_int == 401
    assert response.headers["www-authenticate"] == f'Keystone uri="{URI}"'
    assert response.json["error"]["code"] == 401
    assert response.json["error"]["title"] == "Unauthorized"
    assert response.headers["x-openstack-request-id"]
    assert "openstack-api-version" not in response.headers


@pytest.mark.parametrize("path", ["", "/"])
def test_root_needs_no_token(service: Service, path: str) -> None:
    response = service.request("GET", "/", x_auth_token=None, environ={"PATH_INFO": path})
    assert response.status_int == 200


# python-memcached leaves the socket of a server that refuses to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_token_cache_in_memcached_needs_nothing_else(service: Service) -> None:
    """The deployment guide has ``memcached_servers``; keystonemiddleware leaves its driver to us."""
    if importlib.util.find_spec("memcache") is None:
        lacking("python-memcached")
    group = "keystone_authtoken"
    service.conf.register_opts(loading.get_auth_plugin_conf_options("password"), group=group)
    for name, value in {
        "auth_type": "password",
        "auth_url": "http://127.0.0.1:9/v3",
        "username": "placement",
        "password": "secret",
        "memcached_servers": ["127.0.0.1:9"],
    }.items():
        service.conf.set_override(name, value, group=group)
    cached = Service(service.conf, service.db)

    assert cached.request("GET", "/traits", x_auth_token="some").status_int == 503
