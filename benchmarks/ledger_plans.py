"""Fill a ledger of half a million allocations and show how the ledger's statements are answered.

    python -m benchmarks.ledger_plans postgresql://postgres@127.0.0.1/scratch [--allocations 500000]

The database must be empty. Every statement that the requests of the ledger send is captured as it goes to
the driver and explained with its parameters. Exit status 1 if a table is read from end to end.
"""

import argparse
import sys
import uuid
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, insert, select, update

from benchmarks.statements import Requests
from placement.db import models, owner_usage_rows, schema, standard_names
from placement.db.database import Database
from placement.db.engine import make_engine
from placement.db.transport import Message, Observer

PER_CONSUMER = 3
HOSTS = 10_000
BATCH = 5_000
OWNERS = 5_000
ANALYZE = {
    "mysql": (
        "ANALYZE TABLE allocations, consumers, inventories, resource_providers, projects, users,"
        " owner_usages",
    )
}
# Small by nature, and never more than a page or two: reading them whole is the best plan.
SMALL = ("resource_classes", "consumer_types", "traits")


def fill(db: Database, allocations: int) -> None:
    """Insert hosts with inventory, owners, and consumers with three allocations each."""
    consumers = allocations // PER_CONSUMER
    now = models.now()
    providers = models.resource_providers
    insert_all(
        db,
        providers,
        [
            {
                "uuid": str(uuid.UUID(int=number)),
                "name": f"host-{number}",
                "generation": 0,
                "created_at": now,
            }
            for number in range(HOSTS)
        ],
    )
    db.write(lambda tx: tx.connection.execute(update(providers).values(root_provider_id=providers.c.id)))
    host_ids = ids_of(db, providers)
    per_host = -(-consumers // HOSTS)
    insert_all(
        db,
        models.inventories,
        [
            {
                "resource_provider_id": host_id,
                "resource_class_id": class_id,
                "total": 10**6,
                "reserved": 0,
                "min_unit": 1,
                "max_unit": 10**6,
                "step_size": 1,
                "allocation_ratio": 1.0,
                "used": per_host,
            }
            for host_id in host_ids
            for class_id in range(PER_CONSUMER)
        ],
    )
    for table, prefix in ((models.projects, "project"), (models.users, "user")):
        insert_all(db, table, [{"external_id": f"{prefix}-{n}"} for n in range(OWNERS)])
    project_ids, user_ids = ids_of(db, models.projects), ids_of(db, models.users)
    uuids = [str(uuid.UUID(int=(1 << 100) + number)) for number in range(consumers)]
    insert_all(
        db,
        models.consumers,
        [
            {
                "uuid": each,
                "project_id": project_ids[number % OWNERS],
                "user_id": user_ids[number % OWNERS],
                "generation": 1,
            }
            for number, each in enumerate(uuids)
        ],
    )
    insert_all(
        db,
        models.allocations,
        [
            {
                "consumer_id": each,
                "resource_provider_id": host_ids[number % HOSTS],
                "resource_class_id": class_id,
                "used": 1,
                "created_at": now,
            }
            for number, each in enumerate(uuids)
            for class_id in range(PER_CONSUMER)
        ],
    )
    each = -(-consumers // OWNERS)
    accounts = [
        {
            "project_id": project_id,
            "user_id": user_id,
            "consumer_type_id": owner_usage_rows.NO_TYPE,
            "resource_class_id": class_id,
            "slot": 0,
            "used": each,
        }
        for project_id, user_id in zip(project_ids, user_ids, strict=True)
        for class_id in (owner_usage_rows.CONSUMERS, *range(PER_CONSUMER))
    ]
    insert_all(db, models.owner_usages, accounts)
    with db.engine.connect() as connection:
        for statement in ANALYZE.get(db.dialect, ("ANALYZE",)):
            connection.exec_driver_sql(statement)


def ids_of(db: Database, table: Any) -> list[int]:
    """Return the ids of a table in order."""
    return db.read(lambda c: list(c.connection.scalars(select(table.c.id).order_by(table.c.id))))


def insert_all(db: Database, table: Any, rows: list[dict[str, Any]]) -> None:
    """Insert the rows in transactions of a moderate size."""
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        db.write(lambda tx, part=part: tx.connection.execute(insert(table), part))


class Captured(Observer):
    """The statements that are sent from now on."""

    def __init__(self, db: Database) -> None:
        self.statements: list[tuple[str, Any]] = []
        db.observers.append(self)

    def before(self, connection: Connection, sent: Message) -> None:
        """Keep what has a plan."""
        for text, parameters, _ in sent.statements:
            if text.startswith(("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")):
                self.statements.append((text, parameters))


def plan(db: Database, statement: str, parameters: Any) -> Iterator[str]:
    """Return the lines of the database's plan."""
    word = "EXPLAIN QUERY PLAN " if db.dialect == "sqlite" else "EXPLAIN "
    with db.engine.connect() as connection:
        cursor = connection.connection.cursor()
        cursor.execute(word + statement, parameters)
        for row in cursor.fetchall():
            yield " ".join(str(value) for value in row)


def reads_everything(dialect: str, line: str) -> bool:
    """The line of a plan says that a large table is read from end to end."""
    if any(name in line for name in SMALL):
        return False
    if dialect == "postgresql":
        return "Seq Scan on" in line
    if dialect == "sqlite":
        return "SCAN " in line and "USING" not in line
    return " ALL " in line


def main() -> int:
    """Fill, send each request, explain what it sent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--allocations", type=int, default=500_000)
    options = parser.parse_args()
    db = Database(make_engine(options.url))
    schema.sync(db)
    standard_names.synchronise(db)
    fill(db, options.allocations)
    captured = Captured(db)
    whole: list[str] = []
    explained: set[str] = set()
    requests = Requests(db)
    for name, send in requests.every():
        captured.statements.clear()
        send()
        if requests.status >= 400 and not name.startswith(("refused", "delete of an unknown consumer")):
            raise SystemExit(f"{name}: {requests.status}")
        for statement, parameters in list(captured.statements):
            if statement in explained:
                continue
            explained.add(statement)
            if statement.startswith("INSERT"):
                continue
            lines = list(plan(db, statement, parameters))
            print(f"\n== {name}\n{statement}\n  " + "\n  ".join(lines))
            whole += [line for line in lines if reads_everything(db.dialect, line)]
    print(f"\n{len(explained)} statements, {len(whole)} whole tables read")
    return 1 if whole else 0


if __name__ == "__main__":
    sys.exit(main())
