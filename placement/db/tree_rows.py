"""Statements that read whole trees of providers with their allocations (specification 07 section 5)."""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import bindparam, func, or_, select

from placement.db import cloud_rows, counters, models, statements
from placement.db.coexistence.checksums import CHECKSUMS_OF_PROVIDER
from placement.db.database import Access, Snapshot
from placement.db.statements import CompiledStatement

_providers = models.resource_providers
_allocations = models.allocations
_inventories = models.inventories
_consumers = models.consumers
_classes = models.resource_classes
_given = _providers.alias("given")


class Member(NamedTuple):
    """One provider of a tree, in the form from which the tag of the tree is made.

    ``ledger``, ``aggregates`` and ``mark`` are checksums during a coexistence, and 0 otherwise.
    """

    id: int
    root_id: int
    revision: int
    generation: int
    ledger: int = 0
    aggregates: int = 0
    mark: int = 0


class HeldBy(NamedTuple):
    """One allocation with its consumer; owner, type and generation are None if that has no record.

    ``in_all``: how many allocations the consumer has on all providers, if that was read.
    """

    provider_id: int
    consumer_uuid: str
    class_name: str
    used: int
    project: str | None
    user: str | None
    type: str | None
    generation: int | None
    in_all: int = 0


HeldById = tuple[int, int, str, int, int, int | None, int | None, int | None, int | None]
"""An allocation: the ids of itself and of its provider, the uuid of its consumer, the id of its class, the
amount; the consumer's generation and the ids of its project, user and type, all None if it has no record."""

MOST_PROVIDERS = 4_000
"""The providers of which one statement reads the allocations by ids."""

_MEMBER = (
    _providers.c.id,
    func.coalesce(_providers.c.root_provider_id, _providers.c.id),
    _providers.c.revision,
    func.coalesce(_providers.c.generation, 0),
    *CHECKSUMS_OF_PROVIDER,
)

# A provider that predates nesting has no root and is a tree of its own.
_OF_UUID = CompiledStatement(
    select(*_MEMBER)
    .select_from(_given)
    .join(
        _providers,
        or_(
            _providers.c.id == _given.c.id,
            _providers.c.root_provider_id == _given.c.root_provider_id,
        ),
    )
    .where(_given.c.uuid == bindparam("uuid"))
    .order_by(_providers.c.id)
)


def members(tx: Access, uuid: str) -> list[Member]:
    """Return the providers of the tree of this provider, none if it does not exist. One statement."""
    return [Member(*map(int, row)) for row in tx.rows(_OF_UUID, {"uuid": uuid})]


def members_of_roots(tx: Snapshot, root_ids: Collection[int]) -> list[Member]:
    """Return the providers of these trees. One statement for each thousand trees."""
    return [Member(*map(int, row)) for row in tx.rows_of_all(_OF_ROOTS, "root", root_ids)]


_OF_ROOTS = CompiledStatement(
    select(*_MEMBER).where(
        or_(
            statements.is_among(_providers.c.id, "root"),
            statements.is_among(_providers.c.root_provider_id, "root"),
        )
    ),
    "root",
)


class Root(NamedTuple):
    """The root of a tree."""

    uuid: str
    name: str


def find_roots(tx: Snapshot, ids: Collection[int]) -> dict[int, Root]:
    """Return by id the root of the tree in which each of these providers is.

    Providers that do not exist are left out. One statement for each thousand.
    """
    return {id_: Root(uuid, name) for id_, uuid, name in tx.rows_of_all(_ROOTS_OF, "id", ids)}


def find_existing_roots(tx: Snapshot, uuids: Collection[str]) -> set[Root]:
    """Return the roots of trees that have one of these uuids. One statement for each thousand."""
    rows = tx.rows_of_all(_ROOTS_NAMED, "uuid", uuids)
    return {Root(uuid, name) for uuid, root, name in rows if uuid == root}


_roots = _providers.alias("root")
# A provider without a root, or whose root no longer exists, is a tree of its own.
_root_uuid = func.coalesce(_roots.c.uuid, _providers.c.uuid)
_root_name = func.coalesce(_roots.c.name, _roots.c.uuid, _providers.c.name, _providers.c.uuid)
_with_root = _providers.outerjoin(_roots, _roots.c.id == _providers.c.root_provider_id)
_ROOTS_OF = CompiledStatement(
    select(_providers.c.id, _root_uuid, _root_name)
    .select_from(_with_root)
    .where(statements.is_among(_providers.c.id, "id")),
    "id",
)
_ROOTS_NAMED = CompiledStatement(
    select(_providers.c.uuid, _root_uuid, _root_name)
    .select_from(_with_root)
    .where(statements.is_among(_providers.c.uuid, "uuid")),
    "uuid",
)


def contents(tx: Snapshot, ids: Collection[int]) -> cloud_rows.Contents:
    """Return all but the allocations of these providers. Four statements for each thousand."""
    whole = cloud_rows.Contents([], [], [], [])
    for batch in statements.batches(sorted(ids)):
        parts = zip(whole, cloud_rows.contents(tx, batch), strict=True)
        whole = cloud_rows.Contents(*([*held, *more] for held, more in parts))
    return whole


