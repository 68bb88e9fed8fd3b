"""A small cloud as rows of the tables, for a database at any revision."""

import datetime
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Column, Connection, MetaData, Table, insert, inspect, select

from placement.db.database import Database, Snapshot, Transaction

Rows = dict[str, list[dict[str, Any]]]

MADE = datetime.datetime(2018, 3, 1, 12, 30)
CHANGED = datetime.datetime(2018, 3, 2, 8, 0)

VCPU, MEMORY_MB, CUSTOM = 0, 1, 10000
HOSTS = 4
CONSUMERS = 12


def uuid(kind: int, number: int) -> str:
    """Return a readable uuid."""
    return f"{kind:08d}-0000-4000-8000-{number:012d}"


def complete() -> Rows:
    """Hosts with a NUMA node each, and consumers that use both: nothing is missing."""
    rows: Rows = {
        "resource_classes": [
            {"id": VCPU, "name": "VCPU"},
            {"id": MEMORY_MB, "name": "MEMORY_MB"},
            {"id": CUSTOM, "name": "CUSTOM_GOLD"},
        ],
        "traits": [{"id": 1, "name": "HW_CPU_X86_AVX2"}, {"id": 2, "name": "CUSTOM_RAID"}],
        "placement_aggregates": [{"id": 7, "uuid": uuid(7, 1)}],
        "projects": [{"id": 1, "external_id": "project-a"}],
        "users": [{"id": 1, "external_id": "user-a"}],
        "resource_providers": [],
        "inventories": [],
        "resource_provider_traits": [],
        "resource_provider_aggregates": [],
        "consumers": [],
        "allocations": [],
    }
    for number in range(1, HOSTS + 1):
        _add_host(rows, number)
    for number in range(1, CONSUMERS + 1):
        _add_consumer(rows, number)
    return rows


def _add_host(rows: Rows, number: int) -> None:
    host, node = number, 100 + number
    names = {1: "Host-ü", 2: "h\N{CYRILLIC SMALL LETTER O}st", 3: "host 3 "}
    name = names.get(number, f"host-{number}")
    rows["resource_providers"] += [
        _provider(host, name, None, host, generation=number),
        _provider(node, f"node-{number}", host, host, generation=0),
    ]
    for provider, resource_class, total in (
        (host, MEMORY_MB, 65536),
        (node, VCPU, 16),
        (host, CUSTOM, 5),
    ):
        rows["inventories"].append(
            {
                "id": len(rows["inventories"]) + 1,
                "resource_provider_id": provider,
                "resource_class_id": resource_class,
                "total": total,
                "reserved": 1,
                "min_unit": 1,
                "max_unit": total,
                "step_size": 1,
                "allocation_ratio": 1.5,
            }
        )
    rows["resource_provider_traits"].append({"trait_id": 1, "resource_provider_id": node})
    rows["resource_provider_aggregates"].append({"resource_provider_id": host, "aggregate_id": 7})


def _provider(
    key: int, name: str, parent: int | None, root: int | None, generation: int
) -> dict[str, Any]:
    return {
        "id": key,
        "uuid": uuid(1, key),
        "name": name,
        "generation": generation,
        "root_provider_id": root,
        "parent_provider_id": parent,
    }


def _add_consumer(rows: Rows, number: int) -> None:
    host = (number - 1) % HOSTS + 1
    rows["consumers"].append(
        {"id": number, "uuid": uuid(2, number), "project_id": 1, "user_id": 1, "generation": 1}
    )
    for provider, resource_class, used in ((host, MEMORY_MB, 512), (100 + host, VCPU, 2)):
        rows["allocations"].append(
            {
                "id": len(rows["allocations"]) + 1,
                "resource_provider_id": provider,
                "consumer_id": uuid(2, number),
                "resource_class_id": resource_class,
                "used": used,
            }
        )


def with_gaps() -> Rows:
    """The same with two providers without a root and five consumers without a row."""
    rows = complete()
    for row in rows["resource_providers"]:
        if row["id"] in (HOSTS, 100 + HOSTS):
            row["root_provider_id"] = None
            row["parent_provider_id"] = None
    rows["consumers"] = rows["consumers"][:-5]
    return rows


def load(database: Database, rows: Rows) -> None:
    """Write the rows, leaving out columns that the schema does not have yet."""

    def work(tx: Transaction) -> None:
        if tx.dialect == "mysql":
            tx.connection.exec_driver_sql(
                "SET SESSION sql_mode = 'TRADITIONAL,NO_AUTO_VALUE_ON_ZERO'"
            )
        tables = reflect(tx.connection)
        for name, wanted in rows.items():
            columns = set(tables[name].c.keys())
            tx.connection.execute(
                insert(tables[name]),
                [
                    {key: value for key, value in row.items() if key in columns}
                    | {"created_at": MADE, "updated_at": CHANGED}
                    for row in wanted
                ],
            )
            if tx.dialect == "postgresql" and "id" in columns:
                # As the dump of a database does.
                sequence = f"pg_get_serial_sequence('{name}', 'id')"
                tx.connection.exec_driver_sql(f"SELECT setval({sequence}, MAX(id)) FROM {name}")

    database.write(work)


def dump(database: Database) -> Rows:
    """Return every row of every table but the versions, in the order of its keys."""

    def work(tx: Snapshot) -> Rows:
        tables = reflect(tx.connection)
        return {
            name: [
                dict(row)
                for row in tx.connection.execute(
                    select(table).order_by(*table.primary_key.columns)
                ).mappings()
            ]
            for name, table in tables.items()
            if name != "alembic_version"
        }

    return database.snapshot(work)


def reflect(connection: Connection) -> dict[str, Table]:
    """Return the tables as they are in the database, without their indexes and rules."""
    found = inspect(connection)
    keys = found.get_multi_pk_constraint()
    tables = {}
    for (_, name), columns in found.get_multi_columns().items():
        of_key = keys[None, name]["constrained_columns"]
        made = [Column(each["name"], each["type"], primary_key=each["name"] in of_key) for each in columns]
        tables[name] = Table(name, MetaData(), *made)
    return tables


def project(rows: Iterable[dict[str, Any]], columns: Iterable[str]) -> list[dict[str, Any]]:
    """Return the rows with these columns only."""
    wanted = list(columns)
    return [{name: row[name] for name in wanted} for row in rows]
