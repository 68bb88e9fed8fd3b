"""Work that a request takes along, once its client has the answer."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from oslo_context.context import RequestContext, get_current

from placement import authorship
from placement.authorship import Author
from placement.web.request_log import Environ, WSGIApp


def with_work_after(
    application: WSGIApp, is_due: Callable[[], bool], work: Callable[[], object], deed: str
) -> WSGIApp:
    """Return ``application`` with ``work`` after answers, whenever it is due.

    :param is_due: asked at each request, so it costs nothing.
    :param work: raises nothing.
    :param deed: what it is, in the history. No log line and no row of it names the request before.
    """
    work_apart = partial(_work_apart, work, deed)

    def serve(environ: Environ, start_response: Any) -> Iterable[bytes]:
        answer: Iterable[bytes] = application(environ, start_response)
        return AnswerThenWork(answer, work_apart) if is_due() else answer

    return serve


def _work_apart(work: Callable[[], object], deed: str) -> None:
    """Do work that no client has asked for, under a request id of its own and without a user."""
    before = get_current()
    # oslo.log takes ids and user of log lines from the context that the thread has made last.
    own = RequestContext()
    try:
        with authorship.acting(Author(own.request_id, route=deed)):
            work()
    finally:
        if before is not None:
            before.update_store()


class AnswerThenWork:
    """An answer after which work is done: a server closes it when the client has all of it (PEP 3333)."""

    def __init__(self, pieces: Iterable[bytes], work: Callable[[], object]) -> None:
        self._pieces = pieces
        self._work = work

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        # uWSGI sends headers with the first piece, or not before it has closed the answer.
        yield b""

    def close(self) -> None:
        """Close the answer, and do the work."""
        # The server calls close of this object only; WSGI promises it to the answer inside too.
        try:
            if hasattr(self._pieces, "close"):
                self._pieces.close()
        finally:
            self._work()
