"""Allocations that expire, whose room must then be free for other requests (specification 09 section 5).

No thread watches the time. Each search asks, in a statement that it needs anyway, whether some allocations
have expired, and so does each request that would be refused for the allocations of consumers. If some have,
they are removed, and the search or the request begins again.

The allocations belong to extensions. All installed extensions are asked, also those that are not enabled:
another process can use them.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import ColumnElement, false, or_, select

from placement import installed
from placement.db.statements import CompiledStatement

if TYPE_CHECKING:
    from placement.db.database import Access, Database

LOG = logging.getLogger(__name__)

T = TypeVar("T")

MOST_ROUNDS, MOST_S = 20, 10.0
"""How often, and for how long, a request removes expired allocations and begins again. After that it
continues with what is there, whatever the database answers."""


@dataclass(frozen=True, kw_only=True)
class Expiry:
    """The value ``EXPIRY`` in ``expiry.py`` of an extension whose allocations end at a time.

    :param any_expired: the condition in SQL that some have expired, by the clock of the database.
    :param remove_expired: removes them; returns whether this thread or another one has removed some, or none
        are left.
    :param find_expired: returns the generation of each given consumer whose allocations have expired, by
        uuid.
    :param end_all: lets all consumers keep their allocations for good; returns their uuids.
    """

    any_expired: ColumnElement[bool]
    remove_expired: "Callable[[Database], bool]"
    find_expired: "Callable[[Access, Collection[str]], Mapping[str, int]]"
    end_all: "Callable[[Database], list[str]]"


@cache
def list_expiries() -> tuple[Expiry, ...]:
    """Return the values ``EXPIRY`` of the installed extensions."""
    return tuple(module.EXPIRY for module in installed.find_modules("expiry").values())


@cache
def any_expired() -> ColumnElement[bool]:
    """Return the condition in SQL that some allocations have expired."""
    conditions = [each.any_expired for each in list_expiries()]
    return or_(*conditions) if conditions else false()


@cache
def ask_any_expired() -> CompiledStatement:
    """Return the statement that asks whether some allocations have expired."""
    return CompiledStatement(select(any_expired()))


def remove_expired(db: "Database") -> bool:
    """Remove expired allocations; return whether this thread or another removed some, or none are left.

    Allocations that stay locked, or cannot be removed, stay for the moment.
    """
    removed = [each.remove_expired(db) for each in list_expiries()]
    return any(removed)


def look_without_expired(db: "Database", look: Callable[[], T], any_in: Callable[[T], bool]) -> T:
    """Call ``look``, and again after each removal of expired allocations, as :func:`rounds` allows."""
    for _ in rounds():
        found = look()
        if not (any_in(found) and remove_expired(db)):
            return found
    return look()


def rounds() -> Iterator[None]:
    """Yield as many times as a request can remove expired allocations and begin again."""
    end_s = time.monotonic() + MOST_S
    for _ in range(MOST_ROUNDS):
        yield
        if time.monotonic() >= end_s:
            break
    LOG.warning("Expired allocations are still there after a request has removed some for long")
