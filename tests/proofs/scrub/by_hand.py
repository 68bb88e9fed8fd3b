"""Statements by hand: what somebody writes into the tables beside the service, on the cloud of two halves.

Of each table one row of the struck half is deleted, copied and changed, one column at a time, as far as the
schema allows it. To them come the statements of public pages on how to clean up.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Executable, Table, delete, exc, insert, select, text, update

from placement.db import models
from placement.db.database import Database
from placement.extensions.claims import tables as claims_tables
from tests.support import damage
from tests.support.damage import GONE_UUID, SOUND, STRUCK

SKIPPED = {
    "coexistence": "a row says that another service writes too: it is a switch",
    "scrub": "how far the scrub is: test_scrub_row.py",
    "history": "nothing is derived of it, and it of nothing",
}
"""Tables that no line changes, and why."""

ROWS = damage.ROWS | {
    "resource_providers": {"uuid": STRUCK.uuid("child")},
    "consumers": {"uuid": STRUCK.uuid("plain")},
    "provider_changes": {"slot": 7},
    "capacity_records": {"shape": "small"},
}
"""The row of each table that is written."""

FRESH = {
    "resource_providers": "uuid name",
    "inventories": "resource_class_id",
    "allocations": "consumer_id",
    "consumers": "uuid",
    "resource_provider_traits": "trait_id",
    "resource_provider_aggregates": "aggregate_id",
    "owner_usages": "slot",
    "provider_changes": "slot",
    "consumer_group_members": "consumer_id consumer_uuid",
    "consumer_holds": "consumer_id consumer_uuid",
    "capacity_records": "recorded_at",
    "placement_aggregates": "uuid",
    "projects": "external_id",
    "users": "external_id",
}
"""Columns in which a copy of the row differs from it; else its name."""

LONG_AGO = datetime(2020, 2, 2)

VALUES: dict[str, Any] = {
    "id": 987_654,
    "created_at": LONG_AGO,
    "updated_at": LONG_AGO,
    "uuid": GONE_UUID,
    "name": "CUSTOM_BY_HAND",
    "external_id": "by-hand",
    "rule": "together",
    "aggregates": GONE_UUID,
    "shape": "large",
    "recent": "",
    # The log and the sums have slots from 0 on.
    "slot": 77,
    "allocation_ratio": 0.5,
    "reserved": 2,
    **dict.fromkeys(("total", "max_unit"), 3),
    **dict.fromkeys(("min_unit", "step_size"), 2),
    **dict.fromkeys(("generation", "own_generation", "revision", "own_revision", "digest"), 77),
    **dict.fromkeys(("used", "at_most", "mark", "placements", "recorded_at", "expires_at"), 7),
}
"""What is written into a column of this name."""


def _select_id(table: Table, column: str, value: str) -> Executable:
    return select(table.c.id).where(table.c[column] == value)


_spare = _select_id(models.resource_providers, "uuid", STRUCK.uuid("spare"))
_consumers = models.consumers


def _uuid_of_consumer(what: str) -> Executable:
    return select(_consumers.c.uuid).where(_consumers.c.uuid == STRUCK.uuid(what))


LOOKED_UP: dict[str, Executable] = {
    "allocations.consumer_id": _uuid_of_consumer("other"),
    "consumer_group_members.consumer_id": _select_id(_consumers, "uuid", STRUCK.uuid("plain")),
    "consumer_group_members.consumer_uuid": _uuid_of_consumer("plain"),
    "consumer_holds.consumer_id": _select_id(_consumers, "uuid", STRUCK.uuid("other")),
    "consumer_holds.consumer_uuid": _uuid_of_consumer("other"),
    **dict.fromkeys(("root_provider_id", "parent_provider_id", "resource_provider_id"), _spare),
    "resource_class_id": _select_id(models.resource_classes, "name", "VGPU"),
    "trait_id": _select_id(models.traits, "name", "HW_CPU_X86_VMX"),
    "aggregate_id": _select_id(models.placement_aggregates, "uuid", SOUND.uuid("aggregate")),
    "project_id": _select_id(models.projects, "external_id", SOUND.name),
    "user_id": _select_id(models.users, "external_id", SOUND.name),
    "consumer_type_id": _select_id(models.consumer_types, "name", SOUND.name),
    "group_id": _select_id(claims_tables.consumer_groups, "name", SOUND.name),
}
"""Another row that a column may point to."""


@dataclass(frozen=True)
class ByHand:
    """What somebody writes. ``write``: given the connection, returns how many rows it has written."""

    name: str
    write: Callable[[Connection], int]

    def __str__(self) -> str:
        return self.name.replace(" ", "-")

    def apply(self, db: Database) -> bool:
        """Write it, and say whether the schema allows it."""
        with db.engine.connect() as connection:
            try:
                assert self.write(connection), f"{self} has written nothing"
                connection.commit()
            except exc.IntegrityError:
                connection.rollback()
                return False
        return True


def _value_of(table: Table, column: str) -> Callable[[Connection], Any]:
    """Return what gives the value of a column: looked up before, since MariaDB does not in the same table.

    :raises KeyError: a new column has none yet, which every run shall see, not the one that draws its line.
    """
    looked_up = LOOKED_UP.get(f"{table.name}.{column}", LOOKED_UP.get(column))
    if looked_up is not None:
        return lambda connection: connection.execute(looked_up).scalar_one()
    value = VALUES[column]
    return lambda _: value


def _is_struck(table: Table) -> list[Any]:
    return [table.c[column] == value for column, value in ROWS[table.name].items()]


def _change(table: Table, column: str) -> ByHand:
    # No time of the last change is written beside it.
    kept = {"updated_at": table.c.updated_at} if "updated_at" in table.c else {}
    value_of = _value_of(table, column)

    def write(connection: Connection) -> int:
        values = {**kept, column: value_of(connection)}
        return connection.execute(update(table).where(*_is_struck(table)).values(values)).rowcount

    return ByHand(f"change {table.name} {column}", write)


def _delete(table: Table) -> ByHand:
    statement = delete(table).where(*_is_struck(table))
    return ByHand(f"delete {table.name}", lambda connection: connection.execute(statement).rowcount)


def _copy(table: Table) -> ByHand:
    fresh = {column: _value_of(table, column) for column in FRESH.get(table.name, "name").split()}

    def write(connection: Connection) -> int:
        row = dict(
            connection.execute(select(table).where(*_is_struck(table))).mappings().first() or {}
        )
        row.pop("id", None)
        row |= {column: value_of(connection) for column, value_of in fresh.items()}
        return connection.execute(insert(table).values(row)).rowcount

    return ByHand(f"insert {table.name}", write)


def _of_tables(tables: Iterable[Table]) -> list[ByHand]:
    return [
        line
        for table in tables
        if table.name not in SKIPPED
        for line in (
            _delete(table),
            _copy(table),
            *(_change(table, name) for name in table.c.keys()),  # noqa: SIM118
        )
    ]


def _id_of(provider: str) -> str:
    return f"(SELECT id FROM resource_providers WHERE uuid = '{STRUCK.uuid(provider)}')"


_ROOT, _CHILD, _SHARE, _SPARE = map(_id_of, ("root", "child", "share", "spare"))
_PLAIN = STRUCK.uuid("plain")
_VCPU = "(SELECT id FROM resource_classes WHERE name = 'VCPU')"
_PROJECT = "(SELECT id FROM projects WHERE external_id = '{}')"
_PARTS = ("allocations", "inventories", "resource_provider_traits", "resource_provider_aggregates")


def _remove(uuid_of: str) -> tuple[str, ...]:
    """Return the statements that remove a provider with all it has."""
    parts = (
        f"DELETE FROM {part} WHERE resource_provider_id = {_id_of(uuid_of)}" for part in _PARTS
    )
    return (*parts, f"DELETE FROM resource_providers WHERE uuid = '{STRUCK.uuid(uuid_of)}'")


# The name of a line, and its statements. The last of them must find something.
PAGES: dict[str, tuple[str, ...]] = {
    "delete a consumer and what it holds": (
        f"DELETE FROM allocations WHERE consumer_id = '{_PLAIN}'",
        f"DELETE FROM consumers WHERE uuid = '{_PLAIN}'",
    ),
    "delete allocations without a consumer": (
        f"DELETE FROM consumers WHERE uuid = '{_PLAIN}'",
        "DELETE FROM allocations WHERE consumer_id NOT IN (SELECT uuid FROM consumers)",
    ),
    "delete the allocations of a host": (
        f"DELETE FROM allocations WHERE resource_provider_id = {_ROOT}",
    ),
    "delete all allocations": ("DELETE FROM allocations",),
    "move what is on a host": (
        f"UPDATE allocations SET resource_provider_id = {_SPARE} WHERE resource_provider_id = {_ROOT}"
        f" AND resource_class_id = {_VCPU}",
    ),
    "claim all that a host has": (
        f"UPDATE allocations SET used = 100, resource_provider_id = {_SPARE}"
        f" WHERE consumer_id = '{_PLAIN}' AND resource_class_id = {_VCPU}",
    ),
    "change the ratio of all hosts": (
        f"UPDATE inventories SET allocation_ratio = 4.0 WHERE resource_class_id = {_VCPU}",
    ),
    "reserve a host": (
        f"UPDATE inventories SET reserved = total WHERE resource_provider_id = {_ROOT}",
    ),
    "insert a trait": (
        "INSERT INTO traits (name) VALUES ('CUSTOM_BY_HAND')",
        "INSERT INTO resource_provider_traits (trait_id, resource_provider_id)"
        f" SELECT id, {_ROOT} FROM traits WHERE name = 'CUSTOM_BY_HAND'",
    ),
    "put a host into an aggregate": (
        "INSERT INTO resource_provider_aggregates (aggregate_id, resource_provider_id)"
        f" SELECT id, {_SPARE} FROM placement_aggregates WHERE uuid = '{STRUCK.uuid('aggregate')}'",
    ),
    "delete a provider and what it has": _remove("share"),
    "delete a tree and what it has": (*_remove("child"), *_remove("root")),
    "insert a host": (
        f"INSERT INTO resource_providers (uuid, name, generation) VALUES ('{GONE_UUID}', 'by hand', 0)",
        "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit,"
        f" max_unit, step_size, allocation_ratio) SELECT id, {_VCPU}, 8, 0, 1, 8, 1, 1.0"
        f" FROM resource_providers WHERE uuid = '{GONE_UUID}'",
    ),
    "give consumers to another project": (
        f"UPDATE consumers SET project_id = {_PROJECT.format(SOUND.name)}"
        f" WHERE project_id = {_PROJECT.format(STRUCK.name)}",
    ),
    "begin to count generations anew": ("UPDATE resource_providers SET generation = 0",),
    "say that nothing is used": ("UPDATE inventories SET used = 0",),
    "forget the sums of owners": ("DELETE FROM owner_usages",),
    "restore an old table of inventories": (
        "UPDATE inventories SET total = total + 5, used = 0",
    ),
    "restore no associations": (
        "DELETE FROM resource_provider_traits",
        "DELETE FROM resource_provider_aggregates",
    ),
}


def _page(name: str, statements: tuple[str, ...]) -> ByHand:
    def write(connection: Connection) -> int:
        return [connection.execute(text(each)).rowcount for each in statements][-1]

    return ByHand(name, write)


LINES = [*_of_tables(models.whole_metadata().sorted_tables), *(_page(*each) for each in PAGES.items())]
