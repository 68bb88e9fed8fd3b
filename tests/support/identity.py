"""An identity service that answers every password alike: with a token, with nonsense, or with a refusal."""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def identity_service(status: int, tokens: bytes) -> Iterator[str]:
    """Serve it; yield its URL.

    :param status: of the answer to whoever asks for a token, like ``tokens``.
    """

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            links = [{"rel": "self", "href": url}]
            version = {"id": "v3.14", "status": "stable", "links": links}
            self.answer(200, json.dumps({"version": version}).encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(status, tokens)

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
