"""The author of a write: the request that this thread serves, or the command (specification 07 section 11.1).

The history shows the author. The web layer and the commands set it; a transaction reads it when it writes its
rows.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Author(NamedTuple):
    """The author of a write; an empty text stands for what is unknown or does not exist.

    ``global_request_id``: the id that the client sent. ``user`` and ``project``: the ids in the token.
    ``route``: the template of the path, or the name of what the service or a command does by itself.
    """

    request_id: str = ""
    global_request_id: str | None = None
    user: str = ""
    project: str = ""
    method: str = ""
    route: str = ""


class _OfThread(threading.local):
    author = Author()


_current = _OfThread()


def current() -> Author:
    """Return the author of the writes of this thread."""
    return _current.author


@contextmanager
def acting(author: Author) -> Iterator[None]:
    """Name this author for all writes of this thread in the block."""
    before, _current.author = _current.author, author
    try:
        yield
    finally:
        _current.author = before


@contextmanager
def acting_alone(deed: str) -> Iterator[None]:
    """Name the service as the author in the block; the request during which it writes stays named."""
    during = _current.author
    with acting(Author(during.request_id, during.global_request_id, route=deed)):
        yield
