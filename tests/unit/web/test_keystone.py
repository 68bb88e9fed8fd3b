"""Specification 01 section 13.1: tokens of an identity service, here one that cannot be reached."""

import contextlib
import http.server
import importlib.util
import json
import threading
from collections.abc import Iterator

import pytest
from keystoneauth1 import loading

from tests.support.processes import lacking
from tests.support.service import Service, running

WITHOUT_CATALOGUE = (
    b'{"token": {"expires_at": "2999-01-01T00:00:00.000000Z", "issued_at": "2020-01-01T00:00:00.000000Z",'
    b' "methods": ["password"], "user": {"id": "u", "name": "u", "domain": {"id": "d", "name": "d"}}}}'
)

URI = "http://identity.example.com/"
IDENTITY = {"x_user_id": "admin", "x_roles": "admin,service", "x_project_id": "p"}


@contextlib.contextmanager
def identity_service(tokens: bytes) -> Iterator[str]:
    """An identity service that gives everybody this token; its URL."""

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            links = [{"rel": "self", "href": url}]
            version = {"id": "v3.14", "status": "stable", "links": links}
            self.answer(200, json.dumps({"version": version}).encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(201, tokens)

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("X-Subject-Token", "t")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/v3"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield url
        server.shutdown()
        thread.join()


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


@pytest.mark.parametrize("answers", [b"nonsense", b'{"token": []}', b"{}", WITHOUT_CATALOGUE])
def test_identity_service_that_makes_no_sense_is_503(
    service: Service, caplog: pytest.LogCaptureFixture, answers: bytes
) -> None:
    """Our document, our request log, and one line that says why."""
    with identity_service(answers) as url:
        group = "keystone_authtoken"
        service.conf.register_opts(loading.get_auth_plugin_conf_options("password"), group=group)
        for name, value in {
            "auth_type": "password",
            "auth_url": url,
            "username": "placement",
            "password": "secret",
            "project_name": "service",
            "user_domain_name": "Default",
            "project_domain_name": "Default",
        }.items():
            service.conf.set_override(name, value, group=group)
        asked = Service(service.conf, service.db)
        with caplog.at_level("INFO"):
            response = asked.request("GET", "/traits", x_auth_token="some")

    assert response.status_int == 503
    (error,) = response.json["errors"]
    assert "identity service" in error["detail"]
    assert error["request_id"] == response.headers["x-openstack-request-id"]
    (cause,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert "No token can be validated" in cause.getMessage()
    assert "\n" not in cause.getMessage()
    assert cause.exc_info is None
    (line,) = [one for one in caplog.records if one.name == "placement.requestlog"]
    assert "status: 503" in line.getMessage()
