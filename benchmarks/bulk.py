"""Load a cloud straight into the database of one of our own servers: minutes become seconds.

The rows are those that the same requests over HTTP would have left: generations count the PUTs and
POSTs, ``inventories.used`` and ``owner_usages`` are the sums of the ledger, every provider has a
revision of its own.
"""

import io
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from sqlalchemy import (
    Connection,
    Engine,
    Table,
    bindparam,
    create_engine,
    insert,
    make_url,
    select,
    update,
)

from benchmarks.clouds import Cloud, Consumer, Provider
from benchmarks.loading import create_names
from benchmarks.target import Target
from placement.db import models, owner_usage_rows, writes
from placement.db.change import Change
from placement.db.database import Transaction
from placement.db.engine import with_default_driver
from placement.db.owner_usage_rows import Account

ROWS = 5_000
TREES = 1_000


def load(target: Target, cloud: Cloud) -> float:
    """Insert the whole cloud into the target's database; return how many seconds it took.

    The service must have started on the database before: it makes the tables and standard names.
    """
    begun = time.perf_counter()
    create_names(target, cloud)
    engine = create_engine(with_default_driver(make_url(target.database or "")))
    try:
        insert_cloud(engine, cloud)
    finally:
        engine.dispose()
    return time.perf_counter() - begun


def insert_cloud(engine: Engine, cloud: Cloud) -> None:
    """Insert the providers and consumers of a cloud; the names that they use are there."""
    names = Names(engine)
    with engine.begin() as tx:
        _load_trees(tx, names, list(cloud.shared), [])
    for start in range(0, cloud.hosts, TREES):
        numbers = range(start, min(start + TREES, cloud.hosts))
        providers = [provider for number in numbers for provider in cloud.tree(number)]
        consumers = [one for number in numbers for one in cloud.consumers_of(number)]
        with engine.begin() as tx:
            _load_trees(tx, names, providers, consumers)
    with engine.begin() as tx:
        # Whoever has searched already compares all providers then.
        changes = models.provider_changes
        tx.execute(update(changes).values(mark=changes.c.mark + 1, recent=""))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        elif engine.dialect.name == "postgresql":
            connection.exec_driver_sql("VACUUM ANALYZE")
        else:
            tables = ", ".join(table.name for table in models.whole_metadata().sorted_tables)
            connection.exec_driver_sql(f"ANALYZE TABLE {tables}")


class Names:
    """Ids by name of the small tables, filled on demand."""

    def __init__(self, engine: Engine) -> None:
        self._ids: dict[str, dict[str, int]] = {}
        with engine.connect() as connection:
            for table, column in (
                (models.resource_classes, "name"),
                (models.traits, "name"),
                (models.projects, "external_id"),
                (models.users, "external_id"),
                (models.placement_aggregates, "uuid"),
                (models.consumer_types, "name"),
            ):
                self._read(connection, table, column)

    def _read(self, connection: Connection, table: Table, column: str) -> None:
        rows = connection.execute(select(table.c[column], table.c.id))
        self._ids[table.name] = dict(rows.tuples().all())

    def ids(
        self, tx: Connection, table: Table, column: str, wanted: Iterable[str]
    ) -> dict[str, int]:
        """Return the ids by name, with the missing names inserted."""
        known = self._ids[table.name]
        missing = [{column: name} for name in dict.fromkeys(wanted) if name not in known]
        if missing:
            _insert(tx, table, missing)
            self._read(tx, table, column)
        return self._ids[table.name]


def _load_trees(
    tx: Connection, names: Names, providers: list[Provider], consumers: list[Consumer]
) -> None:
    if not providers:
        return
    used, posts = _usage(consumers)
    ids = _insert_providers(tx, providers, posts)
    classes = names.ids(tx, models.resource_classes, "name", ())
    _insert(tx, models.inventories, list(_inventory_rows(providers, ids, classes, used)))
    traits = names.ids(tx, models.traits, "name", ())
    _insert(
        tx,
        models.resource_provider_traits,
        [
            {"resource_provider_id": ids[one.uuid], "trait_id": traits[name]}
            for one in providers
            for name in one.traits
        ],
    )
    wanted = [name for one in providers for name in one.aggregates]
    aggregates = names.ids(tx, models.placement_aggregates, "uuid", wanted)
    _insert(
        tx,
        models.resource_provider_aggregates,
        [
            {"resource_provider_id": ids[one.uuid], "aggregate_id": aggregates[name]}
            for one in providers
            for name in one.aggregates
        ],
    )
    _insert_consumers(tx, names, consumers, ids, classes)


def _usage(consumers: list[Consumer]) -> tuple[dict[tuple[str, str], int], dict[str, int]]:
    """Return the used amount by provider and class, and by provider the POSTs that wrote to it."""
    used: dict[tuple[str, str], int] = {}
    posts: dict[str, int] = {}
    for consumer in consumers:
        for provider, amounts in consumer.allocations.items():
            posts[provider] = 1
            for name, amount in amounts.items():
                used[provider, name] = used.get((provider, name), 0) + amount
    return used, posts


