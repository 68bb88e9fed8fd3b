"""Statements on the associations of providers: with traits, and with aggregates."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Table, bindparam, delete, func, select

from placement.db import models
from placement.db.database import Access, Transaction, stale_if_refused
from placement.db.statements import CompiledStatement, Row, batches, is_among

_providers = models.resource_providers

MODIFIED: ColumnElement[Any] = func.coalesce(models.traits.c.updated_at, models.traits.c.created_at)
"""The time at which a trait was last updated, or created."""


class Associations:
    """The associations of one kind that providers have.

    :param table: the table of the associations; ``key``: its column that refers to a row of the kind.
    :param name: the column that identifies the kind; ``shown``: the columns that are read for a provider.
    """

    def __init__(
        self, table: Table, key: str, name: Column[Any], shown: Sequence[ColumnElement[Any]]
    ) -> None:
        self._table, self._key = table, key
        kind, refers_to = name.table, table.c[key]
        of_provider = table.c.resource_provider_id == bindparam("provider")
        self._of_provider = CompiledStatement(
            select(func.coalesce(_providers.c.generation, 0), kind.c.id, *shown)
            .select_from(_providers)
            .outerjoin(table, table.c.resource_provider_id == _providers.c.id)
            .outerjoin(kind, (kind.c.id == refers_to) & name.is_not(None))
            .where(_providers.c.uuid == bindparam("uuid"))
            .order_by(refers_to)
        )
        self._ids = CompiledStatement(
            select(name, kind.c.id)
            .join(table, refers_to == kind.c.id)
            .where(of_provider, name.is_not(None))
        )
        self._delete_all = CompiledStatement(delete(table).where(of_provider))
        self._delete = CompiledStatement(
            delete(table).where(of_provider, is_among(refers_to, "keys"))
        )

    def of_provider(self, access: Access, provider_uuid: str) -> tuple[int, list[Row]] | None:
        """Return the provider's generation, and its associations as id and shown columns, in id order.

        None if the provider does not exist. One statement.
        """
        rows = access.rows(self._of_provider, {"uuid": provider_uuid})
        return (rows[0][0], [row[1:] for row in rows if row[1] is not None]) if rows else None

    def ids(self, tx: Transaction, provider_id: int) -> dict[str, int]:
        """Return the ids of a locked provider's associations, by name. One statement."""
        return {row[0]: row[1] for row in tx.rows(self._ids, {"provider": provider_id})}

    def add(self, tx: Transaction, provider_id: int, ids: Collection[int]) -> None:
        """Add associations that a locked provider does not have. One statement, or none for no id.

        :raises StaleRead: an associated row was deleted meanwhile.
        """
        common = {"resource_provider_id": provider_id, "created_at": models.now()}
        with stale_if_refused(f"a row that {self._table.name} refers to was deleted"):
            tx.insert(self._table, [{self._key: key, **common} for key in sorted(ids)])

    def remove(self, tx: Transaction, provider_id: int, ids: Collection[int]) -> None:
        """Remove these associations from a locked provider. One statement, or none for no id."""
        for batch in batches(sorted(ids)):
            tx.change(self._delete, {"provider": provider_id, "keys": batch})

    def remove_all(self, tx: Transaction, provider_id: int) -> int:
        """Remove all associations from a locked provider; return their number. One statement."""
        return tx.change(self._delete_all, {"provider": provider_id})


TRAITS = Associations(
    models.resource_provider_traits,
    "trait_id",
    models.traits.c.name,
    (models.traits.c.name, models.traits.c.created_at, MODIFIED),
)
AGGREGATES = Associations(
    models.resource_provider_aggregates,
    "aggregate_id",
    models.placement_aggregates.c.uuid,
    (models.placement_aggregates.c.uuid,),
)
