"""The writes of the OpenStack service to providers, and to the names that they use."""

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, func

from tests.support.old_database import (
    OldDatabase,
    Refused,
    aggregates,
    allocations,
    classes,
    inventories,
    now,
    provider_aggregates,
    provider_traits,
    providers,
    traits,
)


class OldProviders(OldDatabase):
    """Providers with inventories, traits and aggregates."""

    def create_provider(self, uuid: str, name: str, parent: str | None = None) -> None:
        """POST /resource_providers."""

        def work(tx: Connection) -> None:
            place: dict[str, Any] = {}
            if parent is not None:
                row = self._provider(tx, parent)
                place = {"parent_provider_id": row.id, "root_provider_id": row.root_provider_id}
            row = {"uuid": uuid, "name": name, "generation": 0, "created_at": now()}
            tx.execute(sa.insert(providers).values(**row, **place))
            if parent is None:
                own = sa.select(providers.c.id).where(providers.c.uuid == uuid)
                key = tx.scalar(own)
                tx.execute(sa.update(providers).where(providers.c.id == key).values(root_provider_id=key))

        self._repeated(work)

    def rename_provider(self, uuid: str, name: str) -> None:
        """PUT /resource_providers/{uuid}. No generation moves."""
        renamed = sa.update(providers).where(providers.c.uuid == uuid)
        self._repeated(lambda tx: tx.execute(renamed.values(name=name, updated_at=now())))

    def move_provider(self, uuid: str, parent: str | None, **also: str) -> None:
        """PUT /resource_providers/{uuid} with another parent. No generation moves.

        :param also: ``name``, if it is another one too.
        :raises Refused: the parent is below it.
        """

        def work(tx: Connection) -> None:
            row = self._provider(tx, uuid)
            above = self._provider(tx, parent) if parent else None
            root = above.root_provider_id if above else row.id
            below = [row.id]
            for key in below:
                below += tx.scalars(
                    sa.select(providers.c.id).where(providers.c.parent_provider_id == key)
                )
            if above and above.id in below:
                raise Refused("a loop")
            self._change(tx, row.id, parent_provider_id=above.id if above else None, **also)
            for key in below:
                self._change(tx, key, root_provider_id=root)

        self._repeated(work)

    def delete_provider(self, uuid: str) -> None:
        """DELETE /resource_providers/{uuid}.

        :raises Refused: it has allocations or children.
        """

        def work(tx: Connection) -> None:
            row = self._provider(tx, uuid)
            for column in (allocations.c.resource_provider_id, providers.c.parent_provider_id):
                if tx.scalar(sa.select(func.count()).where(column == row.id)):
                    raise Refused("in use")
            for table in (inventories, provider_aggregates, provider_traits):
                tx.execute(sa.delete(table).where(table.c.resource_provider_id == row.id))
            self._change(tx, row.id, root_provider_id=None)
            tx.execute(sa.delete(providers).where(providers.c.id == row.id))

        self._repeated(work)

    def set_inventory(self, uuid: str, wanted: Mapping[str, Mapping[str, Any]]) -> None:
        """PUT /resource_providers/{uuid}/inventories; with nothing wanted, DELETE.

        :raises Refused: a class that goes is in use.
        """

        def work(tx: Connection) -> None:
            row = self._provider(tx, uuid)
            self._write_inventory(tx, row.id, wanted)
            self._remove_inventory(tx, row.id, wanted)
            self._step(tx, row.id, row.generation)

        self._repeated(work)

    def set_one_inventory(self, uuid: str, name: str, values: Mapping[str, Any]) -> None:
        """POST, or PUT /resource_providers/{uuid}/inventories/{name}."""

        def work(tx: Connection) -> None:
            row = self._provider(tx, uuid)
            self._write_inventory(tx, row.id, {name: values})
            self._step(tx, row.id, row.generation)

        self._repeated(work)

    def _write_inventory(
        self, tx: Connection, provider_id: int, wanted: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Insert or update the records of these classes."""
        ids = self._class_ids(tx)
        of_provider = inventories.c.resource_provider_id == provider_id
        there = set(tx.scalars(sa.select(inventories.c.resource_class_id).where(of_provider)))
        for name, values in wanted.items():
            if name not in ids:
                raise Refused("no such class")
            record, class_id = _record(values), ids[name]
            if class_id in there:
                of_class = inventories.c.resource_class_id == class_id
                changed = sa.update(inventories).where(of_provider, of_class)
                tx.execute(changed.values(updated_at=now(), **record))
            else:
                key = {"resource_provider_id": provider_id, "resource_class_id": class_id}
                tx.execute(sa.insert(inventories).values(created_at=now(), **key, **record))

    def _remove_inventory(self, tx: Connection, provider_id: int, kept: Collection[str]) -> None:
        """Delete the records of other classes.

        :raises Refused: one is in use.
        """
        ids = self._class_ids(tx)
        of_provider = inventories.c.resource_provider_id == provider_id
        there = set(tx.scalars(sa.select(inventories.c.resource_class_id).where(of_provider)))
        gone = there - {ids[name] for name in kept}
        used = sa.select(func.count()).where(
            allocations.c.resource_provider_id == provider_id,
            allocations.c.resource_class_id.in_(gone),
        )
        if gone and tx.scalar(used):
            raise Refused("in use")
        if gone:
            of_class = inventories.c.resource_class_id.in_(gone)
            tx.execute(sa.delete(inventories).where(of_provider, of_class))

    def set_traits(self, uuid: str, wanted: set[str]) -> None:
        """PUT /resource_providers/{uuid}/traits."""

        def work(tx: Connection) -> None:
            row = self._provider(tx, uuid)
            keys = set(tx.scalars(sa.select(traits.c.id).where(traits.c.name.in_(wanted))))
            self._associate(tx, provider_traits, "trait_id", row.id, keys)
            self._step(tx, row.id, row.generation)

        self._repeated(work)

    def set_aggregates(self, uuid: str, wanted: set[str], steps: bool = True) -> None:
        """PUT /resource_providers/{uuid}/aggregates.

        :param steps: since 1.19 the generation moves; before it does not.
        """

        def work(tx: Connection) -> None:
            row = self._provider(tx, uuid)
            keys = {self._named(tx, aggregates, "uuid", each) for each in wanted}
            self._associate(tx, provider_aggregates, "aggregate_id", row.id, keys)
            if steps:
                self._step(tx, row.id, row.generation)

        self._repeated(work)

    def _associate(
        self, tx: Connection, table: sa.TableClause, column: str, provider_id: int, keys: set[int]
    ) -> None:
        of_provider = table.c.resource_provider_id == provider_id
        there = set(tx.scalars(sa.select(table.c[column]).where(of_provider)))
        if there - keys:
            tx.execute(sa.delete(table).where(of_provider, table.c[column].in_(there - keys)))
        for key in keys - there:
            values = {"resource_provider_id": provider_id, column: key, "created_at": now()}
            tx.execute(sa.insert(table).values(**values))

    # -- names

    def create_class(self, name: str) -> None:
        """PUT /resource_classes/{name}: custom ones are numbered from 10000."""

        def work(tx: Connection) -> None:
            highest = tx.scalar(sa.select(func.max(classes.c.id))) or 0
            key = max(highest + 1, 10000)
            tx.execute(sa.insert(classes).values(id=key, name=name, created_at=now()))

        self._repeated(work)

    def rename_class(self, name: str, new: str) -> None:
        """PUT /resource_classes/{name}, before 1.7."""
        of_name = sa.update(classes).where(classes.c.name == name)
        self._repeated(lambda tx: tx.execute(of_name.values(name=new, updated_at=now())))

    def create_trait(self, name: str) -> None:
        """PUT /traits/{name}."""
        made = sa.insert(traits).values(name=name, created_at=now())
        self._repeated(lambda tx: tx.execute(made))

    def delete_trait(self, name: str) -> None:
        """DELETE /traits/{name}."""
        self._repeated(lambda tx: tx.execute(sa.delete(traits).where(traits.c.name == name)))


def _record(values: Mapping[str, Any]) -> dict[str, Any]:
    default = {
        "reserved": 0,
        "min_unit": 1,
        "max_unit": 2147483647,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }
    return default | dict(values)
