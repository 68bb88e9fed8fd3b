"""Existing names that resemble an unknown name (specification 01 section 9.2)."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from placement.db.database import Database
from placement.errors import BadRequest
from placement.objects import resource_class, trait

MOST = 3
"""The longest list of names."""

SIMILAR = 0.75
"""The least similarity of two names, by difflib's ratio."""

MOST_COMPARED = 5_000
"""The number of names that are compared: the first ones, which are the standard ones. A name takes a few
microseconds.
"""


def find_near(name: str, existing: Iterable[str]) -> list[str]:
    """Return the names that resemble a name, the most similar one first."""
    return difflib.get_close_matches(name, islice(existing, MOST_COMPARED), MOST, SIMILAR)


def add_near_names(refused: BadRequest, db: Database) -> None:
    """Add similar names to an error about an unknown trait or class."""
    list_names = _LISTS.get(refused.reason)
    if list_names is not None:
        # An error can name several unknown names.
        first = str(refused.details.get("field", "")).partition(", ")[0]
        vars(refused)["near"] = find_near(first.upper(), list_names(db))


_LISTS: Mapping[str, Callable[[Database], Iterable[str]]] = {
    "unknown_trait": trait.list_names,
    "unknown_resource_class": lambda db: (each.name for each in resource_class.every(db)),
}
