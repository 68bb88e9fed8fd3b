"""Lists of providers (specification 02 section 3.4): from the picture, or one look-up by name or uuid.

The filters are those of the search for candidates, but each provider is judged without its tree and without
sharing providers.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from placement.db import provider_rows
from placement.db.database import Database
from placement.db.provider_rows import ProviderRow
from placement.objects.allocation_candidate import refuse_unknown_names
from placement.objects.picture import Picture
from placement.search import filters
from placement.search.cloud import Cloud
from placement.search.feasible import check_classes, check_traits
from placement.search.filters import AGGREGATE, TRAIT, has_any
from placement.search.index_set import Indexes, Mask
from placement.search.request import NameSets

T = TypeVar("T")
NONE_FOUND: Indexes = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class ProviderQuery:
    """The providers to list; every filter must hold. ``resources``: amount by class name.

    ``required`` and ``member_of`` are ANDed sets; one member of each set is enough.
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
    def names(self) -> NameSets:
        """All names that the query mentions."""
        return NameSets(self.forbidden.union(*self.required), frozenset(self.resources))

    @property
    def is_look_up(self) -> bool:
        """Return whether one index look-up answers the query, which has only a name or uuid."""
        return self == ProviderQuery(self.name, self.uuid) and bool(self.name or self.uuid)


def look_up(db: Database, query: ProviderQuery) -> list[ProviderRow]:
    """Return the provider that the query names, if it exists. One statement.

    :param query: a query that ``is_look_up``.
    """
    return db.read(lambda reader: provider_rows.find(reader, name=query.name, uuid=query.uuid))


def search(picture: Picture, query: ProviderQuery, show: Callable[[Cloud, Indexes], T]) -> T:
    """Return ``show(cloud, found)`` of the providers found, in the order of their creation.

    ``show`` must not keep any part of the cloud. The cost is that of :meth:`Picture.look`.

    :raises UnknownNameInQuery:

    a name is unknown, and no earlier filter matches nothing (section 3.4.1).
    """
    with refuse_unknown_names("required"), picture.look(query.names) as look:
        cloud = look.cloud
        found: Indexes = NONE_FOUND
        with suppress(_NonePasses):
            found = np.flatnonzero(_filter(cloud, query, look.known))
        if query.uuid is not None:
            found = found[found == cloud.index_of_uuid.get(query.uuid, -1)]
        if query.name:
            named = [index for index in found.tolist() if cloud.names[index] == query.name]
            found = np.array(named, np.int64)
        return show(cloud, found[np.argsort(cloud.ids[found])])


class _NonePasses(Exception):
    """A filter found no provider; the mistakes in later filters stay hidden."""


def _filter(cloud: Cloud, query: ProviderQuery, known: NameSets) -> Mask:
    """Run the filters in the order of specification 02 section 3.4.1."""
    passed: Mask = cloud.ids >= 0
    if query.in_tree is not None:
        passed &= _require_any(filters.in_tree(cloud, query.in_tree))
    for names in query.required:
        check_traits(cloud, known, names)
        passed &= _require_any(has_any(cloud, names, TRAIT))
    check_traits(cloud, known, query.forbidden)
    passed &= ~has_any(cloud, query.forbidden, TRAIT)
    for uuids in query.member_of:
        passed &= _require_any(has_any(cloud, uuids, AGGREGATE))
    passed &= ~has_any(cloud, query.not_member_of, AGGREGATE)
    check_classes(cloud, known, sorted(query.resources))
    for name, amount in query.resources.items():
        passed &= filters.fits(cloud, name, amount)
    return passed


def _require_any(mask: Mask) -> Mask:
    if not mask.any():
        raise _NonePasses
    return mask
