"""The author of a write: the request that this thread serves, or the command (specification 07 section 11.1).

The history shows it. Set by the web layer and by commands, and read where a transaction leaves its rows.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Author(NamedTuple):
    """The author of a write; "" for what is unknown or does not exist.

    ``global_request_id``: the one that the client has given. ``user`` and ``project``: of the token.
    ``route``: the template of the path, or what the service or a command does by itself.
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
    """Return the author of what this thread writes."""
    return _current.author


@contextmanager
def acting(author: Author) -> Iterator[None]:
    """Let what this thread writes in the block be of this author."""
    before, _current.author = _current.author, author
    try:
        yield
    finally:
        _current.author = before


@contextmanager
def acting_alone(deed: str) -> Iterator[None]:
    """Let it be of the service itself; the request during which it is done stays named."""
    during = _current.author
    with acting(Author(during.request_id, during.global_request_id, route=deed)):
        yield
