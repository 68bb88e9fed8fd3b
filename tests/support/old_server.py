"""A server process of the OpenStack service, as far as the emulation goes: writes of allocations.

``python -m tests.support.old_server --port 8778 --database URL`` serves PUT and DELETE of
``/allocations/{consumer}``. The emulation does not read: a GET is 200 without a body, or, with
``--answers URL``, what that service answers. SIGTERM ends it after the requests that it has.
"""

import argparse
import json
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.old_service import Conflict, OldService, Refused
from tests.support.processes import ENDS_S

PASSED_ON = ("Accept", "OpenStack-API-Version", "X-Auth-Token")
PASSED_BACK = ("Content-Type", "Last-Modified", "OpenStack-API-Version")


def ask(url: str, headers: Message) -> tuple[int, str, dict[str, str]]:
    """Ask another service; return status, text and headers of its answer, 503 if there is none."""
    passed_on = {name: headers[name] for name in PASSED_ON if name in headers}
    found: Any
    try:
        found = urllib.request.urlopen(urllib.request.Request(url, headers=passed_on), timeout=ENDS_S)
    except urllib.error.HTTPError as refusal:
        found = refusal
    except OSError:
        return 503, "", {}
    with found:
        passed_back = {name: found.headers[name] for name in PASSED_BACK if name in found.headers}
        return found.status, found.read().decode(), passed_back


def handler_of(old: OldService, answers: str) -> type[BaseHTTPRequestHandler]:
    """Return what answers the requests of one server.

    :param answers: the URL of a service that reads in its place; empty if none does.
    """

    class Handler(BaseHTTPRequestHandler):
        """PUT and DELETE of allocations."""

        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if not answers:
                self._answer(200)
                return
            self._answer(*ask(answers + self.path, self.headers))

        def do_PUT(self) -> None:
            body: Any = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            held = {uuid: one["resources"] for uuid, one in body["allocations"].items()}
            consumer = self.path.rpartition("/")[2]
            self._try(lambda: old.claim(consumer, held, body["project_id"], body["user_id"]))

        def do_DELETE(self) -> None:
            self._try(lambda: old.release(self.path.rpartition("/")[2]))

        def _try(self, work: Any) -> None:
            try:
                work()
            except (Refused, Conflict):
                self._answer(409)
            except Exception as failure:
                self._answer(500, repr(failure))
            else:
                self._answer(204)

        def _answer(
            self, status: int, text: str = "", headers: Mapping[str, str] | None = None
        ) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            if status != 204:
                self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            """Keep quiet."""

    return Handler


class Server(ThreadingHTTPServer):
    """Ends only after the threads that answer have."""

    daemon_threads = False
    block_on_close = True


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument(
        "--answers", default="", help="URL of a service that answers the GET requests"
    )
    options = parser.parse_args()
    old = OldService(options.database)
    server = Server(("127.0.0.1", options.port), handler_of(old, options.answers))
    # Not from the thread that serves: it would wait for itself.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.05)
    server.server_close()


if __name__ == "__main__":
    main()
