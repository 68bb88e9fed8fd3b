"""Work after an answer: where it stands in the order of what a server does."""

from collections.abc import Iterator
from typing import Any

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