def _insert_providers(
    tx: Connection, providers: list[Provider], posts: dict[str, int]
) -> dict[str, int]:
    """Insert the providers level by level; return their ids by uuid."""
    ids: dict[str, int] = {}
    roots: dict[str, int] = {}
    table = models.resource_providers
    left = providers
    while left:
        level = [one for one in left if one.parent is None or one.parent in ids]
        level_uuids = {one.uuid for one in level}
        left = [one for one in left if one.uuid not in level_uuids]
        generations = {
            one.uuid: sum(map(bool, (one.inventories, one.traits, one.aggregates)))
            + posts.get(one.uuid, 0)
            for one in level
        }
        rows = [
            {
                "uuid": one.uuid,
                "name": one.name,
                "revision": models.first_revision(),
                "generation": generations[one.uuid],
                # COPY asks nobody for defaults; without it each first claim counts the host again.
                "own_generation": generations[one.uuid],
                "parent_provider_id": ids[one.parent] if one.parent else None,
                "root_provider_id": roots[one.parent] if one.parent else None,
            }
            for one in level
        ]
        _insert(tx, table, rows)
        ids |= _ids_of(tx, [one.uuid for one in level])
        for one in level:
            roots[one.uuid] = roots[one.parent] if one.parent else ids[one.uuid]
    tx.execute(
        update(table)
        .where(table.c.root_provider_id.is_(None))
        .values(root_provider_id=table.c.id, updated_at=table.c.updated_at)
    )
    return ids


def _ids_of(tx: Connection, uuids: list[str]) -> dict[str, int]:
    table = models.resource_providers
    query = select(table.c.uuid, table.c.id).where(
        table.c.uuid.in_(bindparam("uuids", expanding=True))
    )
    found: dict[str, int] = {}
    for chunk in _chunks(uuids):
        found |= dict(tx.execute(query, {"uuids": chunk}).tuples().all())
    return found


def _inventory_rows(
    providers: list[Provider],
    ids: dict[str, int],
    classes: dict[str, int],
    used: dict[tuple[str, str], int],
) -> Iterator[dict[str, Any]]:
    defaults = {"reserved": 0, "min_unit": 1, "step_size": 1}
    for provider in providers:
        for name, inventory in provider.inventories.items():
            yield {
                **defaults,
                **inventory,
                "resource_provider_id": ids[provider.uuid],
                "resource_class_id": classes[name],
                "used": used.get((provider.uuid, name), 0),
            }


def _insert_consumers(
    tx: Connection,
    names: Names,
    consumers: list[Consumer],
    ids: dict[str, int],
    classes: dict[str, int],
) -> None:
    if not consumers:
        return
    projects = names.ids(tx, models.projects, "external_id", (one.project for one in consumers))
    users = names.ids(tx, models.users, "external_id", (one.user for one in consumers))
    types = names.ids(tx, models.consumer_types, "name", ("INSTANCE",))
    rows = [
        {
            "uuid": one.uuid,
            "project_id": projects[one.project],
            "user_id": users[one.user],
            "consumer_type_id": types["INSTANCE"],
            "generation": 1,
        }
        for one in consumers
    ]
    _insert(tx, models.consumers, rows)
    ledger = [
        {
            "resource_provider_id": ids[provider],
            "consumer_id": one.uuid,
            "resource_class_id": classes[name],
            "used": amount,
        }
        for one in consumers
        for provider, amounts in one.allocations.items()
        for name, amount in amounts.items()
    ]
    _insert(tx, models.allocations, ledger)
    sums = _owned(consumers, projects, users, types["INSTANCE"], classes)
    writes.finish(Transaction(tx), Change(owner_usages=sums))


def _owned(
    consumers: list[Consumer],
    projects: dict[str, int],
    users: dict[str, int],
    type_id: int,
    classes: dict[str, int],
) -> Counter[Account]:
    """Return what each owner uses of each class, and how many consumers it has."""
    sums: Counter[Account] = Counter()
    for one in consumers:
        owner = projects[one.project], users[one.user], type_id
        sums[Account(*owner, owner_usage_rows.CONSUMERS)] += 1
        for amounts in one.allocations.values():
            for name, amount in amounts.items():
                sums[Account(*owner, classes[name])] += amount
    return sums


def _insert(tx: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    now = models.now()
    for chunk in _chunks(rows):
        whole = [{**row, "created_at": now, "updated_at": now} for row in chunk]
        if tx.dialect.name == "postgresql":
            _copy(tx, table, whole)
        else:
            tx.execute(insert(table), whole)


def _copy(tx: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert by COPY, which takes a fifth of the time; no value of ours needs escaping."""
    columns = list(rows[0])
    lines = (
        "\t".join("\\N" if row[name] is None else str(row[name]) for name in columns)
        for row in rows
    )
    cursor = tx.connection.cursor()
    cursor.copy_expert(
        f"COPY {table.name} ({', '.join(columns)}) FROM STDIN", io.StringIO("\n".join(lines))
    )
    cursor.close()


def _chunks(rows: list[Any]) -> Iterator[list[Any]]:
    left = iter(rows)
    while chunk := list(islice(left, ROWS)):
        yield chunk
