"""A database whose state can be photographed and put back, and services that play on it.

Each player is what one server process is: an engine, connections and an application of its own. A
run costs milliseconds, because the state before it is put back row by row.
"""

import contextlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import webob
from sqlalchemy import (
    Column,
    Table,
    Text,
    bindparam,
    cast,
    func,
    insert,
    literal_column,
    select,
    text,
    union_all,
    update,
)

from placement.db import database, digests, invariants, models, schema, writes
from placement.db.change import Change
from placement.db.coexistence import watch
from placement.db.database import Database
from placement.db.engine import make_engine
from placement.db.statements import CompiledStatement
from placement.extensions.claims import tables as claims_tables
from tests.support.databases import KINDS, ROUTES, scratch_route
from tests.support.service import Service, configure

NAMED = (models.traits, models.resource_classes)
"""Tables with standard rows that stay; only the custom ones belong to the state."""

CUSTOM = "name LIKE 'CUSTOM!_%' ESCAPE '!'"

KEYS: dict[str, Column[Any]] = {
    "resource_providers": models.resource_providers.c.uuid,
    "resource_classes": models.resource_classes.c.name,
    "traits": models.traits.c.name,
    "placement_aggregates": models.placement_aggregates.c.uuid,
    "projects": models.projects.c.external_id,
    "users": models.users.c.external_id,
    "consumer_types": models.consumer_types.c.name,
    "consumers": models.consumers.c.uuid,
    "consumer_groups": claims_tables.consumer_groups.c.name,
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
    # That of allocations is a uuid already.
    "consumer_id": "consumers",
    "group_id": "consumer_groups",
}
UNTOLD = {
    *("id", "created_at", "updated_at", "slot", "expires_at"),
    *("written_at", "request_id", "global_request_id"),
}
"""Columns in which two equal outcomes may differ."""

QUICK_DEADLOCKS = "options=-c%20deadlock_timeout%3D10ms%20-c%20synchronous_commit%3Doff"
ATTEMPTS = 10
LOCK_WAIT = re.compile(r"LOCK WAIT.*?thread id (\d+),", re.DOTALL)

