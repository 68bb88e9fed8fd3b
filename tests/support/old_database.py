"""The database as the OpenStack service (release 16.0.0) knows it, and its transactions.

What :mod:`tests.support.old_service` stands on: no column that this service has added.
"""

import datetime
import random
import time
import uuid as uuids
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection, exc

T = TypeVar("T")
Allocations = Mapping[str, Mapping[str, int]]
"""Amounts by class, by provider uuid."""

ATTEMPTS = 10
DEADLOCK_PAUSE_S = 0.005
DEADLOCKS = (1020, 1205, 1213)
"""What MariaDB says when a transaction must begin anew."""


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
consumer_types = _table("consumer_types", "id", "name")
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


class OldDatabase:
    """The connections of one process of the old service.

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
            tx.execute(sa.insert(table).values({column: name, "created_at": now()}))
            found = tx.scalar(wanted)
        return int(found)

    def _change(self, tx: Connection, provider_id: int, **values: Any) -> None:
        changed = sa.update(providers).where(providers.c.id == provider_id)
        tx.execute(changed.values(updated_at=now(), **values))

    def _step(self, tx: Connection, provider_id: int, generation: int) -> None:
        done = tx.execute(
            sa.update(providers)
            .where(providers.c.id == provider_id, providers.c.generation == generation)
            .values(generation=generation + 1, updated_at=now())
        )
        if done.rowcount != 1:
            raise Conflict("provider")

    def _repeated(self, work: Callable[[Connection], T]) -> T:
        """Run the work in a transaction, again after a conflict or deadlock, as its decorators do.

        :raises Conflict: it was one every time.
        :raises sqlalchemy.exc.DBAPIError: whatever else the database says; a client would read 500.
        """
        for attempt in range(ATTEMPTS):
            try:
                with self.engine.begin() as tx:
                    return work(tx)
            except (Conflict, exc.DBAPIError) as error:
                if not _is_repeated(error):
                    raise
                self.conflicts += 1
                if attempt == ATTEMPTS - 1:
                    raise Conflict(str(error)) from error
                if isinstance(error, exc.OperationalError):
                    # Of a deadlock it begins again after a while, of a conflict at once.
                    time.sleep(random.uniform(0, DEADLOCK_PAUSE_S * 2**attempt))
        raise AssertionError


def _is_repeated(error: Exception) -> bool:
    """Say whether that service begins again, or reads what another has inserted meanwhile."""
    if isinstance(error, Conflict | exc.IntegrityError):
        return True
    cause = error.orig if isinstance(error, exc.DBAPIError) else None
    code = getattr(cause, "pgcode", None) or (getattr(cause, "args", None) or (None,))[0]
    return code in (*DEADLOCKS, "40001", "40P01") or "locked" in str(cause)


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def new_uuid() -> str:
    """Return a uuid that nothing has."""
    return str(uuids.uuid4())
