"""Work after an answer: where it stands in the order of what a server does."""

from collections.abc import Iterator
from typing import Any

from oslo_context.context import RequestContext, get_current

from placement import authorship
from placement.authorship import Author
from placement.web.after_answer import with_work_after


class Pieces:
    """The answer of an application, which notes when it is closed."""

    def __init__(self, done: list[str], *pieces: bytes) -> None:
        self._done = done
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)

    def close(self) -> None:
        self._done.append("closed")


def answer_of(done: list[str], *pieces: bytes) -> Any:
    application = with_work_after(
        lambda environ, start_response: Pieces(done, *pieces),
        lambda: True,
        lambda: done.append("worked"),
        "work",
    )
    return application({}, None)


def test_work_comes_after_the_answer_inside_is_closed() -> None:
    done: list[str] = []
    answer = answer_of(done, b"a", b"b")

    assert b"".join(answer) == b"ab"
    assert done == []
    answer.close()

    assert done == ["closed", "worked"]


def test_an_empty_answer_has_a_piece_too() -> None:
    """Headers leave uWSGI with the first piece, or after the work."""
    assert list(answer_of([])) == [b""]


def test_work_is_of_nobody_and_leaves_the_thread_as_it_was() -> None:
    of_request = RequestContext(user_id="ann")
    seen: list[tuple[RequestContext, Author]] = []
    application = with_work_after(
        lambda environ, start_response: [],
        lambda: True,
        lambda: seen.append((get_current(), authorship.current())),
        "work",
    )

    application({}, None).close()  # type: ignore[attr-defined]

    ((context, author),) = seen
    assert (author.request_id, author.route, author.user) == (context.request_id, "work", "")
    assert context.request_id != of_request.request_id
    assert context.user_id is None
    assert get_current() is of_request
