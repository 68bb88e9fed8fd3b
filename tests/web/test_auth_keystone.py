"""Specification 01 section 13.1: tokens of an identity service, here one that cannot be reached."""

import importlib.util
import socket
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import pytest
from keystoneauth1 import loading

from placement.web.worker_threads import count_threads
from tests.support.identity import identity_service
from tests.support.processes import ENDS_S, lacking
from tests.support.service import Service, running

WITHOUT_CATALOGUE = (
    b'{"token": {"expires_at": "2999-01-01T00:00:00.000000Z", "issued_at": "2020-01-01T00:00:00.000000Z",'
    b' "methods": ["password"], "user": {"id": "u", "name": "u", "domain": {"id": "d", "name": "d"}}}}'
)

URI = "http://identity.example.com/"
IDENTITY = {"x_user_id": "admin", "x_roles": "admin,service", "x_project_id": "p"}


PASSWORD = {
    "auth_type": "password",
    "username": "placement",
    "password": "secret",
    "project_name": "service",
    "user_domain_name": "Default",
    "project_domain_name": "Default",
}


@pytest.fixture
def service() -> Service:
    # Nobody listens on port 9 of this machine: every token that is looked at fails.
    with running(api__auth_strategy="keystone") as made:
        made.conf.set_override("www_authenticate_uri", URI, group="keystone_authtoken")
        return Service(made.conf, made.db)


def logging_in(service: Service, auth_url: str, **more: Any) -> Service:
    """Return the service as it is if it has a password for the identity service."""
    group = "keystone_authtoken"
    service.conf.register_opts(loading.get_auth_plugin_conf_options("password"), group=group)
    for name, value in {**PASSWORD, "auth_url": auth_url, **more}.items():
        service.conf.set_override(name, value, group=group)
    return Service(service.conf, service.db)


def test_no_token_is_401_whatever_the_client_says_of_itself(service: Service) -> None:
    response = service.request("GET", "/traits", x_auth_token=None, **IDENTITY)
    assert response.status_int == 401
    assert response.headers["www-authenticate"] == f'Keystone uri="{URI}"'
    assert response.json["error"]["code"] == 401
    assert response.json["error"]["title"] == "Unauthorized"
    assert response.headers["x-openstack-request-id"]
    assert "openstack-api-version" not in response.headers


# python-memcached leaves the socket of a server that refuses to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_token_cache_in_memcached_needs_nothing_else(service: Service) -> None:
    """The deployment guide has ``memcached_servers``; keystonemiddleware leaves its driver to us."""
    if importlib.util.find_spec("memcache") is None:
        lacking("python-memcached")
    place = "127.0.0.1:9"
    cached = logging_in(service, f"http://{place}/v3", memcached_servers=[place])

    assert cached.request("GET", "/traits", x_auth_token="some").status_int == 503


def check_unavailable(response: Any) -> None:
    """It is our 503, which says that nothing was changed and when to come again."""
    assert response.status_int == 503
    (error,) = response.json["errors"]
    assert "identity service" in error["detail"]
    assert (error["reason"], error["retry"]) == ("identity_unavailable", "as_it_is")
    assert error["request_id"] == response.headers["x-openstack-request-id"]
    assert response.headers["retry-after"] == "1"


def test_identity_service_that_refuses_connections_is_503(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    asked = logging_in(service, "http://127.0.0.1:9/v3", http_request_max_retries=0)

    check_unavailable(asked.request("GET", "/traits", version="1.23", x_auth_token="some"))

    (cause,) = [one for one in caplog.records if one.levelname in ("ERROR", "CRITICAL")]
    assert "Unable to validate token" in cause.getMessage()


def test_identity_service_that_hangs_is_503_after_a_while(service: Service) -> None:
    """The kernel of a frozen one takes the connection, and no answer comes."""
    assert service.conf.keystone_authtoken.http_connect_timeout == 5
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        url = f"http://127.0.0.1:{frozen.getsockname()[1]}/v3"
        asked = logging_in(service, url, http_request_max_retries=0, http_connect_timeout=1)

        check_unavailable(asked.request("GET", "/traits", version="1.23", x_auth_token="some"))


def test_half_of_the_threads_wait_for_an_identity_service_that_hangs(service: Service) -> None:
    """The others are free: whoever comes later is refused, while the first ones go on waiting."""
    most = count_threads() // 2
    # When the socket is closed, those who wait have an end.
    with ThreadPoolExecutor(most + 1) as threads, socket.create_server(("127.0.0.1", 0)) as frozen:
        url = f"http://127.0.0.1:{frozen.getsockname()[1]}/v3"
        asked = logging_in(service, url, http_request_max_retries=0, http_connect_timeout=ENDS_S)
        tokens = [f"unknown {number}" for number in range(most + 1)]
        asking = [
            threads.submit(asked.request, "GET", "/traits", version="1.23", x_auth_token=token)
            for token in tokens
        ]

        refused = next(as_completed(asking))

        check_unavailable(refused.result())
        assert [each.done() for each in asking].count(True) == 1


def test_the_cache_of_the_library_is_not_used(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """It warns of itself when it is made. Its threads do not all know the same tokens."""
    asked = logging_in(service, "http://127.0.0.1:9/v3", http_request_max_retries=0)

    asked.request("GET", "/traits", version="1.23", x_auth_token="some")

    assert "Unable to validate token" in caplog.text
    assert "in-process token cache" not in caplog.text


@pytest.mark.parametrize("answers", [b"nonsense", b'{"token": []}', b"{}", WITHOUT_CATALOGUE])
def test_identity_service_that_makes_no_sense_is_503(
    service: Service, caplog: pytest.LogCaptureFixture, answers: bytes
) -> None:
    """Our document, our request log, and one line that says why."""
    with identity_service(201, answers) as url:
        asked = logging_in(service, url)
        with caplog.at_level("INFO"):
            response = asked.request("GET", "/traits", version="1.23", x_auth_token="some")

    check_unavailable(response)
    (cause,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert "No token can be validated" in cause.getMessage()
    assert "\n" not in cause.getMessage()
    assert cause.exc_info is None
    (line,) = [one for one in caplog.records if one.name == "placement.requestlog"]
    assert "status: 503" in line.getMessage()
