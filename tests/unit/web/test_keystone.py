"""Contract 01 section 13.1: tokens of an identity service, here one that cannot be reached."""

import pytest

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
