"""The usage of an inventory: its counter, or the sum of the ledger if the counter may be wrong.

Each allocation moves ``inventories.used`` and ``owner_usages``. Another service that writes to the database
does not move them (:mod:`placement.db.coexistence`). Statements on inventories and providers take their terms
from here and do not know more about this.
"""

from collections.abc import Mapping

from sqlalchemy import BigInteger, ColumnElement, case, cast, func, or_, select, update

from placement.db import models
from placement.db.coexistence.state import IS_FOREIGN, UNDER_WAY
from placement.db.database import Transaction
from placement.db.statements import is_one_of

_inventories = models.inventories
_allocations = models.allocations

ARE_RIGHT: ColumnElement[bool] = case((or_(UNDER_WAY, IS_FOREIGN), False), else_=True)
"""The condition that the usage counters of a provider are right."""

OWNERS_ARE_UNKNOWN: ColumnElement[bool] = UNDER_WAY
"""The condition that sums of projects and users may be wrong."""

LEDGER_SUM: ColumnElement[int] = (
    select(cast(func.coalesce(func.sum(_allocations.c.used), 0), BigInteger))
    .where(
        _allocations.c.resource_provider_id == _inventories.c.resource_provider_id,
        _allocations.c.resource_class_id == _inventories.c.resource_class_id,
    )
    .correlate(_inventories)
    .scalar_subquery()
)
"""The usage of an inventory by the ledger."""

# After the end of a coexistence, the counter of a provider that another service wrote once more is used until
# the watch has counted it again. A check here would cost each read a look-up of the provider.
USED: ColumnElement[int] = case((UNDER_WAY, LEDGER_SUM), else_=_inventories.c.used)
"""The usage of an inventory, for reads. A writer adds the allocations up after it has locked the provider."""


def correct(tx: Transaction, used_by_id: Mapping[int, int]) -> None:
    """Write usage counters of inventories of locked providers. One statement, or none."""
    if used_by_id:
        tx.change(
            update(_inventories)
            .where(is_one_of(_inventories.c.id, sorted(used_by_id)))
            .values(
                used=case(used_by_id, value=_inventories.c.id),
                updated_at=_inventories.c.updated_at,
            )
        )
