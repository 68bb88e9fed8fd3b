"""Print how many SQL statements each request sends between BEGIN and COMMIT.

    python -m benchmarks.statements [URL of an empty database]... [--sql] [--history]

A column for each URL; without one a temporary SQLite file is used. The counts do not depend on how many
classes a claim has or how full the ledger is. ``docs/statements.rst`` holds the table.
"""

import argparse
import math
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import webob
from oslo_config import cfg
from sqlalchemy import Connection

from benchmarks.databases import scratch
from placement import conf as configuration
from placement import deploy
from placement.conf import library_defaults
from placement.db import schema
from placement.db.database import Database
from placement.db.engine import make_engine
from placement.db.transport import Message, Observer
from placement.extensions.claims import shortcuts

HEADERS = {
    "X-Auth-Token": "admin",
    "X-Roles": "admin,service",
    "OpenStack-API-Version": "placement 1.38",
}
THREE_CLASSES = {"VCPU": 1, "MEMORY_MB": 1, "DISK_GB": 1}
TOTALS = {name: {"total": 1_000_000} for name in THREE_CLASSES}
FOUR_HOSTS = 4
TITLES = {"sqlite": "SQLite", "mysql": "MariaDB", "postgresql": "PostgreSQL"}


@dataclass(frozen=True)
class Row:
    """One request: what it is, the statements it sent, in how many messages, and the HTTP status it got."""

    name: str
    statements: tuple[str, ...]
    messages: int
    status: int

    @property
    def inside(self) -> int:
        """Those between BEGIN and COMMIT or ROLLBACK; all of them where there is no transaction."""
        words = ("BEGIN", "START", "COMMIT", "ROLLBACK", "SET TRANSACTION")
        return sum(not statement.startswith(words) for statement in self.statements)

    def cell(self, kind: str) -> str:
        """What the table says: to SQLite nothing travels."""
        return str(self.inside) if kind == "sqlite" else f"{self.inside} in {self.messages}"


