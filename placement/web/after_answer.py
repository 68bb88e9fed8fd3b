"""The outermost layer: work that a request takes along, once its client has the answer."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from placement.web.request_log import Environ, WSGIApp


def with_work_after(
    application: WSGIApp, is_due: Callable[[], bool], work: Callable[[], object]
) -> WSGIApp:
    """Return ``application`` with ``work`` after answers, whenever it is due.

    :param is_due: asked at each request, so it costs nothing.
    :param work: raises nothing.
    """

    def serve(environ: Environ, start_response: Any) -> Iterable[bytes]:
        answer: Iterable[bytes] = application(environ, start_response)
        return _Answer(answer, work) if is_due() else answer

    return serve


class _Answer:
    """An answer that works when it is closed: a server closes it when the client has all of it (PEP 3333)."""

    def __init__(self, answer: Iterable[bytes], work: Callable[[], object]) -> None:
        self._answer = answer
        self._work = work

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._answer)

    def close(self) -> None:
        """Close the answer, and do the work."""
        try:
            if hasattr(self._answer, "close"):
                self._answer.close()
        finally:
            self._work()
