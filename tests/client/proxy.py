"""A real HTTP proxy that fails on demand, between the client and the service."""

import http.client
import re
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit


@dataclass
class Fault:
    """What happens to requests of a method whose path has ``part``: both are regular expressions.

    ``kind``: answer with ``status``, ``refuse`` the request, or ``lose`` its answer. ``after``: so many such
    requests, to which nothing happens.
    """

    method: str
    part: str
    kind: str
    status: int = 0
    body: bytes = b"<html>gateway trouble</html>"
    times: int = 1
    after: int = 0


class FaultyProxy:
    """Forwards to the service, except for the faults it was told.

    Like any other Placement service it has the compatible API and nothing beside it.
    """

    def __init__(self, url: str) -> None:
        self.target = urlsplit(url).netloc
        self.faults: list[Fault] = []

    def fail(self, method: str, part: str, kind: str, **more: Any) -> Fault:
        """Let requests fail from now on; ``more`` are the other fields of Fault."""
        self.faults.append(Fault(method, part, kind, **more))
        return self.faults[-1]

    def take_fault(self, method: str, path: str) -> Fault | None:
        """Return the fault for a request, which is one time fewer from then on."""
        for fault in self.faults:
            if not (fault.times and re.match(fault.method, method) and re.search(fault.part, path)):
                continue
            if not fault.after:
                fault.times -= 1
                return fault
            fault.after -= 1
        return None

    def __enter__(self) -> Self:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"  # every connection ends after its request

            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                if self.path.startswith("/-/"):
                    self._answer(404, {}, b"{}")
                    return
                fault = proxy.take_fault(self.command, self.path)
                if fault and fault.kind == "refuse":
                    return
                if fault and fault.kind == "status":
                    self._answer(fault.status, {"Content-Type": "text/html"}, fault.body)
                    return
                status, headers, answer = self._forward(body)
                if not fault:
                    self._answer(status, headers, answer)

            do_GET = do_PUT = do_POST = do_DELETE = _serve

            def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
                there = http.client.HTTPConnection(proxy.target)
                there.request(self.command, self.path, body, dict(self.headers))
                response = there.getresponse()
                answer = response.read()
                there.close()
                return response.status, dict(response.getheaders()), answer

            def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                        self.send_header(name, value)
                if status != 204:
                    self.send_header("Content-Length", str(len(body)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
