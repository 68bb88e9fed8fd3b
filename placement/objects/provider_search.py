"""Lists of providers (specification 02 section 3.4): from the picture, or one look-up by name or uuid.

The filters are the masks of the search for allocation candidates. Each provider is judged by itself,
though: its tree and sharing providers do not help it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from placement import errors
from placement.db import provider_rows
from placement.db.database import Database
from placement.db.provider_rows import ProviderRow
from placement.objects.picture import Picture
from placement.search import feasible
from placement.search.cloud import Cloud
from placement.search.index_set import Indexes, Mask
from placement.search.request import Names, UnknownClass, UnknownTrait

T = TypeVar("T")
NOBODY: Indexes = np.zeros(0, np.int32)


class UnknownTraitRequired(errors.BadRequest):
    """The filter ``required`` names a trait that does not exist."""

    text = 'Invalid trait(s) in "required" parameter: No such trait(s): {name}.'
    name: str


class UnknownClassRequested(errors.BadRequest):
    """The filter ``resources`` names a class that does not exist."""

    text = "Invalid resource class in resources parameter: No such resource class {name}."
    name: str


@dataclass(frozen=True, slots=True)
class ProviderQuery:
    """Which providers to list; every filter that is given must hold for the provider itself.

    ``required`` and ``member_of`` are ANDed sets, of each of which one member is enough.
    ``resources``: amount by class name.
    """

    name: str | None = None
    uuid: str | None = None
    in_tree: str | None = None
    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[frozenset[str], ...] = ()
    not_member_of: frozenset[str] = frozenset()
    resources: Mapping[str, int] = field(default_factory=dict)

    @property
    def names(self) -> Names:
        """All names that the query mentions."""
        return Names(self.forbidden.union(*self.required), frozenset(self.resources))

    @property
    def is_look_up(self) -> bool:
        """Tell whether one look-up in an index answers it: name or uuid, and nothing else."""
        return self == ProviderQuery(self.name, self.uuid) and bool(self.name or self.uuid)


def look_up(db: Database, query: ProviderQuery) -> list[ProviderRow]:
    """Return the provider that the query names, if there is one. One statement.

    :param query: one that ``is_look_up``.
    """
    return db.read(lambda reader: provider_rows.find(reader, name=query.name, uuid=query.uuid))


def search(picture: Picture, query: ProviderQuery, show: Callable[[Cloud, Indexes], T]) -> T:
    """Return ``show(cloud, found)`` of the providers found, in the order of their creation.

    ``show`` runs under the lock of the picture and keeps nothing of it. Cost: that of
    :meth:`Picture.read_knowing`.

    :raises UnknownTraitRequired:
    :raises UnknownClassRequested: unless a filter before it matches nothing (section 3.4.1).
    """
    try:
        return picture.read_knowing(
            query.names, lambda cloud, known: show(cloud, _found(cloud, query, known))
        )
    except UnknownTrait as unknown:
        raise UnknownTraitRequired(name=unknown.name) from None
    except UnknownClass as unknown:
        raise UnknownClassRequested(name=unknown.name) from None


class _NobodyPasses(Exception):
    """A filter that finds no provider at all hides the mistakes in those behind it."""


def _found(cloud: Cloud, query: ProviderQuery, known: Names) -> Indexes:
    try:
        found = np.flatnonzero(_passed(cloud, query, known))
    except _NobodyPasses:
        return NOBODY
    if query.uuid is not None:
        found = found[found == cloud.index_of_uuid.get(query.uuid, -1)]
    if query.name:
        named = [index for index in found.tolist() if cloud.names[index] == query.name]
        found = np.array(named, np.int64)
    return found[np.argsort(cloud.ids[found])]


def _passed(cloud: Cloud, query: ProviderQuery, known: Names) -> Mask:
    """Run the filters in the order of specification 02 section 3.4.1."""
    passed: Mask = cloud.ids >= 0
    if query.in_tree is not None:
        passed &= _somebody(feasible.in_tree(cloud, query.in_tree))
    for names in query.required:
        feasible.check_traits(cloud, known, names)
        passed &= _somebody(feasible.has_any(cloud, names))
    feasible.check_traits(cloud, known, query.forbidden)
    passed &= ~feasible.has_any(cloud, query.forbidden)
    for uuids in query.member_of:
        passed &= _somebody(feasible.in_any(cloud, uuids))
    passed &= ~feasible.in_any(cloud, query.not_member_of)
    feasible.check_classes(cloud, known, sorted(query.resources))
    for name, amount in query.resources.items():
        passed &= feasible.fits(cloud, name, amount)
    return passed


def _somebody(mask: Mask | None) -> Mask:
    if mask is None or not mask.any():
        raise _NobodyPasses
    return mask
