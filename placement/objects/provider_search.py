"""Who could take this much now: the list of providers with ``resources`` (contract 02 section 3.4).

That is a search, as is a list with very many traits or aggregates, and is answered from the picture
that the process keeps for the search for allocation candidates. Each provider is judged by itself,
though: its tree and sharing providers do not help it.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from placement import errors
from placement.db import class_rows, trait_rows
from placement.db.api import Database, Transaction
from placement.objects import cloud as cloud_in_memory
from placement.objects.resource_provider import (
    MatchesNothing,
    ProviderQuery,
    UnknownClassRequested,
    UnknownTraitRequired,
)
from placement.search import feasible
from placement.search.cloud import Cloud
from placement.search.index_set import Indexes, Mask

T = TypeVar("T")
NOBODY: Indexes = np.zeros(0, np.int32)


def search(db: Database, query: ProviderQuery, show: Callable[[Cloud, Indexes], T]) -> T:
    """Return ``show(cloud, found)`` of the providers found, in the order of their creation.

    ``show`` runs under the lock of the cloud and keeps nothing of it. Cost: that of
    :meth:`cloud.LivingCloud.search`, and one statement more for each filter that names traits or
    classes which no provider has.

    :param query: one that ``is_search``.
    :raises UnknownTraitRequired:
    :raises UnknownClassRequested: unless a filter before it matches nothing (section 3.4.1).
    """
    return cloud_in_memory.search(db, lambda cloud: show(cloud, _found(db, cloud, query)))


def _found(db: Database, cloud: Cloud, query: ProviderQuery) -> Indexes:
    try:
        found = np.flatnonzero(_passed(db, cloud, query))
    except MatchesNothing:
        return NOBODY
    if query.uuid is not None:
        found = found[found == cloud.index_of_uuid.get(query.uuid, -1)]
    if query.name:
        named = [index for index in found.tolist() if cloud.names[index] == query.name]
        found = np.array(named, np.int64)
    return found[np.argsort(cloud.ids[found])]


def _passed(db: Database, cloud: Cloud, query: ProviderQuery) -> Mask:
    """Run the filters in the order of contract 02 section 3.4.1."""
    passed: Mask = cloud.ids >= 0
    if query.in_tree is not None:
        passed &= _somebody(feasible.in_tree(cloud, query.in_tree))
    for names in query.required:
        _check_traits(db, cloud, names)
        passed &= _somebody(feasible.has_traits(cloud, [names]))
    _check_traits(db, cloud, query.forbidden)
    passed &= feasible.lacks_traits(cloud, query.forbidden)
    for uuids in query.member_of:
        passed &= _somebody(feasible.in_aggregates(cloud, [uuids]))
    passed &= feasible.outside_aggregates(cloud, query.not_member_of)
    _check_classes(db, cloud, query.resources)
    for name, amount in query.resources.items():
        passed &= feasible.fits(cloud, name, amount)
    return passed


def _somebody(mask: Mask | None) -> Mask:
    if mask is None or not mask.any():
        raise MatchesNothing
    return mask


def _check_traits(db: Database, cloud: Cloud, names: Iterable[str]) -> None:
    unseen = {name for name in names if not cloud.has_trait(name)}
    _check(db, unseen, trait_rows.ids, UnknownTraitRequired)


def _check_classes(db: Database, cloud: Cloud, names: Iterable[str]) -> None:
    unseen = {name for name in names if not cloud.has_class(name)}
    _check(db, unseen, class_rows.ids, UnknownClassRequested)


def _check(
    db: Database,
    unseen: set[str],
    ids: Callable[[Transaction, set[str]], dict[str, int]],
    error: type[errors.PlacementError],
) -> None:
    """Say which name is unknown, if one is: what no provider has may exist all the same."""
    if unseen:
        unknown = unseen - db.snapshot(lambda tx: ids(tx, unseen)).keys()
        if unknown:
            raise error(name=min(unknown))
