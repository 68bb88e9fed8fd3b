"""Work that a request does after its client has the answer."""

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
    """Return ``application`` with ``work`` after answers, whenever that is due.

    :param is_due: called at each request, so it must cost nothing.
    :param work: must not raise.
    :param deed: the name of the work in the history; its log lines and rows do not name the request.
    """
    work_apart = partial(_work_apart, work, deed)

    def serve(environ: Environ, start_response: Any) -> Iterable[bytes]:
        answer: Iterable[bytes] = application(environ, start_response)
        return AnswerThenWork(answer, work_apart) if is_due() else answer

    return serve


def _work_apart(work: Callable[[], object], deed: str) -> None:
    """Do work that no client has requested, with its own request id and without a user."""
    before = get_current()
    # oslo.log takes ids and user of log lines from the last context of the thread.
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
        # uWSGI sends headers with the first piece, or not until it has closed the answer.
        yield b""

    def close(self) -> None:
        """Close the answer, and do the work."""
        # The server only calls close of this object; WSGI promises a close to the inner answer too.
        try:
            if hasattr(self._pieces, "close"):
                self._pieces.close()
        finally:
            self._work()
