"""Whether the client of a request has hung up, as far as the HTTP server says.

WSGI has no word for it, so that each server is asked in its own way; mod_wsgi says nothing. Behind a
proxy it is the proxy that hangs up, when its client has.
"""

import select
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

# Linux; where it is missing, a closed connection is seen when it is reset.
CLOSED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR

uwsgi: Any = None
with suppress(ImportError):
    uwsgi = import_module("uwsgi")


def make_detector(environ: dict[str, Any]) -> Callable[[], bool]:
    """Return what tells whether the client has hung up; it says no where the server does not tell.

    A client that closes its sending half and still reads counts as gone. A call costs some 2 us.
    """
    says = environ.get("waitress.client_disconnected")
    if says is not None:
        # waitress knows if it reads ahead of the answer (``channel_request_lookahead``); else it says no.
        return lambda: bool(says())
    number = -1
    if "gunicorn.socket" in environ:
        number = environ["gunicorn.socket"].fileno()
    elif uwsgi is not None:
        # uWSGI's own ``is_connected`` says yes until the connection is reset.
        number = uwsgi.connection_fd()
    if number < 0:
        return lambda: False
    connection = select.poll()
    connection.register(number, CLOSED)
    # Asked in the midst of a search: 0 is not to wait.
    return lambda: bool(connection.poll(0))
