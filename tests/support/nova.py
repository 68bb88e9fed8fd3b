"""A stand-in for Nova: the routes that the audit asks, with Nova's pages, filters and microversions."""

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


class StandIn:
    """What Nova knows; a test may change it at any time.

    ``when_asked``: called with the path and the query of each request, before it is answered.
    ``refused``: the end of the paths that are answered with a 403.
    """

    def __init__(self) -> None:
        self.servers: list[dict[str, Any]] = []
        self.migrations: list[dict[str, Any]] = []
        self.when_asked: Callable[[str, dict[str, str]], None] = lambda path, query: None
        self.refused: tuple[str, ...] = ()
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
        for server in self.servers:
            if path == f"/v2.1/servers/{server['id']}":
                return {"server": server}
        return None

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
