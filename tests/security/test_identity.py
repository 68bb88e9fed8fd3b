"""Nobody gets past authentication by the way a path or a header is spelled.

Issue: authentication bypass. The root document is open to everybody; everything else asks for a token.
"""

import contextlib
import itertools
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import webob
from keystonemiddleware.fixture import AuthTokenFixture

from placement import routes
from tests.support.processes import ENDS_S
from tests.support.racing import Arena, arena
from tests.support.service import Service, running

PLACES = ("/resource_providers", "/traits", "/allocations/x", "/reshaper", "/usages")
SPELLINGS = (
    "{0}", "/{0}", "//{0}", "/.{0}", "/..{0}", "/../{0}", "{0}/", "{0}/.", "{0}/..", "{0}//",
    "{0}/../", "/;{0}", "/?{0}", "/#{0}", "/%2F{0}", "/%2e%2e{0}", "%2F{0}", "/\\{0}", "\\{0}",
    " {0}", "{0} ", "\t{0}", "\0{0}", "/\0{0}", "\r\n{0}", "{0}.json", "{0};x=/", "*", "///",
    "/healthcheck{0}", "http://x{0}", "\u2215{0}",
)  # fmt: skip
PREFIXES = ("", "/", "/placement", "/resource_providers", "/..", "//")

IDENTITY = {
    "HTTP_X_IDENTITY_STATUS": "Confirmed",
    "HTTP_X_SERVICE_IDENTITY_STATUS": "Confirmed",
    "HTTP_X_USER_ID": "root",
    "HTTP_X_USER": "root",
    "HTTP_X_USER_NAME": "root",
    "HTTP_X_PROJECT_ID": "mine",
    "HTTP_X_TENANT_ID": "mine",
    "HTTP_X_TENANT": "mine",
    "HTTP_X_ROLES": "admin,service",
    "HTTP_X_ROLE": "admin,service",
    "HTTP_X_SERVICE_ROLES": "admin,service",
    "HTTP_X_SERVICE_USER_ID": "root",
    "HTTP_X_IS_ADMIN_PROJECT": "True",
    "HTTP_X_DOMAIN_ID": "default",
    "HTTP_OPENSTACK_SYSTEM_SCOPE": "all",
    "HTTP_X_STORAGE_TOKEN": "admin",
    "REMOTE_USER": "root",
    "AUTH_TYPE": "Basic",
    "HTTP_AUTHORIZATION": "Basic cm9vdDpyb290",
    "keystone.token_info": {},
}
"""What a client, or a careless front end, may bring along."""


@contextlib.contextmanager
def under_keystone() -> Iterator[Service]:
    """Serve behind an identity service that knows one token: of a reader of the project ``mine``."""
    with AuthTokenFixture() as known, running("sqlite", api__auth_strategy="keystone") as made:
        known.add_token_data("good", user_id="ann", project_id="mine", role_list=["reader"])
        uri = "http://identity.example.com/"
        made.conf.set_override("www_authenticate_uri", uri, group="keystone_authtoken")
        yield Service(made.conf, made.db)


@pytest.fixture(scope="module", params=["keystone", "noauth2"])
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    with under_keystone() if request.param == "keystone" else running("sqlite") as made:
        yield made


def ask(service: Service, path: str, method: str = "GET", **environ: Any) -> webob.Response:
    """Send a request with exactly this path, and without a token unless it is given."""
    sent = webob.Request.blank("/", environ, method=method)
    sent.environ["PATH_INFO"] = path.encode("utf-8").decode("latin-1")
    sent.environ.update(environ)
    return sent.get_response(service.application)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_a_path_needs_no_token(service: Service, spelling: str) -> None:
    for place, prefix in itertools.product(PLACES, PREFIXES):
        path = spelling.format(place)
        response = ask(service, path, SCRIPT_NAME=prefix)

        if path in ("", "/"):
            continue
        assert response.status_int == 401, (path, prefix, response.text)


@pytest.mark.parametrize("prefix", PREFIXES + PLACES)
@pytest.mark.parametrize("root", ["", "/"])
def test_the_open_root_is_nothing_but_the_root(service: Service, prefix: str, root: str) -> None:
    """Whatever the server put into SCRIPT_NAME, and whoever the caller claims to be."""
    shown = ask(service, root, SCRIPT_NAME=prefix, **IDENTITY)
    assert (shown.status_int, set(shown.json)) == (200, {"versions"})
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        response = ask(service, root, method, SCRIPT_NAME=prefix, **IDENTITY)
        assert (response.status_int, set(response.json)) == (405, {"errors"}), method


