"""The writes of the OpenStack service (release 16.0.0), on the columns that it knows.

Each write sends the statements that service sends, in its order, in transactions of its isolation:
the default of the server, which is REPEATABLE READ on MariaDB. It sums the ledger for capacity, guards
providers and consumers by compare-and-set of their generations, and begins again when one fails.
"""

import datetime
import uuid as uuids
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection, exc, func

T = TypeVar("T")
Allocations = Mapping[str, Mapping[str, int]]
"""Amounts by class, by provider uuid."""

ATTEMPTS = 10


def _table(name: str, *columns: str, times: bool = True) -> sa.TableClause:
    """Name the columns that the old service knows, and no other."""
    known = (*columns, "created_at", "updated_at") if times else columns
    return sa.table(name, *(sa.column(each) for each in known))


providers = _table(
    "resource_providers",
    *("id", "uuid", "name", "generation", "root_provider_id", "parent_provider_id"),
)
inventories = _table(
    "inventories",
    *("id", "resource_provider_id", "resource_class_id", "total", "reserved"),
    *("min_unit", "max_unit", "step_size", "allocation_ratio"),
)
allocations = _table(
    "allocations", "id", "resource_provider_id", "consumer_id", "resource_class_id", "used"
)
consumers = _table(
    "consumers", "id", "uuid", "project_id", "user_id", "generation", "consumer_type_id"
)
projects = _table("projects", "id", "external_id")
users = _table("users", "id", "external_id")
classes = _table("resource_classes", "id", "name")
traits = _table("traits", "id", "name")
provider_traits = _table("resource_provider_traits", "trait_id", "resource_provider_id")
aggregates = _table("placement_aggregates", "id", "uuid")
provider_aggregates = _table("resource_provider_aggregates", "resource_provider_id", "aggregate_id")


class Refused(Exception):
    """The old service answers 4xx: no room, no inventory, in use, or unknown."""


class Conflict(Exception):
    """A generation was another, or the database refused the transaction."""


