"""A stand-in for Neutron that has no networks, no ports and no extensions; servers have none either."""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit


class _Nothing(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        kind = urlsplit(self.path).path.rstrip("/").rpartition("/")[2].removesuffix(".json")
        text = json.dumps({kind.replace("-", "_"): []}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def no_networks() -> Iterator[str]:
    """Serve it; yield its URL."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Nothing) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
