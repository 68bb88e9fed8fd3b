"""The writes of the OpenStack service (release 16.0.0), on the columns that it knows.

Each write sends the statements that service sends, in its order, in transactions of its isolation:
the default of the server, which is REPEATABLE READ on MariaDB. It sums the ledger for capacity, guards
providers and consumers by compare-and-set of their generations, and begins again when one fails.
"""

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, func

from tests.support.old_database import (
    Allocations,
    Conflict,
    Refused,
    allocations,
    consumer_types,
    consumers,
    inventories,
    new_uuid,
    now,
    projects,
    providers,
    users,
)
from tests.support.old_providers import OldProviders

__all__ = ["Conflict", "OldService", "Refused", "new_uuid"]

Owner = tuple[str, str, str | None]
"""Project, user, and type if any, of a consumer."""
Owners = Mapping[str, Owner]


class OldService(OldProviders):
    """One process of the old service."""

    def claim(
        self, consumer: str, held: Allocations, project: str = "old", user: str = "old", **more: str
    ) -> None:
        """PUT /allocations/{consumer}: replace what it holds, and whose it is.

        :param more: ``type`` of the consumer, from 1.38.
        :raises Refused: there is no room, or no such provider.
        """
        self.claim_many({consumer: held}, project, user, **more)

    def claim_many(
        self,
        wanted: Mapping[str, Allocations],
        project: str = "old",
        user: str = "old",
        type: str | None = None,
    ) -> None:
        """POST /allocations: replace what several consumers hold, all or nothing."""
        self.claim_each(wanted, dict.fromkeys(wanted, (project, user, type)))

    def claim_each(self, wanted: Mapping[str, Allocations], owners: Owners) -> None:
        """POST /allocations, each consumer with an owner of its own."""
        self._for_consumers(wanted, owners, lambda tx: None)

    def reshape(
        self,
        stocks: Mapping[str, Mapping[str, Mapping[str, Any]]],
        wanted: Mapping[str, Allocations],
        owners: Owners | None = None,
    ) -> None:
        """POST /reshaper: inventories of several providers with the allocations on them.

        :param stocks: records by class, by provider uuid.
        """

        def before(tx: Connection) -> None:
            for uuid, records in stocks.items():
                row = self._provider(tx, uuid)
                self._write_inventory(tx, row.id, records)
                self._step(tx, row.id, row.generation)

        def after(tx: Connection) -> None:
            for uuid, records in stocks.items():
                row = self._provider(tx, uuid)
                self._remove_inventory(tx, row.id, records)
                self._step(tx, row.id, row.generation)

        owners = owners or dict.fromkeys(wanted, ("old", "old", None))
        self._for_consumers(wanted, owners, before, after)

    def _for_consumers(
        self,
        wanted: Mapping[str, Allocations],
        owners: Owners,
        before: Callable[[Connection], None],
        after: Callable[[Connection], None] = lambda tx: None,
    ) -> None:
        """Create what is missing, replace the allocations, remove who holds nothing."""

        def work(tx: Connection) -> None:
            before(tx)
            self._replace(tx, wanted, owners)
            after(tx)

        made = [each for each, held in wanted.items() if held]
        created = self._repeated(lambda tx: self._ensure_consumers(tx, made, owners))
        try:
            self._repeated(work)
        except (Refused, Conflict):
            # Its handler removes the consumers that it has made for nothing.
            self._repeated(lambda tx: self._remove_idle(tx, created))
            raise
        self._repeated(lambda tx: self._remove_idle(tx, list(wanted)))

    def release(self, consumer: str) -> None:
        """DELETE /allocations/{consumer}. No generation moves."""

        def work(tx: Connection) -> None:
            tx.execute(sa.delete(allocations).where(allocations.c.consumer_id == consumer))
            tx.execute(sa.delete(consumers).where(consumers.c.uuid == consumer))

        self._repeated(work)

    def _replace(self, tx: Connection, wanted: Mapping[str, Allocations], owners: Owners) -> None:
        named = sa.select(consumers).where(consumers.c.uuid.in_(list(wanted)))
        known = tx.execute(named).all()
        emptied = [consumer for consumer, held in wanted.items() if not held]
        left = sa.select(allocations.c.resource_provider_id)
        old = set(tx.scalars(left.where(allocations.c.consumer_id.in_(emptied))))
        tx.execute(sa.delete(allocations).where(allocations.c.consumer_id.in_(list(wanted))))
        asked = [
            (consumer, provider, name, amount)
            for consumer, held in wanted.items()
            for provider, amounts in held.items()
            for name, amount in amounts.items()
        ]
        ids = self._class_ids(tx)
        stocks = self._stocks(tx, {provider for _, provider, _, _ in asked})
        taken: dict[tuple[str, str], int] = {}
        for _, provider, name, amount in asked:
            stock = stocks.get((provider, ids.get(name)))
            if stock is None:
                raise Refused(f"no inventory of {name}")
            key = (provider, name)
            taken[key] = taken.get(key, 0) + amount
            capacity = (stock.total - stock.reserved) * stock.allocation_ratio
            units = stock.min_unit <= amount <= stock.max_unit and amount % stock.step_size == 0
            if not units or int(stock.used) + taken[key] > capacity:
                raise Refused(f"no room for {name}")
        touched = {
            stocks[p, ids[n]].provider_id: stocks[p, ids[n]].generation for _, p, n, _ in asked
        }
        for consumer, provider, name, amount in asked:
            tx.execute(
                sa.insert(allocations).values(
                    resource_provider_id=stocks[provider, ids[name]].provider_id,
                    consumer_id=consumer,
                    resource_class_id=ids[name],
                    used=amount,
                    created_at=now(),
                )
            )
        for key in old - touched.keys():
            touched[key] = tx.scalar(sa.select(providers.c.generation).where(providers.c.id == key))
        for key, generation in touched.items():
            self._step(tx, key, generation)
        for row in known:
            done = tx.execute(
                sa.update(consumers)
                .where(consumers.c.id == row.id, consumers.c.generation == row.generation)
                .values(generation=row.generation + 1, updated_at=now(), **self._owner(tx, owners[row.uuid]))
            )
            if done.rowcount != 1:
                raise Conflict("consumer")

    def _stocks(self, tx: Connection, uuids_: set[str]) -> dict[Any, Any]:
        where = (allocations.c.resource_provider_id, allocations.c.resource_class_id)
        summed = sa.select(*where, func.sum(allocations.c.used).label("used"))
        used = summed.group_by(*where).subquery()
        rows = tx.execute(
            sa.select(
                providers.c.id.label("provider_id"),
                providers.c.uuid,
                providers.c.generation,
                inventories.c.resource_class_id,
                *(inventories.c[n] for n in ("total", "reserved", "min_unit", "max_unit")),
                inventories.c.step_size,
                inventories.c.allocation_ratio,
                func.coalesce(used.c.used, 0).label("used"),
            )
            .join(inventories, inventories.c.resource_provider_id == providers.c.id)
            .outerjoin(
                used,
                sa.and_(
                    used.c.resource_provider_id == inventories.c.resource_provider_id,
                    used.c.resource_class_id == inventories.c.resource_class_id,
                ),
            )
            .where(providers.c.uuid.in_(list(uuids_)))
        )
        return {(row.uuid, row.resource_class_id): row for row in rows}

    def _ensure_consumers(self, tx: Connection, wanted: list[str], owners: Owners) -> list[str]:
        there = set(tx.scalars(sa.select(consumers.c.uuid).where(consumers.c.uuid.in_(wanted))))
        created = [each for each in wanted if each not in there]
        for each in created:
            tx.execute(
                sa.insert(consumers).values(
                    uuid=each, generation=0, created_at=now(), **self._owner(tx, owners[each])
                )
            )
        return created

    def _owner(self, tx: Connection, owner: Owner) -> dict[str, int]:
        project, user, type_name = owner
        found = {
            "project_id": self._named(tx, projects, "external_id", project),
            "user_id": self._named(tx, users, "external_id", user),
        }
        if type_name is not None:
            found["consumer_type_id"] = self._named(tx, consumer_types, "name", type_name)
        return found

    def _remove_idle(self, tx: Connection, some: list[str]) -> None:
        holds = sa.select(allocations.c.consumer_id).where(allocations.c.consumer_id.in_(some))
        idle = sa.and_(consumers.c.uuid.in_(some), consumers.c.uuid.not_in(holds))
        tx.execute(sa.delete(consumers).where(idle))
