"""The derived numbers of the example: of how many providers each consumer has allocations."""

from sqlalchemy import Column, Integer, String, Table, func, select, update

from placement.db import models
from placement.db.database import Transaction
from placement.db.invariants import Invariant

PLACES = Table(
    "places_seen",
    models.metadata,
    Column("consumer_uuid", String(36), primary_key=True),
    Column("number", Integer, nullable=False),
)
_held = models.allocations
_number = (
    select(func.count(_held.c.resource_provider_id.distinct()))
    .where(_held.c.consumer_id == PLACES.c.consumer_uuid)
    .scalar_subquery()
)


def _correct(tx: Transaction) -> int:
    return tx.change(update(PLACES).where(PLACES.c.number != _number).values(number=_number))


INVARIANTS = (
    Invariant(
        "numbers of places equal the ledger",
        select(PLACES, _number.label("ledger")).where(PLACES.c.number != _number),
        _correct,
        is_in_trees=False,
    ),
)