@pytest.mark.parametrize("names", [*[(name,) for name in IDENTITY], tuple(IDENTITY)], ids=len)
def test_claims_of_identity_are_no_token(service: Service, names: tuple[str, ...]) -> None:
    claims = {name: IDENTITY[name] for name in names}
    for place in PLACES:
        assert ask(service, place, **claims).status_int == 401, place


@pytest.mark.parametrize("template", routes.ROUTES)
def test_every_route_but_the_root_asks_for_a_token(service: Service, template: str) -> None:
    path = template.replace("{", "").replace("}", "")
    if path in ("", "/"):
        return
    for method in routes.ROUTES[template]:
        assert ask(service, path, method).status_int == 401, (method, path)


under_keystone_alone = pytest.mark.parametrize("service", ["keystone"], indirect=True)
"""Where the token is looked at: ``good``, of a reader of the project ``mine``."""


@under_keystone_alone
@pytest.mark.parametrize("name", [None, *IDENTITY])
def test_a_reader_stays_a_reader(service: Service, name: str | None) -> None:
    """Roles, user, project and scope are the token's, whatever else the request says."""
    claims = IDENTITY if name is None else {name: IDENTITY[name]}
    claims = {"HTTP_X_AUTH_TOKEN": "good", "HTTP_OPENSTACK_API_VERSION": "placement 1.39"} | claims

    assert ask(service, "/resource_providers", **claims).status_int == 403
    assert ask(service, "/traits/CUSTOM_A", "PUT", **claims).status_int == 403
    own = ask(service, "/usages", QUERY_STRING="project_id=mine", **claims)
    other = ask(service, "/usages", QUERY_STRING="project_id=theirs", **claims)
    assert (own.status_int, other.status_int) == (200, 403)


@under_keystone_alone
@pytest.mark.parametrize(
    "token", ["", " ", "good2", "goo", "GOOD", "good,good", "good\0", "../good", "%67ood", "null"]
)
def test_only_the_token_itself_is_good(service: Service, token: str) -> None:
    assert ask(service, "/usages", HTTP_X_AUTH_TOKEN=token).status_int == 401


on_one_server = pytest.mark.xdist_group("server of identities")


@pytest.fixture(scope="module")
def server() -> Iterator[Arena]:
    with arena("sqlite", servers=1) as made:
        yield made


def raw(port: int, head: str) -> bytes:
    """Send bytes to the real server and return what it answers until it hangs up."""
    with socket.create_connection(("127.0.0.1", port), timeout=ENDS_S) as connection:
        connection.sendall(head.encode("latin-1"))
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


@on_one_server
@pytest.mark.parametrize(
    "header",
    [
        "X_Auth_Token: admin",
        "x_auth_token: admin",
        "X-Auth_Token: admin",
        "X-Auth-Token : admin",
        " X-Auth-Token: admin",
        "X-Auth-Token\0: admin",
        "Via: x\r\n X-Auth-Token: admin",
        "X.Auth.Token: admin",
    ],
)
def test_only_the_header_itself_is_the_header(server: Arena, header: str) -> None:
    """A front end may strip ``X-Auth-Token`` and pass another spelling on: here it is none."""
    text = f"GET /resource_providers HTTP/1.1\r\nHost: x\r\n{header}\r\nConnection: close\r\n\r\n"
    status = raw(server.ports[0], text).split(b" ", 2)[1]
    assert status in (b"400", b"401"), status


@on_one_server
@pytest.mark.parametrize(
    "smuggle",
    [
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: 5\r\nContent-Length: 0\r\n\r\n",
        "Content-Length: +0\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
    ],
)
def test_no_second_request_hides_in_the_first(server: Arena, smuggle: str) -> None:
    """What is unclear about where a request ends is refused, or answered once and hung up on."""
    inner = "DELETE /traits/CUSTOM_A HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n"
    inner += "Connection: close\r\n\r\n"
    text = f"POST /resource_providers HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{smuggle}{inner}"
    assert raw(server.ports[0], text).count(b"HTTP/1.1 ") == 1
