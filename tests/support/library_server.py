"""Serve the application with a server that is a library: wsgiref, werkzeug or cheroot.

    python library_server.py <name> <port>

As small as each of them can be: wsgiref and werkzeug serve one request at a time, cheroot two.
"""

import sys
from typing import Any


def serve(name: str, port: int, application: Any) -> None:
    """Serve until the process is ended."""
    if name == "wsgiref":
        from wsgiref.simple_server import make_server

        make_server("127.0.0.1", port, application).serve_forever()
    elif name == "werkzeug":
        from werkzeug.serving import make_server as make_development_server

        make_development_server("127.0.0.1", port, application).serve_forever()
    else:
        from cheroot.wsgi import Server

        Server(("127.0.0.1", port), application, numthreads=2, max=2).start()


if __name__ == "__main__":
    from placement.wsgi.api import application

    serve(sys.argv[1], int(sys.argv[2]), application)