class Requests:
    """The service in this process, and one request of each kind to it."""

    def __init__(self, db: Database, *, history: bool = False) -> None:
        conf = cfg.ConfigOpts()
        configuration.register_opts(conf)
        library_defaults.set_for(conf)
        conf.set_override("connection", str(db.engine.url), group="placement_database")
        conf.set_override("auth_strategy", "noauth2", group="api")
        conf.set_override("enabled", True, group="insight")
        conf.set_override("history_days", float(history), group="insight")
        # A stretch of the scrub is no part of the request that takes it along.
        conf.set_override("scrub_share", 0.0, group="placement_database")
        conf([], project="placement", default_config_files=[], default_config_dirs=[])
        self._application = deploy.loadapp(conf, database=db)
        self._number = 0
        self.status = 0

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """Send one request; return the body of the answer."""
        request = webob.Request.blank(path, method=method, headers=HEADERS)
        if body is not None:
            request.json = body
            request.content_type = "application/json"
        response = request.get_response(self._application)
        self.status = response.status_int
        if self.status >= 500:
            raise RuntimeError(f"{method} {path}: {response.text}")
        return response.json if response.body else None

    def _new(self) -> str:
        self._number += 1
        return str(uuid.UUID(int=(0xABC << 100) + self._number))

    def _host(self, parent: str | None = None, stocked: bool = True) -> str:
        host = self._new()
        body = {"name": host, "uuid": host, "parent_provider_uuid": parent}
        self.send("POST", "/resource_providers", body)
        if stocked:
            self.send(
                "PUT",
                f"/resource_providers/{host}/inventories",
                {"resource_provider_generation": 0, "inventories": TOTALS},
            )
        return host

    def every(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield, one after the other, the name of each request and what sends it.

        What a request needs is there when it is yielded.
        """
        yield from self._claims()
        yield from self._claims_decided_here()
        yield from self._removals()
        yield from self._exchanges()
        yield from self._refusals()
        yield from self._reshapes()
        yield from self._reads()

    def _put(self, consumer: str, entry: dict[str, Any]) -> Callable[[], Any]:
        return lambda: self.send("PUT", f"/allocations/{consumer}", entry)

    def _claims(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        host, consumer = self._host(), self._new()
        hosts = [self._host() for _ in range(FOUR_HOSTS)]
        owners = {"project": self._new(), "user": self._new()}
        yield (
            "claim, owners and type named for the first time",
            self._put(self._new(), entry({host: THREE_CLASSES}, kind="FIRST", **owners)),
        )
        self._put(self._new(), entry({host: {"VCPU": 1}}))()
        yield "claim, one class of one host", self._put(self._new(), entry({host: {"VCPU": 1}}))
        yield "claim, three classes of one host", self._put(consumer, entry({host: THREE_CLASSES}))
        yield (
            "claim, three classes of each of four hosts",
            self._put(self._new(), entry(dict.fromkeys(hosts, THREE_CLASSES))),
        )
        many = {self._new(): entry({host: THREE_CLASSES}) for _ in range(5)}
        yield "claim of five new consumers (POST)", lambda: self.send("POST", "/allocations", many)
        yield "the same set again", self._put(consumer, entry({host: THREE_CLASSES}, 1))
        yield "other amounts", self._put(consumer, entry({host: {"VCPU": 7}}, 2))
        yield (
            "move to another host (PUT)",
            self._put(consumer, entry({hosts[0]: THREE_CLASSES}, 3)),
        )
        yield (
            "another project",
            self._put(consumer, entry({hosts[0]: THREE_CLASSES}, 4, user=owners["user"])),
        )

    def _claims_decided_here(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        alone, root = self._host(), self._host()
        self._host(root, stocked=False)
        for tree, what in ((alone, "of one provider"), (root, "of two")):
            self.send("GET", "/allocation_candidates?resources=VCPU:1&limit=1")
            claim = {
                "consumer_uuid": self._new(),
                "consumer_generation": None,
                "project_id": "project",
                "user_id": "user",
                "consumer_type": "INSTANCE",
                "query": f"resources=VCPU:1&in_tree={tree}",
            }
            yield (
                f"POST /-/claims, tree {what}",
                lambda claim=claim: self.send("POST", "/-/claims", {"claims": [claim]}),
            )

    def _removals(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        host, first, second = self._host(), self._new(), self._new()
        for consumer in (first, second):
            self._put(consumer, entry({host: THREE_CLASSES}))()
        yield "empty set (PUT)", self._put(first, entry({}, 1))
        yield "delete", lambda: self.send("DELETE", f"/allocations/{second}")
        yield "delete of an unknown consumer", lambda: self.send("DELETE", f"/allocations/{second}")

    def _exchanges(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        hosts = [self._host(), self._host()]
        first, second, third = self._new(), self._new(), self._new()
        self._put(first, entry({hosts[0]: THREE_CLASSES}))()
        self._put(second, entry({hosts[1]: THREE_CLASSES}))()
        swap = {
            first: entry({hosts[1]: THREE_CLASSES}, 1),
            second: entry({hosts[0]: THREE_CLASSES}, 1),
        }
        yield "swap of two consumers (POST)", lambda: self.send("POST", "/allocations", swap)
        hand_over = {
            first: entry({hosts[0]: THREE_CLASSES}, 2),
            third: entry({hosts[1]: THREE_CLASSES}),
        }
        yield (
            "move with the old place kept for another consumer (POST)",
            lambda: self.send("POST", "/allocations", hand_over),
        )

    def _refusals(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        host, consumer = self._host(), self._new()
        self._put(consumer, entry({host: THREE_CLASSES}))()
        yield "refused: generation", self._put(consumer, entry({host: THREE_CLASSES}, 7))
        yield "refused: unknown provider", self._put(self._new(), entry({self._new(): {"VCPU": 1}}))
        yield "refused: unknown class", self._put(self._new(), entry({host: {"CUSTOM_NO": 1}}))
        yield "refused: capacity", self._put(self._new(), entry({host: {"VCPU": 10**6}}))

    def _reshapes(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        parent = self._host()
        child = self._host(parent, stocked=False)
        consumers = [self._new(), self._new()]
        for consumer in consumers:
            self._put(consumer, entry({parent: THREE_CLASSES}))()
        rest = {name: record for name, record in TOTALS.items() if name != "VCPU"}
        body = {
            "inventories": {
                parent: {"resource_provider_generation": 3, "inventories": rest},
                child: {
                    "resource_provider_generation": 0,
                    "inventories": {"VCPU": TOTALS["VCPU"]},
                },
            },
            "allocations": {
                consumer: entry(
                    {parent: {"MEMORY_MB": 1, "DISK_GB": 1}, child: {"VCPU": 1}}, generation=1
                )
                for consumer in consumers
            },
        }
        yield (
            "reshape: a class and two consumers move",
            lambda: self.send("POST", "/reshaper", body),
        )

    def _reads(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        host, consumer = self._host(), self._new()
        self._put(consumer, entry({host: THREE_CLASSES}))()
        provider = f"/resource_providers/{host}"
        for path in (
            f"/allocations/{consumer}",
            f"{provider}/allocations",
            f"{provider}/usages",
            "/usages?project_id=project",
        ):
            shown = path.replace(host, "{uuid}").replace(consumer, "{consumer}")
            yield f"GET {shown}", lambda path=path: self.send("GET", path)


def entry(
    sets: dict[str, dict[str, int]],
    generation: int | None = None,
    *,
    project: str = "project",
    user: str = "user",
    kind: str = "INSTANCE",
) -> dict[str, Any]:
    """Return a consumer's entry as of 1.38: resources by provider uuid."""
    return {
        "allocations": {host: {"resources": resources} for host, resources in sets.items()},
        "project_id": project,
        "user_id": user,
        "consumer_generation": generation,
        "consumer_type": kind,
    }


class Messages(Observer):
    """The texts of the statements that were sent, message by message."""

    def __init__(self) -> None:
        self.texts: list[list[str]] = []

    def before(self, connection: Connection, sent: Message) -> None:
        """Keep the texts."""
        self.texts.append([each.text for each in sent.statements])


def measure(db: Database, *, history: bool = False) -> list[Row]:
    """Send every request and return what each sent to the database.

    :param history: each write leaves what it found and left.
    """
    seen = Messages()
    db.observers.append(seen)
    # Whether a picture is young enough to choose on would depend on the machine: here it is.
    age_s, shortcuts.AGE_S = shortcuts.AGE_S, math.inf
    try:
        requests = Requests(db, history=history)
        rows = []
        for name, send in requests.every():
            seen.texts.clear()
            send()
            parts = tuple(text for message in seen.texts for text in message)
            rows.append(Row(name, parts, len(seen.texts), requests.status))
        return rows
    finally:
        db.observers.remove(seen)
        shortcuts.AGE_S = age_s


def table(measured: Mapping[str, Sequence[Row]]) -> str:
    """Return a reStructuredText table of the rows of each kind of database, which are of the same
    requests."""
    columns = {TITLES[kind]: [row.cell(kind) for row in rows] for kind, rows in measured.items()}
    widths = [max(map(len, (title, *cells))) for title, cells in columns.items()]
    rows = next(iter(measured.values()))
    width = max(len(row.name) for row in rows)
    rule = "  ".join(["=" * width, "======", *("=" * each for each in widths)])
    lines = [
        "  ".join([f"{row.name:{width}}", f"{row.status:6}", *_right(cells, widths)])
        for row, *cells in zip(rows, *columns.values(), strict=True)
    ]
    titles = [f"{title:{each}}" for title, each in zip(columns, widths, strict=True)]
    head = "  ".join([f"{'request':{width}}", "status", *titles]).rstrip()
    return "\n".join([rule, head, rule, *lines, rule])


def _right(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)]


def main() -> int:
    """Print the table, or the statements themselves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("urls", nargs="*", help="SQLAlchemy URLs of empty databases")
    parser.add_argument("--sql", action="store_true", help="print the statements as well")
    parser.add_argument("--history", action="store_true", help="with [insight]/history_days")
    options = parser.parse_args()
    with scratch("sqlite") as url:
        measured = dict(
            _measured(each, options.sql, options.history) for each in options.urls or [url]
        )
    print(table(measured))
    return 0


def _measured(url: str, with_sql: bool, history: bool) -> tuple[str, list[Row]]:
    db = Database(make_engine(url))
    schema.sync(db)
    rows = measure(db, history=history)
    db.dispose()
    if with_sql:
        for row in rows:
            print(f"\n== {row.name} on {TITLES[db.dialect]}: {row.status}")
            for statement in row.statements:
                print("   " + " ".join(statement.split()))
        print()
    return db.dialect, rows


if __name__ == "__main__":
    sys.exit(main())
