"""Existing names that resemble an unknown name (specification 01 section 9.2)."""

import difflib
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping

from placement.db.database import Database
from placement.errors import BadRequest
from placement.objects import resource_class, trait

MOST = 3
"""The longest list of names."""

SIMILAR = 0.75
"""The least similarity of two names, by difflib's ratio."""

LENGTHS = SIMILAR / (2 - SIMILAR)
"""The shortest name that can agree so much, as a share of the longer one's length."""

MOST_COMPARED = 500
"""Names that are compared. One takes some microseconds, and a hundred if two letters fill both names."""

NEIGHBOURS = 50
"""Of more names: how many are compared on each side, in the order of beginnings and in that of ends."""

MOST_UNKNOWN = 10
"""The number of unknown names of one error that are compared."""


def find_near(name: str, existing: Iterable[str]) -> list[str]:
    """Return the names that resemble a name, the most similar one first.

    Of many names, those are compared that begin or end like the name: a typing error leaves one of both ends
    as it is. So the search in 20,000 names takes some milliseconds, not a second.
    """
    shortest, longest = len(name) * LENGTHS, len(name) / LENGTHS
    compared = [each for each in existing if shortest <= len(each) <= longest]
    if len(compared) > MOST_COMPARED:
        beginnings = _take_neighbours(name, compared)
        ends = _take_neighbours(name[::-1], [each[::-1] for each in compared])
        # In an order of its own, so that names that are as similar are always the same ones.
        compared = sorted({*beginnings, *(each[::-1] for each in ends)})
    return difflib.get_close_matches(name, compared, MOST, SIMILAR)


def _take_neighbours(name: str, existing: list[str]) -> list[str]:
    existing.sort()
    at = bisect(existing, name)
    return existing[max(0, at - NEIGHBOURS) : at + NEIGHBOURS]


def add_near_names(refused: BadRequest, db: Database) -> None:
    """Add similar names to an error about an unknown trait or class."""
    list_names = _LISTS.get(refused.reason)
    if list_names is None:
        return
    # An error may name several, each of them unknown, and the path of one in the body.
    unknown = str(refused.details.get("field", "")).rpartition("/")[2].upper().split(", ")
    existing = list(list_names(db))
    found = (find_near(each, existing) for each in unknown[:MOST_UNKNOWN])
    vars(refused)["near"] = next(filter(None, found), [])


_LISTS: Mapping[str, Callable[[Database], Iterable[str]]] = {
    "unknown_trait": trait.list_names,
    "unknown_resource_class": lambda db: (each.name for each in resource_class.every(db)),
}
