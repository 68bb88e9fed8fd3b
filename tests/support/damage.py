"""A cloud of two halves, and what may be missing, wrong or NULL in the rows of one of them.

The halves share nothing but standard names, so whatever is done to a row of the struck half leaves the other
one sound. Each line of ``TABLE`` does one thing to one row.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, literal_column, select, update

from placement.db import models
from placement.db.database import Database
from placement.extensions.claims import tables as claims_tables
from tests.support import bodies
from tests.support.client import Sender
from tests.support.world import World

SHARES = "MISC_SHARES_VIA_AGGREGATE"
NUMBERS = (
    "root",
    "child",
    "share",
    "spare",
    "aggregate",
    "plain",
    "member",
    "other",
    "held",
    "new",
)


@dataclass(frozen=True)
class Half:
    """The names of one half: all of them say which it is.

    A tree of ``root`` and ``child``, and ``share``, which shares with it in ``aggregate``; ``spare`` has
    nothing but room. ``plain`` holds something of all three; ``member`` and ``other`` are apart in a group.
    """

    name: str
    digit: str

    def uuid(self, what: str) -> str:
        """Return the uuid of a provider, a consumer or the aggregate."""
        return f"{self.digit * 8}-0000-4000-8000-{NUMBERS.index(what):012}"

    @property
    def providers(self) -> list[str]:
        """Children come before their parents; the first is not there at first."""
        return [self.uuid(each) for each in ("new", "child", "root", "share", "spare")]

    @property
    def consumers(self) -> list[str]:
        """The last is not there at first."""
        return [self.uuid(each) for each in ("plain", "member", "other", "held", "new")]

    @property
    def custom(self) -> str:
        """The name of a class and of a trait."""
        return f"CUSTOM_{self.name}"

    @property
    def query(self) -> str:
        """A claim of one consumer of this half."""
        return f"resources=VCPU:1&in_tree={self.uuid('root')}"

    def claim(self, what: str, generation: int | None = None, **more: Any) -> dict[str, Any]:
        """Return what a claim decided here says of one consumer."""
        owner = {"project_id": self.name, "user_id": self.name, "consumer_type": self.name}
        known = {"consumer_uuid": self.uuid(what), "consumer_generation": generation}
        return {**known, **owner, "query": self.query, **more}

    def entry(self, sets: bodies.Sets, generation: int | None) -> dict[str, Any]:
        """Return what a plain write says of one consumer."""
        owner = {"project_id": self.name, "user_id": self.name, "consumer_type": self.name}
        return bodies.entry(sets, generation, **owner)

    def make(self, sender: Sender) -> None:
        """Let the service make the half."""
        world = World(sender)
        aggregate, root = self.uuid("aggregate"), self.uuid("root")
        for what, parent, stock, traits, aggregates in (
            ("root", None, {"VCPU": 16, self.custom: 8}, [self.custom], [aggregate]),
            ("child", root, {"VGPU": 4, self.custom: 4}, ["HW_GPU_API_VULKAN"], []),
            ("share", None, {"DISK_GB": 1000}, [SHARES, self.custom], [aggregate]),
            ("spare", None, {"VCPU": 100, "VGPU": 100, "DISK_GB": 100}, [], []),
        ):
            name = f"{self.name}-{what}"
            world.provider(name, parent, stock, traits, aggregates, self.uuid(what))
        sets = {root: {"VCPU": 1, self.custom: 1}, self.uuid("child"): {self.custom: 1, "VGPU": 1}}
        sets[self.uuid("share")] = {"DISK_GB": 10}
        world.call("PUT", f"/allocations/{self.uuid('plain')}", self.entry(sets, None))
        rule = {"rule": "apart", "at_most": 4, "level": "aggregate", "of": [aggregate]}
        members = [self.claim(each, groups=[self.name]) for each in ("member", "other")]
        world.call("POST", "/-/claims", {"claims": members, "groups": {self.name: rule}})
        world.call("POST", "/-/claims", {"claims": [self.claim("held")], "hold_s": 86_400})


SOUND, STRUCK = Half("SOUND", "a"), Half("STRUCK", "b")


def questions(half: Half) -> Iterator[str]:
    """Yield what one may ask about a half; of these the answers stay as they were for the sound one."""
    yield from wide_questions(half)
    yield from (f"/resource_classes/{half.custom}", f"/traits/{half.custom}", "", "/")
    yield from ("/resource_classes", "/traits", "/traits?associated=true")
    for uuid in half.providers:
        yield f"/resource_providers/{uuid}"
        for part in ("inventories", f"inventories/{half.custom}", "usages", "aggregates"):
            yield f"/resource_providers/{uuid}/{part}"
        yield from (f"/resource_providers/{uuid}/{part}" for part in ("traits", "allocations"))
        yield f"/-/trees/{uuid}?allocations=true"
    yield from (f"/allocations/{uuid}" for uuid in half.consumers)
    yield from (f"/usages?project_id={half.name}{more}" for more in ("", f"&user_id={half.name}"))
    yield from (f"/-/groups/{half.name}", "/-/holds")


def wide_questions(half: Half) -> Iterator[str]:
    """Yield those that look at all providers."""
    root, child, aggregate = half.uuid("root"), half.uuid("child"), half.uuid("aggregate")
    for query in (
        *("", f"?in_tree={child}", "?resources=VCPU:1", f"?resources={half.custom}:1"),
        *(f"?required={half.custom}", f"?member_of={aggregate}", f"?uuid={child}"),
        f"?name={half.name}-child",
    ):
        yield f"/resource_providers{query}"
    mixed = f"resources=VCPU:1&resources_A={half.custom}:1&resources_B=DISK_GB:1&group_policy=none"
    for query in (
        *("resources=VCPU:1", "resources=VCPU:1,DISK_GB:1", f"resources={half.custom}:1", mixed),
        *(f"resources=VCPU:1&in_tree={root}", f"resources=VCPU:1,VGPU:1&in_tree={child}"),
        *(f"resources=VCPU:1&required={half.custom}", f"resources=VCPU:1&member_of={aggregate}"),
        f"resources_A={half.custom}:1&resources_B=VGPU:1&group_policy=none&same_subtree=_A,_B",
    ):
        yield f"/allocation_candidates?{query}"
    yield from ("/-/trees", "/-/trees?allocations=true")


def figures(half: Half) -> Iterator[str]:
    """Yield what adds up the whole cloud."""
    query = f"resources=VCPU:1,DISK_GB:1&required={half.custom}"
    yield from (f"/-/explain?{query}", f"/-/capacity?{query}", f"/-/capacity?{query}&by=aggregates")
    yield from ("/-/capacity?shape=*", "/-/capacity/history?shape=small", "/-/metrics")
    yield from ("/-/survival", "/-/survival?level=aggregate", "/-/explorer", "/-/explorer/")
    yield from ("/-/explorer/main.js", "/-/links", "/-/changes", "/-/history")


GONE_ID, GONE_UUID = 987_654, "cccccccc-0000-4000-8000-000000000009"


def _id(table: Table, column: str, what: str) -> Any:
    """Look up the id of a row of the struck half by its uuid, or by its name."""
    name = STRUCK.custom if what == "custom" else STRUCK.name
    known = STRUCK.uuid(what) if what in NUMBERS else name
    return select(table.c.id).where(table.c[column] == known).scalar_subquery()


def _provider(what: str) -> Any:
    return _id(models.resource_providers, "uuid", what)


def _consumer(what: str) -> Any:
    return _id(models.consumers, "uuid", what)


_CLASS = _id(models.resource_classes, "name", "custom")
_TRAIT = _id(models.traits, "name", "custom")
_AGGREGATE = _id(models.placement_aggregates, "uuid", "aggregate")

# The row that is struck, by its table: what its columns are. Of providers and consumers a damage says which.
ROWS: dict[str, dict[str, Any]] = {
    "inventories": {"resource_provider_id": _provider("root"), "resource_class_id": _CLASS},
    "allocations": {"consumer_id": STRUCK.uuid("plain"), "resource_provider_id": _provider("root"),
                    "resource_class_id": _CLASS},
    "consumer_types": {"name": STRUCK.name},
    "projects": {"external_id": STRUCK.name},
    "users": {"external_id": STRUCK.name},
    "resource_classes": {"name": STRUCK.custom},
    "traits": {"name": STRUCK.custom},
    "placement_aggregates": {"uuid": STRUCK.uuid("aggregate")},
    "resource_provider_traits": {"resource_provider_id": _provider("share"), "trait_id": _TRAIT},
    "resource_provider_aggregates": {"resource_provider_id": _provider("share"),
                                     "aggregate_id": _AGGREGATE},
    "owner_usages": {"project_id": _id(models.projects, "external_id", "name"),
                     "resource_class_id": _CLASS},
    "consumer_groups": {"name": STRUCK.name},
    "consumer_group_members": {"consumer_id": _consumer("member")},
    "consumer_holds": {"consumer_id": _consumer("held")},
    "provider_changes": {"slot": 7},
    "capacity_records": {"shape": "small"},
    "scrub": {"id": 1},
    "history": {"consumer_uuid": STRUCK.uuid("plain")},
}  # fmt: skip

PARTNERS = {
    "allocations.consumer_id": models.consumers.c.uuid,
    "consumer_groups.aggregates": models.placement_aggregates.c.uuid,
    "consumer_holds.consumer_id": models.consumers.c.id,
    "consumer_group_members.consumer_id": models.consumers.c.id,
    "consumer_holds.consumer_uuid": models.consumers.c.uuid,
    "consumer_group_members.consumer_uuid": models.consumers.c.uuid,
    "root_provider_id": models.resource_providers.c.id,
    "parent_provider_id": models.resource_providers.c.id,
    "resource_provider_id": models.resource_providers.c.id,
    "resource_class_id": models.resource_classes.c.id,
    "project_id": models.projects.c.id,
    "user_id": models.users.c.id,
    "consumer_type_id": models.consumer_types.c.id,
    "trait_id": models.traits.c.id,
    "aggregate_id": models.placement_aggregates.c.id,
    "group_id": claims_tables.consumer_groups.c.id,
}
"""What a column points to, by its name, or by those of table and column."""

NOT_REFERENCES = {"external_id", "request_id", "global_request_id"}
"""Columns that are named as if they pointed to a row."""


def partner(table: str, column: str) -> Any:
    """Return the column that this one points to, None if it points to none."""
    return PARTNERS.get(f"{table}.{column}", PARTNERS.get(column))


NO_NUMBERS = {
    "nan": ("postgresql",),
    "inf": ("sqlite", "postgresql"),
    "-inf": ("sqlite", "postgresql"),
    "text": ("sqlite",),
}
"""What a column of floats may hold that is no number, and where."""

OTHER_TYPES = {"text": "'text'", "empty": "''", "blob": "x'00'", "huge": "1e300", "fraction": "0.5"}
"""What SQLite holds in a column of whole numbers, as it is written in SQL."""

OTHER_BYTES = {
    "bytes": "CAST(coalesce({}, '') AS BLOB)",
    "latin": "CAST(x'ff' || coalesce({}, '') AS TEXT)",
}
"""What SQLite holds in a column of texts, as it is written in SQL. The second is not UTF-8."""


@dataclass(frozen=True)
class Damage:
    """What is done to the struck rows of some tables, and which invariants tell it.

    ``columns``: are set to NULL, or point nowhere, or are no number that counts (one of ``NO_NUMBERS`` or
    ``OTHER_TYPES``), or no text (``OTHER_BYTES``);
    without any the row is removed, and others refer to what is gone. ``what``: which provider or consumer is
    struck.
    """

    tables: str
    columns: str
    how: str
    told: tuple[str, ...] = ()
    what: str = ""

    def __str__(self) -> str:
        words = (self.how, self.columns, "of", self.tables, self.what)
        return "-".join(" ".join(words).split())

    def fits(self, kind: str) -> bool:
        """Return whether a kind of database can hold it."""
        if self.how in OTHER_TYPES | OTHER_BYTES:
            return kind == "sqlite"
        return kind in NO_NUMBERS.get(self.how, (kind,))

    def apply(self, db: Database) -> bool:
        """Do it, as a program does that the database does not stop; return whether the column can hold it."""
        if not self.fits(db.dialect):
            return False
        with unguarded(db) as connection:
            for name in self.tables.split():
                table = models.whole_metadata().tables[name]
                row = ROWS.get(name) or {"uuid": STRUCK.uuid(self.what or "child")}
                if name == "consumers":
                    row = {"uuid": STRUCK.uuid(self.what or "plain")}
                own = [table.c[column] == value for column, value in row.items()]
                # No time of the last change is written beside it.
                change = update(table).where(*own).values(self._values(table))
                statement = delete(table).where(*own) if self.how == "removed" else change
                assert connection.execute(statement).rowcount >= 1, f"{self} has struck nothing"
        return True

    def _values(self, table: Table) -> dict[str, Any]:
        kept = {"updated_at": table.c.updated_at} if "updated_at" in table.c else {}
        return kept | {name: self._value(table, name) for name in self.columns.split()}

    def _value(self, table: Table, column: str) -> Any:
        if self.how == "NULL":
            return None
        written = (OTHER_TYPES | OTHER_BYTES).get(self.how)
        if written is not None:
            # The type of the column refuses it as a parameter.
            return literal_column(written.format(column))
        if self.how in NO_NUMBERS:
            return float(self.how)
        return GONE_UUID if partner(table.name, column).name == "uuid" else GONE_ID


@contextmanager
def unguarded(db: Database) -> Iterator[Connection]:
    """Yield a connection on which no foreign key is looked at, and no trigger runs."""
    switch = {
        "sqlite": "PRAGMA foreign_keys = off",
        "postgresql": "SET session_replication_role = replica",
        "mysql": "SET SESSION foreign_key_checks = 0, sql_mode = 'TRADITIONAL,NO_AUTO_VALUE_ON_ZERO'",
    }
    with db.engine.connect() as connection:
        connection.detach()
        connection.exec_driver_sql(switch[db.dialect])
        connection.exec_driver_sql("BEGIN")
        triggers = []
        if db.dialect == "sqlite":
            made = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
            triggers = list(connection.exec_driver_sql(made))
        for name, _ in triggers:
            connection.exec_driver_sql(f"DROP TRIGGER {name}")
        yield connection
        for _, text in triggers:
            connection.exec_driver_sql(text)
        connection.exec_driver_sql("COMMIT")


class Saved:
    """All rows of a database, to be put back."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._rows = self._read()

    def _read(self) -> dict[Table, list[dict[str, Any]]]:
        with self._db.engine.connect() as connection:
            return {
                table: [dict(row) for row in connection.execute(_ordered(table)).mappings()]
                for table in models.whole_metadata().tables.values()
            }

    def put_back(self) -> None:
        """Make the rows those that were saved."""
        now = self._read()
        with unguarded(self._db) as connection:
            for table, rows in self._rows.items():
                if rows != now[table]:
                    connection.execute(delete(table))
                    if rows:
                        connection.execute(insert(table), rows)


