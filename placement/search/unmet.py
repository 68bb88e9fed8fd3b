"""Conditions of a request that no provider of a cloud meets, even if empty: then nothing else matters.

Such a condition can be looked up in the database, which costs less than finding all changes when every
provider has to be compared.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from placement.inventory_record import InventoryRecord
from placement.search.cloud import Cloud
from placement.search.columns import LARGEST_AMOUNT
from placement.search.filters import AGGREGATE, FILTERS, ROOT_FILTERS, TRAIT, Filter, conditions
from placement.search.request import CandidateRequest


class UnmetCondition(NamedTuple):
    """A condition of a request: at most one of the three is set.

    ``traits``, ``aggregates``: a provider needs one of them; ``amount``: a provider needs this amount of the
    class.
    """

    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    amount: tuple[str, int] | None = None


def find_unmet(cloud: Cloud, request: CandidateRequest) -> UnmetCondition | None:
    """Return a condition that no provider meets, so that there is no candidate; None if each is met."""
    wanted: list[tuple[Filter[Any], frozenset[str]]] = [*conditions(ROOT_FILTERS, request)]
    for group in request.groups:
        wanted += conditions(FILTERS, group)
    for condition, names in wanted:
        if condition.wanted and not condition.test(cloud, names).any():
            if condition.attribute is TRAIT:
                return UnmetCondition(traits=names)
            if condition.attribute is AGGREGATE:
                return UnmetCondition(aggregates=names)
    for group in request.groups:
        for name, amount in group.amounts.items():
            if not _is_held(cloud, name, amount):
                return UnmetCondition(amount=(name, amount))
    return None


def _is_held(cloud: Cloud, name: str, amount: int) -> bool:
    """Return whether any inventory of the class is at least this large."""
    column = cloud.classes.get(name)
    if column is None or amount > LARGEST_AMOUNT:
        return False
    if (column.room >= amount).any():
        return True
    # Usage reduces the room, so the inventories themselves are compared.
    inventories = (held for of_one in cloud.inventories for held in of_one if held[0] == name)
    return any(
        capacity >= amount and InventoryRecord._make(terms).max_unit >= amount
        for _, capacity, _, terms in inventories
    )