def allocations(tx: Snapshot, ids: Collection[int]) -> list[HeldBy]:
    """Return the allocations on these providers, oldest first. One statement for each thousand."""
    return [HeldBy(*row) for row in tx.rows_of_all(_ON_PROVIDERS, "id", ids)]


def allocations_by_ids(tx: Snapshot, provider_ids: Collection[int]) -> list[HeldById]:
    """Return the allocations on many providers, oldest first. One statement for each four thousand.

    PostgreSQL reads the whole table for a thousand of ten thousand providers, so statements are few. Names
    are not joined, since they would be made again for each row.
    """
    found: list[HeldById] = []
    for batch in statements.batches(sorted(provider_ids), MOST_PROVIDERS):
        found += tx.rows(_BY_IDS, {"id": batch})
    # The rows are sorted here, by their ids: PostgreSQL would sort so many rows on its disk.
    found.sort()
    return found


def usages_by_ids(tx: Snapshot, provider_ids: Collection[int]) -> list[tuple[int, str, int]]:
    """Return provider id, class and usage of inventories. One statement for each thousand providers."""
    return [(row[0], row[1], row[2]) for row in tx.rows_of_all(_USAGES_BY_IDS, "id", provider_ids)]


def count_allocations(tx: Snapshot) -> int:
    """Return the number of all allocations. One statement."""
    return int(tx.value(_COUNT))


def count_allocations_of(tx: Snapshot, consumer_uuids: Collection[str]) -> dict[str, int]:
    """Return how many allocations consumers have on all providers. One statement for each thousand."""
    return dict(tx.rows_of_all(_COUNT_BY_CONSUMER, "consumer", consumer_uuids))


def allocations_of(tx: Access, consumer_uuid: str) -> list[HeldBy]:
    """Return the allocations of a consumer, oldest first. One statement."""
    return [HeldBy(*row) for row in tx.rows(_OF_CONSUMER, {"consumer": consumer_uuid})]


def allocations_of_all(tx: Access, consumer_uuids: Collection[str]) -> list[HeldBy]:
    """Return the allocations of consumers. One statement for each thousand."""
    return [HeldBy(*row) for row in tx.rows_of_all(_OF_CONSUMERS, "consumer", consumer_uuids)]


_held = (
    select(
        _allocations.c.resource_provider_id,
        _allocations.c.consumer_id,
        _classes.c.name,
        _allocations.c.used,
        models.projects.c.external_id,
        models.users.c.external_id,
        models.consumer_types.c.name,
        _consumers.c.generation,
    )
    .select_from(_allocations)
    .join(_classes, _classes.c.id == _allocations.c.resource_class_id)
    .outerjoin(_consumers, _consumers.c.uuid == _allocations.c.consumer_id)
    .outerjoin(models.projects, models.projects.c.id == _consumers.c.project_id)
    .outerjoin(models.users, models.users.c.id == _consumers.c.user_id)
    .outerjoin(models.consumer_types, models.consumer_types.c.id == _consumers.c.consumer_type_id)
    .order_by(_allocations.c.id)
)
_others = _allocations.alias("of_consumer")
_in_all = (
    select(func.count())
    .select_from(_others)
    .where(_others.c.consumer_id == _allocations.c.consumer_id)
    .scalar_subquery()
)
_OF_CONSUMER = CompiledStatement(_held.where(_allocations.c.consumer_id == bindparam("consumer")))
_OF_CONSUMERS = CompiledStatement(
    _held.where(statements.is_among(_allocations.c.consumer_id, "consumer")), "consumer"
)
_ON_PROVIDERS = CompiledStatement(
    _held.add_columns(_in_all).where(
        statements.is_among(_allocations.c.resource_provider_id, "id")
    ),
    "id",
)
# The statement asks for no order, so the database neither sorts the rows nor looks them up one by one.
_BY_IDS = CompiledStatement(
    select(
        _allocations.c.id,
        _allocations.c.resource_provider_id,
        _allocations.c.consumer_id,
        _allocations.c.resource_class_id,
        _allocations.c.used,
        _consumers.c.generation,
        _consumers.c.project_id,
        _consumers.c.user_id,
        _consumers.c.consumer_type_id,
    )
    .select_from(_allocations)
    .outerjoin(_consumers, _consumers.c.uuid == _allocations.c.consumer_id)
    .where(statements.is_among(_allocations.c.resource_provider_id, "id")),
    "id",
)
_USAGES_BY_IDS = CompiledStatement(
    select(_inventories.c.resource_provider_id, _classes.c.name, counters.USED)
    .select_from(_inventories)
    .join(_classes, _classes.c.id == _inventories.c.resource_class_id)
    .where(statements.is_among(_inventories.c.resource_provider_id, "id")),
    "id",
)
_COUNT = CompiledStatement(select(func.count()).select_from(_allocations))
_COUNT_BY_CONSUMER = CompiledStatement(
    select(_allocations.c.consumer_id, func.count())
    .where(statements.is_among(_allocations.c.consumer_id, "consumer"))
    .group_by(_allocations.c.consumer_id),
    "consumer",
)