class OldService:
    """One process of the old service.

    :param url: of the database; PostgreSQL and MariaDB keep the isolation of the server.
    """

    def __init__(self, url: str) -> None:
        options: dict[str, Any] = {}
        if url.startswith("sqlite"):
            options["connect_args"] = {"timeout": 30}
        self.engine = sa.create_engine(url, **options)
        if url.startswith("sqlite"):
            # As its writer transactions do: nobody reads first and finds the file locked later.
            sa.event.listen(self.engine, "begin", lambda c: c.exec_driver_sql("BEGIN IMMEDIATE"))
            sa.event.listen(
                self.engine, "connect", lambda raw, _: setattr(raw, "isolation_level", None)
            )
        self.conflicts = 0

    def dispose(self) -> None:
        """Close its connections."""
        self.engine.dispose()

    # -- consumers and their allocations

    def claim(
        self, consumer: str, held: Allocations, project: str = "old", user: str = "old"
    ) -> None:
        """PUT /allocations/{consumer}: replace what it holds.

        :raises Refused: there is no room, or no such provider.
        """
        self.claim_many({consumer: held}, project, user)

    def claim_many(
        self, wanted: Mapping[str, Allocations], project: str = "old", user: str = "old"
    ) -> None:
        """POST /allocations: replace what several consumers hold, all or nothing."""
        made = [each for each, held in wanted.items() if held]
        created = self._repeated(lambda tx: self._ensure_consumers(tx, made, project, user))
        try:
            self._repeated(lambda tx: self._replace(tx, wanted, project, user))
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

    def _replace(
        self, tx: Connection, wanted: Mapping[str, Allocations], project: str, user: str
    ) -> None:
        generations = {
            row.uuid: row
            for row in tx.execute(
                sa.select(consumers).where(consumers.c.uuid.in_(list(wanted)))
            ).all()
        }
        old = set(
            tx.scalars(
                sa.select(allocations.c.resource_provider_id).where(
                    allocations.c.consumer_id.in_([c for c, held in wanted.items() if not held])
                )
            )
        )
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
                    created_at=_now(),
                )
            )
        for key in old - touched.keys():
            touched[key] = tx.scalar(sa.select(providers.c.generation).where(providers.c.id == key))
        for key, generation in touched.items():
            self._step(tx, key, generation)
        for row in generations.values():
            owner = self._owner(tx, project, user)
            done = tx.execute(
                sa.update(consumers)
                .where(consumers.c.id == row.id, consumers.c.generation == row.generation)
                .values(generation=row.generation + 1, updated_at=_now(), **owner)
            )
            if done.rowcount != 1:
                raise Conflict("consumer")

    def _stocks(self, tx: Connection, uuids_: set[str]) -> dict[Any, Any]:
        used = (
            sa.select(
                allocations.c.resource_provider_id,
                allocations.c.resource_class_id,
                func.sum(allocations.c.used).label("used"),
            )
            .group_by(allocations.c.resource_provider_id, allocations.c.resource_class_id)
            .subquery()
        )
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

    def _ensure_consumers(
        self, tx: Connection, wanted: list[str], project: str, user: str
    ) -> list[str]:
        owner = self._owner(tx, project, user)
        there = set(tx.scalars(sa.select(consumers.c.uuid).where(consumers.c.uuid.in_(wanted))))
        created = [each for each in wanted if each not in there]
        for each in created:
            tx.execute(
                sa.insert(consumers).values(uuid=each, generation=0, created_at=_now(), **owner)
            )
        return created

    def _owner(self, tx: Connection, project: str, user: str) -> dict[str, int]:
        return {
            "project_id": self._named(tx, projects, "external_id", project),
            "user_id": self._named(tx, users, "external_id", user),
        }

    def _remove_idle(self, tx: Connection, some: list[str]) -> None:
        holds = sa.select(allocations.c.consumer_id).where(allocations.c.consumer_id.in_(some))
        idle = sa.and_(consumers.c.uuid.in_(some), consumers.c.uuid.not_in(holds))
        tx.execute(sa.delete(consumers).where(idle))

    # -- providers

    def create_provider(self, uuid: str, name: str, parent: str | None = None) -> None:
        """POST /resource_providers."""

        def work(tx: Connection) -> None:
            place: dict[str, Any] = {}
            if parent is not None:
                row = self._provider(tx, parent)
                place = {"parent_provider_id": row.id, "root_provider_id": row.root_provider_id}
            tx.execute(
                sa.insert(providers).values(
                    uuid=uuid, name=name, generation=0, created_at=_now(), **place
                )
            )
            if parent is None:
                own = sa.select(providers.c.id).where(providers.c.uuid == uuid)
                key = tx.scalar(own)
                tx.execute(
                    sa.update(providers).where(providers.c.id == key).values(root_provider_id=key)
                )

        self._repeated(work)

    def rename_provider(self, uuid: str, name: str) -> None:
        """PUT /resource_providers/{uuid}. No generation moves."""
        self._repeated(
            lambda tx: tx.execute(
                sa.update(providers)
                .where(providers.c.uuid == uuid)
                .values(name=name, updated_at=_now())
            )
        )

    def move_provider(self, uuid: str, parent: str | None) -> None:
        """PUT /resource_providers/{uuid} with another parent. No generation moves."""

        def work(tx: Connection) -> None:
            row = self._provider(tx, uuid)
            above = self._provider(tx, parent) if parent else None
            root = above.root_provider_id if above else row.id
            below = [row.id]
            for key in below:
                below += tx.scalars(
                    sa.select(providers.c.id).where(providers.c.parent_provider_id == key)
                )
            tx.execute(
                sa.update(providers)
                .where(providers.c.id == row.id)
                .values(parent_provider_id=above.id if above else None, updated_at=_now())
            )
            for key in below:
                tx.execute(
                    sa.update(providers)
                    .where(providers.c.id == key)
                    .values(root_provider_id=root, updated_at=_now())
                )

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
            tx.execute(
                sa.update(providers)
                .where(providers.c.id == row.id)
                .values(root_provider_id=None, updated_at=_now())
            )
            tx.execute(sa.delete(providers).where(providers.c.id == row.id))

        self._repeated(work)

    def set_inventory(self, uuid: str, wanted: Mapping[str, Mapping[str, Any]]) -> None:
        """PUT /resource_providers/{uuid}/inventories.

        :raises Refused: a class that goes is in use.
        """

        def work(tx: Connection) -> None:
            row, ids = self._provider(tx, uuid), self._class_ids(tx)
            of_provider = inventories.c.resource_provider_id == row.id
            there = set(tx.scalars(sa.select(inventories.c.resource_class_id).where(of_provider)))
            new = {ids[name]: _record(values) for name, values in wanted.items()}
            gone = there - new.keys()
            used = sa.select(func.count()).where(
                allocations.c.resource_provider_id == row.id,
                allocations.c.resource_class_id.in_(gone),
            )
            if gone and tx.scalar(used):
                raise Refused("in use")
            if gone:
                of_class = inventories.c.resource_class_id.in_(gone)
                tx.execute(sa.delete(inventories).where(of_provider, of_class))
            for class_id, record in new.items():
                if class_id in there:
                    tx.execute(
                        sa.update(inventories)
                        .where(of_provider, inventories.c.resource_class_id == class_id)
                        .values(updated_at=_now(), **record)
                    )
                else:
                    tx.execute(
                        sa.insert(inventories).values(
                            resource_provider_id=row.id,
                            resource_class_id=class_id,
                            created_at=_now(),
                            **record,
                        )
                    )
            self._step(tx, row.id, row.generation)

        self._repeated(work)

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
            values = {"resource_provider_id": provider_id, column: key, "created_at": _now()}
            tx.execute(sa.insert(table).values(**values))

    # -- parts

    def _provider(self, tx: Connection, uuid: str) -> Any:
        row = tx.execute(sa.select(providers).where(providers.c.uuid == uuid)).first()
        if row is None:
            raise Refused("no such provider")
        return row

    def _class_ids(self, tx: Connection) -> dict[str, int]:
        return {row.name: row.id for row in tx.execute(sa.select(classes.c.id, classes.c.name))}

    def _named(self, tx: Connection, table: sa.TableClause, column: str, name: str) -> int:
        wanted = sa.select(table.c.id).where(table.c[column] == name)
        found = tx.scalar(wanted)
        if found is None:
            tx.execute(sa.insert(table).values({column: name, "created_at": _now()}))
            found = tx.scalar(wanted)
        return int(found)

    def _step(self, tx: Connection, provider_id: int, generation: int) -> None:
        done = tx.execute(
            sa.update(providers)
            .where(providers.c.id == provider_id, providers.c.generation == generation)
            .values(generation=generation + 1, updated_at=_now())
        )
        if done.rowcount != 1:
            raise Conflict("provider")

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self.engine.begin() as tx:
            yield tx

    def _repeated(self, work: Callable[[Connection], T]) -> T:
        """Run the work in a transaction, again and again after a conflict, as its decorator does."""
        for attempt in range(ATTEMPTS):
            try:
                with self._transaction() as tx:
                    return work(tx)
            except (Conflict, exc.OperationalError, exc.IntegrityError) as error:
                self.conflicts += 1
                if attempt == ATTEMPTS - 1:
                    raise Conflict(str(error)) from error
        raise AssertionError


def _record(values: Mapping[str, Any]) -> dict[str, Any]:
    default = {
        "reserved": 0,
        "min_unit": 1,
        "max_unit": 2147483647,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }
    return default | dict(values)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def new_uuid() -> str:
    """Return a uuid that nothing has."""
    return str(uuids.uuid4())