def _ordered(table: Table) -> Any:
    return select(table).order_by(*table.primary_key.columns)


# What db check tells.
COUNTERS = "usage counters equal the sums of the ledger"
FOREIGN = "no other service has written resource providers"
OWNERS = "usages of projects and users equal the sums of the ledger"
DANGLING = "allocations have a provider with inventory of their class"
CLASSES = "inventories have a class"
RATIOS = "allocation ratios are within their bounds"
PARTS = "inventories, traits and aggregates have a provider"
NAMES = "traits and aggregates of providers exist"
RECORDS = "allocations have a consumer"
OWNED = "owners and types of consumers exist"
IDLE = "consumers have allocations"
BARE = "every provider has a name and a generation"
HANGS = "every provider hangs on a root"
ROOTS = "every provider names the root of its tree"
ORPHANS = "members of groups and holds have a consumer"
GROUPS = "members of groups have a group"
SLOTS = "the log of changed providers has all its slots"
VALUES = "values can be read"

NOT_SHARED = {COUNTERS, OWNERS, FOREIGN}
"""What another service may leave as it does while it writes too."""

WITH_TIMES = " ".join(
    name
    for name, table in models.whole_metadata().tables.items()
    if "created_at" in table.c and table.c.created_at.nullable
)

TABLE = (
    Damage(WITH_TIMES, "created_at updated_at", "NULL"),
    Damage("resource_providers", "name", "NULL", (BARE,)),
    Damage("resource_providers", "generation", "NULL", (BARE,)),
    Damage("resource_providers", "own_generation", "NULL", (FOREIGN,)),
    # The scrub notes them anew.
    Damage("resource_providers", "own_revision", "NULL"),
    Damage("resource_providers", "digest", "NULL"),
    Damage("resource_providers", "generation own_generation", "NULL", (BARE, FOREIGN)),
    Damage("resource_providers", "root_provider_id", "NULL", (ROOTS,)),
    Damage("resource_providers", "root_provider_id", "NULL", (ROOTS,), "root"),
    Damage("resource_providers", "root_provider_id", "nowhere", (ROOTS,)),
    Damage("resource_providers", "root_provider_id", "nowhere", (ROOTS,), "root"),
    Damage("resource_providers", "parent_provider_id", "NULL", (ROOTS,)),
    Damage("resource_providers", "parent_provider_id", "nowhere", (HANGS,)),
    Damage("inventories", "resource_provider_id", "nowhere", (COUNTERS, DANGLING, PARTS)),
    Damage("inventories", "resource_class_id", "nowhere", (COUNTERS, DANGLING, CLASSES)),
    *(Damage("inventories", "allocation_ratio", how, (RATIOS,)) for how in NO_NUMBERS),
    Damage("allocations", "resource_provider_id", "nowhere", (COUNTERS, DANGLING)),
    Damage("allocations", "consumer_id", "nowhere", (OWNERS, RECORDS)),
    Damage("allocations", "resource_class_id", "nowhere", (COUNTERS, OWNERS, DANGLING)),
    Damage("consumers", "project_id", "nowhere", (OWNERS, OWNED)),
    Damage("consumers", "user_id", "nowhere", (OWNERS, OWNED)),
    Damage("consumers", "consumer_type_id", "NULL", (OWNERS,)),
    Damage("consumers", "consumer_type_id", "nowhere", (OWNERS, OWNED)),
    Damage("placement_aggregates", "uuid", "NULL", (NAMES,)),
    Damage("resource_provider_traits", "trait_id", "nowhere", (NAMES,)),
    Damage("resource_provider_traits", "resource_provider_id", "nowhere", (PARTS,)),
    Damage("resource_provider_aggregates", "resource_provider_id", "nowhere", (PARTS,)),
    Damage("resource_provider_aggregates", "aggregate_id", "nowhere", (NAMES,)),
    Damage("owner_usages", "project_id", "nowhere", (OWNERS,)),
    Damage("owner_usages", "user_id", "nowhere", (OWNERS,)),
    Damage("owner_usages", "consumer_type_id", "nowhere", (OWNERS,)),
    Damage("owner_usages", "resource_class_id", "nowhere", (OWNERS,)),
    # A rule may name any aggregate, and no aggregates.
    Damage("consumer_groups", "aggregates", "NULL"),
    Damage("consumer_groups", "aggregates", "nowhere"),
    Damage("consumer_group_members", "consumer_id", "nowhere", (ORPHANS,)),
    Damage("consumer_group_members", "group_id", "nowhere", (GROUPS,)),
    Damage("consumer_holds", "consumer_id", "nowhere", (ORPHANS,)),
    # As the release before writes it.
    Damage("consumer_group_members", "consumer_uuid", "NULL"),
    Damage("consumer_holds", "consumer_uuid", "NULL"),
    # The id is that of another consumer by now.
    Damage("consumer_group_members", "consumer_uuid", "nowhere", (ORPHANS,)),
    Damage("consumer_holds", "consumer_uuid", "nowhere", (ORPHANS,)),
    Damage("resource_providers", "", "removed", (DANGLING, PARTS, HANGS), "root"),
    Damage("resource_providers", "", "removed", (DANGLING, PARTS), "child"),
    Damage("resource_providers", "", "removed", (DANGLING, PARTS), "share"),
    Damage("resource_classes", "", "removed", (CLASSES,)),
    Damage("traits", "", "removed", (NAMES,)),
    Damage("placement_aggregates", "", "removed", (NAMES,)),
    Damage("projects", "", "removed", (OWNED,)),
    Damage("users", "", "removed", (OWNED,)),
    Damage("consumer_types", "", "removed", (OWNED,)),
    Damage("consumers", "", "removed", (OWNERS, RECORDS), "plain"),
    Damage("consumers", "", "removed", (OWNERS, RECORDS, ORPHANS), "member"),
    Damage("consumers", "", "removed", (OWNERS, RECORDS, ORPHANS), "held"),
    Damage("consumer_groups", "", "removed", (GROUPS,)),
    # Each of the other columns is read in test_unreadable_values. A generation has no line here: until it is
    # corrected no write of its provider or consumer succeeds.
    Damage("resource_providers", "revision own_generation own_revision digest", "text", (FOREIGN, VALUES)),
    Damage("resource_providers", "root_provider_id parent_provider_id", "text", (HANGS, VALUES)),
    Damage("inventories", "total reserved min_unit max_unit step_size", "text", (VALUES,)),
    Damage("inventories allocations owner_usages", "used", "text", (COUNTERS, OWNERS, VALUES)),
    Damage("consumer_holds", "expires_at", "text", (VALUES,)),
    Damage("provider_changes", "mark", "text", (VALUES,)),
    # Of our own tables, which nothing refers to.
    Damage("consumer_group_members", "", "removed"),
    Damage("consumer_holds", "", "removed"),
    Damage("owner_usages", "", "removed", (OWNERS,)),
    Damage("provider_changes", "", "removed", (SLOTS,)),
    Damage("capacity_records", "", "removed"),
    Damage("scrub", "", "removed"),
    Damage("history", "", "removed"),
)
"""Each id that points to a row leads nowhere, each such row is gone, each column that may be NULL is."""
