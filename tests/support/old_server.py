"""A server process of the OpenStack service, as far as the emulation goes: writes of allocations.

``python -m tests.support.old_server --port 8778 --database URL`` serves PUT and DELETE of
``/allocations/{consumer}``, and answers 200 to every GET. SIGTERM ends it after the requests that it has.
"""

import argparse
import json
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.old_service import Conflict, OldService, Refused


def handler_of(old: OldService) -> type[BaseHTTPRequestHandler]:
    """Return what answers the requests of one server."""

    class Handler(BaseHTTPRequestHandler):
        """PUT and DELETE of allocations."""

        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(200)

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

        def _answer(self, status: int, text: str = "") -> None:
            self.send_response(status)
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
    options = parser.parse_args()
    old = OldService(options.database)
    server = Server(("127.0.0.1", options.port), handler_of(old))
    # Not from the thread that serves: it would wait for itself.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.05)
    server.server_close()


if __name__ == "__main__":
    main()
