"""Specification 01 sections 1, 7, 12, 13 and 15: the layers around the handlers."""

import io
import logging
import re
from collections.abc import Iterator

import pytest
import webob

from placement import routes
from tests.support.service import Service, running

REQUEST_ID = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with running() as made:
        yield made


def test_every_response_has_its_own_request_id(service: Service) -> None:
    sent = "req-6c29f473-cce5-46fd-b005-2738e57d61e3"
    ids = set()
    for path, token in [("/", None), ("/traits", None), ("/traits", "admin"), ("/x", "admin")]:
        response = service.request(
            "GET", path, version="1.6", x_auth_token=token, x_openstack_request_id=sent
        )
        ids.add(response.headers["x-openstack-request-id"])
        if "errors" in response.json:
            assert response.json["errors"][0]["request_id"] in ids
    assert len(ids) == 4
    assert sent not in ids
    assert all(REQUEST_ID.fullmatch(one) for one in ids)


def test_request_log(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "placement.requestlog"):
        service.request(
            "GET",
            "/x?name=a%20b",
            version="1.39",
            environ={"SCRIPT_NAME": "/placement", "REMOTE_ADDR": "127.0.0.1"},
        )
    [arrival, done] = [r for r in caplog.records if r.name == "placement.requestlog"]
    assert arrival.levelname == "DEBUG"
    assert arrival.getMessage() == ('Starting request: 127.0.0.1 "GET /placement/x?name=a%20b"')
    assert done.levelname == "INFO"
    assert re.fullmatch(
        r'127\.0\.0\.1 "GET /placement/x\?name=a%20b" status: 404 len: \d+ microversion: 1\.39',
        done.getMessage(),
    )


def test_request_log_of_the_unknown(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "placement.requestlog"):
        service.request("GET", "/x", x_auth_token=None, environ={"REMOTE_ADDR": ""})
        service.request("GET", "/x", openstack_api_version="placement pony")
    messages = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(r'- "GET /x" status: 401 len: \d+ microversion: -', messages[0])
    assert re.fullmatch(r'- "GET /x" status: 400 len: \d+ microversion: -', messages[1])


@pytest.mark.parametrize(
    ("headers", "roles", "project"),
    [
        ({"x_auth_token": "admin"}, ["admin"], "admin"),
        ({"x_auth_token": "admin:p"}, ["admin"], "p"),
        ({"x_auth_token": "bob:p:q"}, [], "p:q"),
        ({"x_auth_token": "bob:"}, [], "bob"),
        ({"x_auth_token": ""}, [], ""),
        ({"x_auth_token": "bob", "x_roles": "a, b"}, ["a", "b"], "bob"),
        ({"x_auth_token": "admin", "x_roles": ""}, [], "admin"),
        ({"x_auth_token": "bob", "x_role": "admin"}, [], "bob"),
        ({"x_auth_token": "bob:p", "x_project_id": "q"}, [], "q"),
        ({"x_auth_token": "bob:p", "x_tenant_id": "q"}, [], "p"),
        ({"x_auth_token": "bob:p", "openstack_system_scope": "all"}, [], None),
    ],
)
def test_noauth2_identity(
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    headers: dict[str, str],
    roles: list[str],
    project: str | None,
) -> None:
    seen = []
    monkeypatch.setattr(
        "placement.web.authorization.Authorizer.check",
        lambda _self, _rule, context, _target: seen.append(context),
    )
    service.request("GET", "/resource_providers", x_user_id="mallory", **headers)
    [context] = seen
    assert context.user_id == headers["x_auth_token"].partition(":")[0]
    assert context.roles == roles
    assert context.project_id == project


def test_every_route_refuses_a_caller_without_roles(service: Service) -> None:
    for path, methods in routes.ROUTES.items():
        for method, actions in methods.items():
            if actions[-1].rule is None:
                continue
            response = service.request(
                method,
                path.replace("{", "").replace("}", ""),
                version="latest",
                x_auth_token="nobody",
                content_type="application/json",
            )
            assert response.status_int == 403, (method, path)
            rule = f"placement:{actions[-1].rule}"
            assert f"Policy does not allow {rule} to be performed." in response.text


@pytest.mark.parametrize(
    ("length", "content_type", "status", "fragment"),
    [
        ("x", "text/plain", 400, "content-length header must be an integer"),
        ("1.5", "text/plain", 400, "content-length header must be an integer"),
        ("5", "", 400, "content-type header required when content-length > 0"),
        ("0", "", 404, "The resource could not be found."),
        ("", "", 404, "The resource could not be found."),
        ("5", "text/plain", 404, "The resource could not be found."),
    ],
)
def test_content_guard(
    service: Service, length: str, content_type: str, status: int, fragment: str
) -> None:
    environ = {"CONTENT_LENGTH": length, "CONTENT_TYPE": content_type}
    response = service.request("GET", "/x", environ=environ)
    assert response.status_int == status
    assert fragment in response.text


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PATCH"])
def test_head_and_options_are_not_allowed(service: Service, method: str) -> None:
    for path in ("/", "/resource_providers", "/allocations/x"):
        response = service.request(method, path)
        assert response.status_int == 405
        assert response.headers["allow"]
        assert bool(response.body) is (method != "HEAD")
        assert not any(name.lower().startswith("access-control") for name in response.headers)


