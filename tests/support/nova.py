"""A stand-in for Nova: the routes that are asked, with Nova's pages, filters and microversions.

Of actions it carries out moves, at once, where Nova allows them in the state of the server.
"""

import contextlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

PAGE = 3
"""Servers, and migrations, that one answer has."""

HEAD = {"id": "v2.1", "status": "CURRENT", "version": "2.96", "min_version": "2.1"}


ATTRIBUTE = "OS-EXT-SRV-ATTR"

ACTIONS: dict[str, tuple[tuple[str, ...], str | None]] = {
    "os-migrateLive": (("ACTIVE", "PAUSED"), None),
    "migrate": (("ACTIVE", "SHUTOFF"), "VERIFY_RESIZE"),
    "confirmResize": (("VERIFY_RESIZE",), "SHUTOFF"),
    "unshelve": (("SHELVED",), "ACTIVE"),
    "shelve": (("ACTIVE",), "SHELVED"),
}
"""By action: the states of servers that it takes, and the one that it leaves; None for the same."""


class StandIn:
    """What Nova knows; a test may change it at any time.

    ``when_asked``: called with the path and the query of each request, before it is answered.
    ``refused``: the end of the paths that are answered with a 403. ``hosts``: the host's name of a hypervisor
    by its uuid; a server's node has the name in ``nodes``. ``when_moved``: called with a server and the uuid
    of the hypervisor to which it has moved, or None if it is gone. ``when_acted``: called with a server
    after an action was carried out. ``actions``: what was asked for.
    """

    def __init__(self) -> None:
        self.servers: list[dict[str, Any]] = []
        self.migrations: list[dict[str, Any]] = []
        self.when_asked: Callable[[str, dict[str, str]], None] = lambda path, query: None
        self.refused: tuple[str, ...] = ()
        self.hosts: dict[str, str] = {}
        self.nodes: dict[str, str] = {}
        self.when_moved: Callable[[str, str | None], None] = lambda server, node: None
        self.when_acted: Callable[[dict[str, Any]], None] = lambda server: None
        self.actions: list[tuple[str, str, Any]] = []
        self.refused_actions: set[str] = set()
        """Of these servers every action is answered with a 400."""
        self.refused_hosts: set[str] = set()
        """A move to one of these hosts is answered with a 400."""
        self.failing_hosts: set[str] = set()
        """A move to one of these hosts is taken, and the server stays where it was."""
        self.url = ""

    def answer(self, path: str, query: dict[str, str], minor: int) -> dict[str, Any] | None:
        """Return the body of the answer to a GET, None for 404."""
        self.when_asked(path, query)
        if path in ("/", "/v2.1", "/v2.1/"):
            return {"version": {**HEAD, "links": [{"rel": "self", "href": f"{self.url}/"}]}}
        if path == "/v2.1/servers/detail":
            # Deleted servers that can be restored are listed by their status alone.
            wanted = query.get("status")
            servers = [
                server
                for server in self.servers
                if (server["status"] == wanted if wanted else server["status"] != "SOFT_DELETED")
                and query.get("uuid") in (None, server["id"])
                and query.get("all_tenants")
            ]
            return self._page("servers", "/servers/detail", servers, query, "id")
        if path == "/v2.1/os-migrations":
            of = query.get("instance_uuid")
            found = [each for each in self.migrations if of in (None, each["instance_uuid"])]
            if minor >= 59:
                return self._page("migrations", "/os-migrations", found, query, "uuid")
            later = {"uuid"} | ({"migration_type"} if minor < 23 else set())
            return {"migrations": [{k: v for k, v in m.items() if k not in later} for m in found]}
        node = path.removeprefix("/v2.1/os-hypervisors/")
        if node in self.hosts:
            return {"hypervisor": {"id": node, "service": {"host": self.hosts[node]}}}
        for server in self.servers:
            if path == f"/v2.1/servers/{server['id']}":
                return {"server": server}
        return None

    def act(self, path: str, body: dict[str, Any]) -> int:
        """Carry out an action of a server; return the status of the answer."""
        (action, argument), (uuid, _) = *body.items(), path.split("/")[3:5]
        server = next((each for each in self.servers if each["id"] == uuid), None)
        if server is None:
            return 404
        self.actions.append((uuid, action, argument))
        to = argument["host"] if isinstance(argument, dict) else None
        if uuid in self.refused_actions or to in self.refused_hosts:
            return 400
        allowed, becomes = ACTIONS[action]
        if server["status"] not in allowed:
            return 409
        server["status"] = becomes or server["status"]
        if to is not None and to not in self.failing_hosts:
            (node,) = (node for node, host in self.hosts.items() if host == to)
            server[f"{ATTRIBUTE}:host"] = to
            server[f"{ATTRIBUTE}:hypervisor_hostname"] = self.nodes[node]
            self.when_moved(uuid, node)
        self.when_acted(server)
        return 202

    def delete(self, path: str) -> int:
        """Delete a server; return the status of the answer."""
        uuid = path.rpartition("/")[2]
        self.servers[:] = [each for each in self.servers if each["id"] != uuid]
        self.when_moved(uuid, None)
        return 204

    def _page(
        self, key: str, path: str, found: Sequence[Any], query: dict[str, str], marker: str
    ) -> dict[str, Any]:
        passed = [each[marker] for each in found].index(query["marker"]) + 1 if "marker" in query else 0
        body: dict[str, Any] = {key: found[passed : passed + PAGE]}
        if passed + PAGE < len(found):
            more = urlencode({**query, "marker": body[key][-1][marker]})
            body[f"{key}_links"] = [{"rel": "next", "href": f"{self.url}{path}?{more}"}]
        return body


@contextlib.contextmanager
def nova() -> Iterator[StandIn]:
    """Serve a stand-in under its ``url``."""
    stand_in = StandIn()

    class Answers(http.server.BaseHTTPRequestHandler):
        def handle(self) -> None:
            # A client that was killed takes no answer.
            with contextlib.suppress(ConnectionError):
                super().handle()

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(asked.query).items()}
            version = self.headers.get("X-OpenStack-Nova-API-Version", "2.1")
            body = stand_in.answer(asked.path, query, int(version.partition(".")[2]))
            status = 404 if body is None else 200
            if asked.path.endswith(stand_in.refused or ("-",)):
                status, body = 403, {"forbidden": {"code": 403, "message": "Policy does not allow it"}}
            text = json.dumps(body or {"itemNotFound": {"code": 404}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            self._end(stand_in.act(self.path, json.loads(self.rfile.read(length))))

        def do_DELETE(self) -> None:
            self._end(stand_in.delete(self.path))

        def _end(self, status: int) -> None:
            text = b"" if status < 300 else b'{"badRequest": {"message": "No valid host was found."}}'
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        stand_in.url = f"http://127.0.0.1:{server.server_address[1]}/v2.1"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield stand_in
        finally:
            server.shutdown()
            thread.join()


def clouds(url: str) -> str:
    """Return a ``clouds.yaml``: ``mycloud`` has Nova under the URL, and no Keystone."""
    mycloud = {"auth_type": "none", "auth": {"endpoint": url}, "compute_endpoint_override": url}
    return json.dumps({"clouds": {"mycloud": mycloud}})


def variables(url: str) -> dict[str, str]:
    """Return what the environment says of Nova under the URL, without a Keystone."""
    return {"OS_AUTH_TYPE": "none", "OS_ENDPOINT": url}
