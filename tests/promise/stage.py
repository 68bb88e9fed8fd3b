"""A database whose state can be photographed and put back, and services that play on it.

Each player is what one server process is: an engine, connections and an application of its own. A
run costs milliseconds, because the state before it is put back row by row.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import webob
from sqlalchemy import Column, Table, insert, select

from placement.db import change_rows, database, invariants, models, schema
from placement.db.database import Database
from placement.db.engine import make_engine
from tests.support.databases import scratch_database
from tests.support.service import Service, configure

NAMED = (models.traits, models.resource_classes)
"""Tables with standard rows that stay; only the custom ones belong to the state."""

KEYS: dict[str, Column[Any]] = {
    "resource_providers": models.resource_providers.c.uuid,
    "resource_classes": models.resource_classes.c.name,
    "traits": models.traits.c.name,
    "placement_aggregates": models.placement_aggregates.c.uuid,
    "projects": models.projects.c.external_id,
    "users": models.users.c.external_id,
    "consumer_types": models.consumer_types.c.name,
}
REFERENCES = {
    "root_provider_id": "resource_providers",
    "parent_provider_id": "resource_providers",
    "resource_provider_id": "resource_providers",
    "resource_class_id": "resource_classes",
    "trait_id": "traits",
    "aggregate_id": "placement_aggregates",
    "project_id": "projects",
    "user_id": "users",
    "consumer_type_id": "consumer_types",
}
UNTOLD = {"id", "created_at", "updated_at", "slot"}
"""Columns in which two equal outcomes may differ."""

QUICK_DEADLOCKS = "options=-c%20deadlock_timeout%3D10ms%20-c%20synchronous_commit%3Doff"
LOCK_WAIT = re.compile(r"LOCK WAIT.*?thread id (\d+),", re.DOTALL)

Rows = Mapping[Table, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Order:
    """One request, to be sent or repeated."""

    method: str
    path: str
    body: Any = None
    version: str = "1.39"

    def send(self, service: Service) -> webob.Response:
        """Send it as an admin with the service role."""
        return service.request(
            self.method, self.path, json=self.body, version=self.version, x_roles="admin,service"
        )


class Stage:
    """One scratch database, with players on it.

    ``db`` is the director's own way to the database, which no hook sees.
    """

    def __init__(self, kind: str, url: str, players: int) -> None:
        self.kind = kind
        self.url = url
        self.db = self._database()
        schema.sync(self.db)
        conf = configure("sqlite", placement_database__connection=url)
        self.players = [Service(conf, self._database()) for _ in range(players)]
        deletions = [_deletion(table) for table in reversed(_state_tables())]
        # One journey where the driver takes several statements at once.
        self._clear = ["; ".join(deletions)] if kind == "postgresql" else deletions
        self._revisions: dict[str, int] = {}

    def _database(self) -> Database:
        return Database(make_engine(self.url, sqlite_synchronous=False))

    def prepare(self, orders: Sequence[Order]) -> Rows:
        """Begin empty, send the orders, which must all succeed, and return the rows there are."""
        self.put_back({})
        for order in orders:
            answer = order.send(self.players[0])
            assert answer.status_int < 300, (order, answer.text)
        return self.db.snapshot(lambda tx: {t: _rows(tx, t) for t in _state_tables()})

    def put_back(self, rows: Rows) -> None:
        """Make these the rows of the database."""

        def write(tx: Any) -> None:
            if self.kind == "mysql":
                tx.exec_driver_sql("SET SESSION foreign_key_checks = 0")
            for clear in self._clear:
                tx.exec_driver_sql(clear)
            for table, kept in rows.items():
                if kept:
                    tx.execute(insert(table), kept)
            # Who has searched before must see it.
            change_rows.note_many(tx)

        self.db.write(write)
        providers = rows.get(models.resource_providers, ())
        self._revisions = {row["uuid"]: row["revision"] for row in providers}

    def picture(self) -> str:
        """Return the whole state as text: names for ids, no times, rows in order."""
        shown = self.db.snapshot(_picture)
        for row in shown["resource_providers"]:
            # New providers begin with a random one.
            first = self._revisions.get(row["uuid"])
            row["revision"] = None if first is None else row["revision"] - first
        return json.dumps(shown, default=str)

    def assert_sound(self) -> None:
        """No invariant of the promise is violated, and nothing is used that is not there."""
        found = [f for f in invariants.check(self.db) if f.count]
        assert [f for f in found if f.invariant.broken] == []

    def blocked(self) -> set[int]:
        """Return the connections (PostgreSQL: process ids) that wait for a lock of another."""
        if self.kind == "postgresql":
            statement = "SELECT pid FROM pg_locks WHERE NOT granted"
            return set(self.db.read(lambda c: c.exec_driver_sql(statement).scalars().all()))
        if self.kind == "mysql":
            # information_schema.innodb_trx is a tenth of a second old.
            show = "SHOW ENGINE INNODB STATUS"
            text = self.db.read(lambda c: c.exec_driver_sql(show).one())[2]
            found = map(LOCK_WAIT.search, text.split("---TRANSACTION"))
            return {int(match.group(1)) for match in found if match}
        return set()

    def close(self) -> None:
        """Close all connections."""
        for each in (self.db, *(player.db for player in self.players)):
            each.dispose()


def connection_id(kind: str, connection: Any) -> int:
    """Return how :meth:`Stage.blocked` names a SQLAlchemy connection."""
    return driver_id(kind, connection.connection.dbapi_connection)


def driver_id(kind: str, driver: Any) -> int:
    """Return the same of a connection of the driver."""
    if kind == "postgresql":
        return int(driver.info.backend_pid)
    return int(driver.thread_id()) if kind == "mysql" else id(driver)


@contextlib.contextmanager
def stage(kind: str, players: int = 2) -> Iterator[Stage]:
    """Make a database of this kind with a stage on it; retries do not pause there."""
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(scratch_database(kind)).replace("mysql+pymysql", "mysql")
        if kind == "postgresql":
            url += ("&" if "?" in url else "?") + QUICK_DEADLOCKS
        stack.enter_context(_no_pauses())
        made = Stage(kind, url, players)
        stack.callback(made.close)
        yield made


@contextlib.contextmanager
def _no_pauses() -> Iterator[None]:
    """The scheduler decides when an attempt begins, not a random pause."""
    before, database.RETRY_WAIT_S = database.RETRY_WAIT_S, 0.0
    try:
        yield
    finally:
        database.RETRY_WAIT_S = before


def _state_tables() -> list[Table]:
    # What the log of changes says is for searches alone.
    return [table for table in models.metadata.sorted_tables if table is not models.provider_changes]


def _is_state(table: Table) -> Any:
    return table.c.name.like("CUSTOM!_%", escape="!") if table in NAMED else None


def _deletion(table: Table) -> str:
    condition = " WHERE name LIKE 'CUSTOM!_%%' ESCAPE '!'" if table in NAMED else ""
    return f"DELETE FROM {table.name}{condition}"


def _rows(tx: Any, table: Table) -> list[dict[str, Any]]:
    statement = select(table).order_by(*table.primary_key.columns)
    condition = _is_state(table)
    if condition is not None:
        statement = statement.where(condition)
    return [dict(row) for row in tx.execute(statement).mappings()]


def _picture(tx: Any) -> dict[str, Any]:
    rows = {table.name: _rows(tx, table) for table in _state_tables()}
    names = {
        table: {row["id"]: row[key.name] for row in rows[table]} for table, key in KEYS.items()
    }
    shown = {table: [_told(row, names) for row in kept] for table, kept in rows.items()}
    shown["owner_usages"] = _summed(shown["owner_usages"])
    return {table: sorted(kept, key=str) for table, kept in sorted(shown.items())}


def _told(row: Mapping[str, Any], names: Mapping[str, Mapping[int, str]]) -> dict[str, Any]:
    told = {name: value for name, value in row.items() if name not in UNTOLD}
    for column in told.keys() & REFERENCES.keys():
        value = told[column]
        told[column] = names[REFERENCES[column]].get(value, value)
    return told


def _summed(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Usage by owner without its slots; what is zero is not there."""
    sums: dict[tuple[Any, ...], int] = {}
    for row in rows:
        key = tuple((name, value) for name, value in row.items() if name != "used")
        sums[key] = sums.get(key, 0) + row["used"]
    return [{**dict(key), "used": used} for key, used in sums.items() if used]
