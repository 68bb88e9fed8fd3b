"""The unread rest of a body after the answer, outside all layers (specification 01 section 7.5).

Three servers do not handle it: uWSGI, gunicorn and cheroot. Under these the rest is read after the answer,
within bounds.
"""

import errno
import os
import select
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic
from typing import Any

from placement.web.after_answer import AnswerThenWork
from placement.web.request_log import Environ, WSGIApp

SILENCE_S = 1.0
"""How long the rest of a body may pause."""

LONGEST_S = 10.0
"""How long the rest of a body may take."""

PIECE = 64 * 1024
LONGEST_LENGTH = 18
"""The most digits of a Content-Length that is read."""


class _Body:
    """The input of a request.

    ``left``: the number of bytes not yet read. ``broken``: whether reading has failed.
    """

    def __init__(self, stream: Any, length: int) -> None:
        self._stream = stream
        self.left = length
        self.broken = False

    def read(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes; the rest if it is negative."""
        try:
            data: bytes = self._stream.read(size)
        except BaseException:
            # The next bytes on this connection are undefined, so the rest is not read.
            self.broken = True
            raise
        # Fewer bytes than requested are the last ones, by the rules of WSGI.
        ended = size < 0 or len(data) < size
        self.left = 0 if ended else self.left - len(data)
        return data


Discard = Callable[[Environ, _Body, int], None]


def with_rest_read(application: WSGIApp, most: int) -> WSGIApp:
    """Return ``application``, after whose answers up to ``most`` unread bytes of the body are read."""

    def respond(environ: Environ, start_response: Any) -> Iterable[bytes]:
        announced = _find_discard(environ)
        if announced is None:
            return application(environ, start_response)
        length, discard = announced
        body = environ["wsgi.input"] = _Body(environ["wsgi.input"], length)
        answer = application(environ, start_response)
        if not body.left:
            return answer
        return AnswerThenWork(answer, lambda: discard(environ, body, most))

    return respond


def _find_discard(environ: Environ) -> tuple[int, Discard] | None:
    """Return the length of the body and the function that discards it; None if the server does that."""
    text = environ.get("CONTENT_LENGTH")
    if not text:
        in_chunks = environ.get("wsgi.input_terminated")
        # cheroot would read the rest of a chunked body as the next request.
        if in_chunks and type(environ["wsgi.input"]).__module__ == "cheroot.server":
            return sys.maxsize, _discard_under_cheroot
        return None
    # The text must have only digits, and few: int() also accepts "+1" and "1_0", and raises for thousands of
    # digits.
    length = int(text) if text.isdecimal() and len(text) <= LONGEST_LENGTH else 0
    # uWSGI would close the connection, and Apache, still sending, would answer 503 instead.
    if length and "uwsgi.version" in environ:
        return length, _discard_under_uwsgi
    # gunicorn reads 64 KiB before it closes; for a larger rest nginx would answer 502.
    if length > PIECE and "gunicorn.socket" in environ:
        return length, _discard_under_gunicorn
    return None


def _discard_under_uwsgi(_: Environ, body: _Body, most: int) -> None:
    if not body.broken:
        _discard_what_arrives(sys.modules["uwsgi"].connection_fd(), min(body.left, most))


def _discard_under_gunicorn(environ: Environ, body: _Body, most: int) -> None:
    """Discard the rest without gunicorn's parser; raise the error at which it closes silently."""
    # A connection of HTTP/2 carries several bodies.
    if not body.broken and environ["SERVER_PROTOCOL"].startswith("HTTP/1"):
        _discard_what_arrives(environ["gunicorn.socket"].fileno(), min(body.left, most))
        raise ConnectionResetError(errno.ECONNRESET, "the request body was not read")


def _discard_what_arrives(connection: int, left: int) -> None:
    """Read from a connection that ends afterwards. Less can arrive, since the server has read a part."""
    deadline = monotonic() + LONGEST_S
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    with suppress(OSError):
        while left > 0 and monotonic() < deadline and poll.poll(SILENCE_S * 1000):
            data = os.read(connection, PIECE)
            if not data:
                return
            left -= len(data)


def _discard_under_cheroot(_: Environ, body: _Body, most: int) -> None:
    """Read to the end, or raise the error at which cheroot closes the connection silently."""
    deadline = monotonic() + LONGEST_S
    with suppress(Exception):
        while body.left and not body.broken and most > 0 and monotonic() < deadline:
            most -= len(body.read(PIECE))
    if body.left:
        raise ConnectionResetError(errno.ECONNRESET, "the request body was not read")