def test_links_are_paths_and_locations_are_urls_under_the_prefix(service: Service) -> None:
    response = service.request(
        "POST",
        "/resource_providers",
        version="1.20",
        json={"name": "a"},
        environ={"SCRIPT_NAME": "/placement", "HTTP_HOST": "h:8080"},
    )
    path = f"/placement/resource_providers/{response.json['uuid']}"
    assert response.headers["location"] == f"http://h:8080{path}"
    assert response.json["links"][0] == {"rel": "self", "href": path}


def test_proxy_headers_are_believed_only_if_the_service_is_told_to() -> None:
    forwarded = {
        "x_forwarded_proto": "https",
        "x_forwarded_host": "cloud",
        "x_forwarded_prefix": "/p",
    }
    for enabled, url in [
        (False, "http://localhost/traits/CUSTOM_A"),
        (True, "https://cloud/p/traits/CUSTOM_A"),
    ]:
        with running(oslo_middleware__enable_proxy_headers_parsing=enabled) as service:
            response = service.request("PUT", "/traits/CUSTOM_A", version="1.6", **forwarded)
        assert response.headers["location"].replace(":80/", "/") == url


def test_cors_answers_without_token() -> None:
    with running(cors__allowed_origin=["http://valid.example.com"]) as service:
        asked = {"origin": "http://valid.example.com", "x_auth_token": None}
        preflight = service.request("OPTIONS", "/x", access_control_request_method="GET", **asked)
        refused = service.request("GET", "/x", **asked)
    assert preflight.status_int == 200
    assert preflight.body == b""
    assert "content-type" not in preflight.headers
    assert preflight.headers["x-openstack-request-id"]
    assert refused.status_int == 401
    for response in (preflight, refused):
        assert response.headers["access-control-allow-origin"] == "http://valid.example.com"


@pytest.mark.parametrize("missing", ["REQUEST_METHOD", "PATH_INFO"])
def test_environment_without_a_request_line_is_refused(
    service: Service, caplog: pytest.LogCaptureFixture, missing: str
) -> None:
    """uWSGI passes on what it could not parse; the empty path is the root."""
    environ = webob.Request.blank("/traits", headers={"X-Auth-Token": "admin"}).environ
    del environ[missing]
    statuses: list[str] = []

    def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> None:
        statuses.append(status)
        assert REQUEST_ID.fullmatch(dict(headers)["x-openstack-request-id"])

    body = b"".join(service.application(environ, start_response))

    assert statuses == ["400 Bad Request"]
    assert b"The request line cannot be understood." in body
    assert not [record for record in caplog.records if record.exc_info]


class Input(io.BytesIO):
    """A body that notes how much of it is asked for each time."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self.asked: list[int | None] = []

    def read(self, size: int | None = -1) -> bytes:
        self.asked.append(size)
        return super().read(size)


@pytest.mark.parametrize(
    ("path", "status", "asked"),
    [("/x", 404, []), ("/traits", 405, []), ("/reshaper", 400, [100_000])],
)
def test_body_is_read_once_or_not_at_all(
    service: Service, path: str, status: int, asked: list[int]
) -> None:
    """A server that reads from the connection itself would wait for more than there is."""
    sent = webob.Request.blank(path, method="POST", headers={"X-Auth-Token": "admin"})
    sent.headers["X-Roles"] = "service"
    sent.headers["OpenStack-API-Version"] = "placement 1.39"
    sent.body, sent.content_type = b"x" * 100_000, "application/json"
    body = sent.environ["wsgi.input"] = Input(b"x" * 200_000)

    assert sent.get_response(service.application).status_int == status

    assert body.asked == asked


@pytest.mark.parametrize("host", ["", ":", ":8778"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/resource_providers", {"name": "h"}),
        ("PUT", "/traits/CUSTOM_A", None),
        ("PUT", "/resource_classes/CUSTOM_A", None),
    ],
)
def test_a_host_without_a_name_makes_no_url(method: str, path: str, body: object, host: str) -> None:
    """The server's own name stands in for it, as where no Host was sent."""
    server = {"SERVER_NAME": "placement.example", "SERVER_PORT": "8778"}
    with running() as service:
        answer = service.request(method, path, json=body, host=host, version="1.39", environ=server)
        assert answer.status_int in (200, 201)
        assert answer.headers["location"].startswith(f"http://placement.example:8778/{path[1:5]}")