Rows = Mapping[Table, Sequence[dict[str, Any]]]


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

    ``db`` is the director's own way to the database, which no hook sees. ``turns``: how often a state was put
    back.
    """

    def __init__(
        self, route: str, url: str, players: int, attempts: int = ATTEMPTS, **options: Any
    ) -> None:
        self.route = route
        self.kind, _ = ROUTES[route]
        self.db = _database(url.replace("multi_statements=0", "multi_statements=1"))
        # Players wait for their turns: however long that takes, it ends no search.
        conf = configure(
            "sqlite",
            placement_database__connection=url,
            insight__enabled=True,
            api__search_deadline=0,
            **options,
        )
        with pytest.MonkeyPatch.context() as patched:
            # Whether it is time to look for another service would be up to the clock.
            patched.setattr(watch, "CHECK_EVERY_S", math.inf)
            self.players = [Service(conf, _database(url, attempts)) for _ in range(players)]
        self._revisions: dict[str, int] = {}
        self.turns = 0

    def prepare(self, orders: Sequence[Order]) -> Rows:
        """Begin empty, send the orders, which must all succeed, and return the rows there are."""
        self.put_back({})
        return self.go_on(orders)

    def go_on(self, orders: Sequence[Order]) -> Rows:
        """Send the orders, which must all succeed, and return the rows there are."""
        for order in orders:
            answer = order.send(self.players[0])
            assert answer.status_int < 300, (order, answer.text)
        return self.db.snapshot(lambda tx: {t: _rows(tx, t) for t in _STATE})

    def let_holds_end(self) -> None:
        """Let the time of all holds have come, by the clock of the database."""
        self.db.write(lambda tx: tx.change(_LET_END))

    def put_back(self, rows: Rows) -> None:
        """Make these the rows of the database: one message, where the driver takes several statements."""

        # No revision comes again with other contents: pictures are compared by them.
        self.turns += 1
        providers = [
            {
                **row,
                "revision": row["revision"] + 1000 * self.turns,
                "own_revision": row["own_revision"] + 1000 * self.turns,
            }
            for row in rows.get(models.resource_providers, ())
        ]
        rows = {**rows, models.resource_providers: providers}

        def write(tx: Any) -> None:
            if self.kind == "mysql":
                tx.change_later(_UNCHECKED)
            for table in reversed(_STATE):
                tx.change_later(_STATE[table].delete)
            for table in _STATE:
                for row in rows.get(table, ()):
                    tx.change_later(_STATE[table].insert, row)
            # Who has searched before must see it.
            writes.finish(tx, Change(is_unnamed=True))

        self.db.write(write)
        self._revisions = {row["uuid"]: row["revision"] for row in providers}

    def picture(self) -> str:
        """Return the whole state as text: names for ids, no times, rows in order."""
        shown = _picture(self.db.read(lambda reader: reader.rows(_EVERYTHING[self.kind])))
        for row in shown["resource_providers"]:
            # New providers begin with a random one.
            first = self._revisions.get(row["uuid"])
            row["own_revision"] -= row["revision"]
            row["revision"] = None if first is None else row["revision"] - first
        return json.dumps(shown)

    def assert_sound(self) -> None:
        """No invariant of the promise is violated, nothing is used that is not there, no digest is wrong."""
        found = [f for f in invariants.check(self.db) if f.count]
        assert [f for f in found if f.invariant.broken] == []
        assert self.db.read(lambda reader: reader.column(_OTHERWISE)) == []

    def blocked(self) -> set[int]:
        """Return the connections (PostgreSQL: process ids) that wait for a lock of another."""
        if self.kind == "postgresql":
            statement = "SELECT pid FROM pg_locks WHERE NOT granted"
            return set(self.db.read(lambda c: c.connection.exec_driver_sql(statement).scalars().all()))
        if self.kind == "mysql":
            # information_schema.innodb_trx is a tenth of a second old.
            show = "SHOW ENGINE INNODB STATUS"
            text = self.db.read(lambda c: c.connection.exec_driver_sql(show).one())[2]
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


def _database(url: str, attempts: int = ATTEMPTS) -> Database:
    return Database(make_engine(url, sqlite_synchronous=False), attempts=lambda: attempts)


@contextlib.contextmanager
def stage(
    route: str, players: int = 2, attempts: int = ATTEMPTS, **options: Any
) -> Iterator[Stage]:
    """Make a database to which one of ``ROUTES`` leads, with a stage on it; retries do not pause there.

    :param options: of the players' configuration, by ``<group>__<option>``.
    """
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(scratch_route(route, schema.HEAD))
        if route.startswith("postgresql"):
            url += ("&" if "?" in url else "?") + QUICK_DEADLOCKS
        stack.enter_context(_no_pauses())
        made = Stage(route, url, players, attempts, **options)
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


class _Kept:
    """The statements that read, empty and fill a table whose rows belong to the state."""

    def __init__(self, table: Table) -> None:
        self.names = table.columns.keys()
        rows = select(table).order_by(*table.primary_key.columns)
        deletion = f"DELETE FROM {table.name}"
        if table in NAMED:
            rows = rows.where(table.c.name.like("CUSTOM!_%", escape="!"))
            deletion += f" WHERE {CUSTOM}"
        self.rows = CompiledStatement(rows)
        self.delete = CompiledStatement(text(deletion))
        given = {column: bindparam(column.name, type_=column.type) for column in table.columns}
        self.insert = CompiledStatement(insert(table).values(given))


# What the log of changes says is for searches alone, and how far the scrub is for itself.
_STATE = {
    table: _Kept(table)
    for table in models.whole_metadata().sorted_tables
    if table not in (models.provider_changes, models.scrub)
}
# What the scrub would take for a statement by hand.
_OTHERWISE = CompiledStatement(
    select(models.resource_providers.c.uuid).where(
        models.resource_providers.c.own_revision == models.resource_providers.c.revision,
        models.resource_providers.c.digest != digests.of_provider(),
    )
)
_LET_END = CompiledStatement(update(claims_tables.consumer_holds).values(expires_at=1))
_UNCHECKED = CompiledStatement(text("SET SESSION foreign_key_checks = 0"))


def _rows(tx: Any, table: Table) -> list[dict[str, Any]]:
    kept = _STATE[table]
    return [dict(zip(kept.names, row, strict=True)) for row in tx.rows(kept.rows)]


def _everything(kind: str) -> CompiledStatement:
    """Return one statement for the state: its rows are (name of the table, row as JSON)."""
    parts = []
    for table in _STATE:
        values = {each.name: each for each in table.c if each.name == "id" or each.name not in UNTOLD}
        if table is models.resource_providers:
            # Ids are in it, which depend on the order of requests: what is told is whether it is right.
            values["digest"] = table.c.digest == digests.of_provider()
        pairs = [each for name in values for each in (literal_column(f"'{name}'"), values[name])]
        row = func.json_object(*pairs)
        if kind == "postgresql":
            row = cast(func.json_build_object(*pairs), Text)
        part = select(literal_column(f"'{table.name}'"), row).select_from(table)
        parts.append(part.where(text(CUSTOM)) if table in NAMED else part)
    return CompiledStatement(union_all(*parts))


_EVERYTHING = {kind: _everything(kind) for kind in KINDS}


def _picture(packed: Sequence[tuple[str, str]]) -> dict[str, Any]:
    rows: dict[str, list[dict[str, Any]]] = {table.name: [] for table in _STATE}
    for table, row in packed:
        rows[table].append(json.loads(row))
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
