"""The floor of a claim: the same row changes, written by hand on the bare driver.

One new consumer takes three classes of one host: the provider and its inventories are locked and
read, the consumer and three allocations inserted, the counters of the host, its generation and
revision and the sums of the owner moved, the host named in the log of changes, and all of it committed.
"""

import random
import sqlite3
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import make_url

from benchmarks.clients import percentile
from benchmarks.clouds import Cloud, uuid_of
from placement.db import change_rows
from placement.db.engine import with_default_driver
from placement.db.owner_usage_rows import CONSUMERS, SLOTS

WARM_UP = 20


@dataclass(frozen=True)
class Floor:
    """Milliseconds of the hand-written claim, and of the COMMIT inside it."""

    driver: str
    claims: int
    median_ms: float
    p99_ms: float
    commit_ms: float


# {p}: the placeholder of the driver; {lock}: the locking clause.
BEGIN = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "BEGIN", "mysql": "START TRANSACTION"}
PROVIDER = "SELECT id, generation FROM resource_providers WHERE uuid = {p}{lock}"
INVENTORIES = (
    "SELECT id, resource_class_id, total, reserved, allocation_ratio, used, min_unit, max_unit,"
    " step_size FROM inventories WHERE resource_provider_id = {p}{lock}"
)
CONSUMER = (
    "INSERT INTO consumers (created_at, updated_at, uuid, project_id, user_id, generation)"
    " VALUES ({p}, {p}, {p}, {p}, {p}, 1)"
)
ALLOCATIONS = (
    "INSERT INTO allocations"
    " (created_at, updated_at, resource_provider_id, consumer_id, resource_class_id, used)"
    " VALUES ({p}, {p}, {p}, {p}, {p}, {p}), ({p}, {p}, {p}, {p}, {p}, {p}),"
    " ({p}, {p}, {p}, {p}, {p}, {p})"
)
COUNTERS = (
    "UPDATE inventories SET used = used + CASE id WHEN {p} THEN {p} WHEN {p} THEN {p}"
    " WHEN {p} THEN {p} ELSE 0 END WHERE id IN ({p}, {p}, {p})"
)
GENERATION = (
    "UPDATE resource_providers SET generation = generation + 1, revision = revision + 1,"
    " updated_at = {p} WHERE id = {p} AND generation = {p}"
)
CHANGE = (
    "UPDATE provider_changes SET mark = mark + {p}, recent = substr({entry}, 1, {length})"
    " WHERE slot = {p}"
)
OWNER = (
    "INSERT INTO owner_usages"
    " (project_id, user_id, consumer_type_id, resource_class_id, slot, used) VALUES"
    " ({p}, {p}, 0, {p}, {p}, {p}), ({p}, {p}, 0, {p}, {p}, {p}),"
    " ({p}, {p}, 0, {p}, {p}, {p}), ({p}, {p}, 0, {p}, {p}, {p}) {add}"
)
ON_CONFLICT = (
    "ON CONFLICT (project_id, user_id, consumer_type_id, resource_class_id, slot)"
    " DO UPDATE SET used = owner_usages.used + excluded.used"
)
ON_DUPLICATE = "ON DUPLICATE KEY UPDATE used = used + VALUES(used)"


def connect(url: str) -> tuple[str, str, Any]:
    """Return dialect, driver name and a bare driver connection in autocommit."""
    parsed = with_default_driver(make_url(url))
    dialect, driver = parsed.get_backend_name(), parsed.get_driver_name()
    if dialect == "sqlite":
        connection: Any = sqlite3.connect(parsed.database or "", isolation_level=None, timeout=30)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return dialect, "sqlite3", connection
    place: dict[str, Any] = {"host": parsed.host, "user": parsed.username or "root"}
    place |= {"port": parsed.port or (5432 if dialect == "postgresql" else 3306)}
    if dialect == "postgresql":
        import psycopg2

        connection = psycopg2.connect(dbname=parsed.database, password=parsed.password, **place)
        connection.autocommit = True
        return dialect, "psycopg2", connection
    if driver == "mysqldb":
        import MySQLdb as mysql
    else:
        import pymysql as mysql
    connection = mysql.connect(db=parsed.database, password=parsed.password or "", **place)
    connection.autocommit(True)
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    return "mysql", "mysqlclient" if driver == "mysqldb" else driver, connection


class Writer:
    """Writes claims on one bare connection."""

    def __init__(self, dialect: str, connection: Any) -> None:
        self._cursor = connection.cursor()
        self._begin = BEGIN[dialect]
        place = "?" if dialect == "sqlite" else "%s"
        fields = {
            "p": place,
            "length": change_rows.LENGTH,
            "entry": f"concat({place}, recent)" if dialect == "mysql" else f"{place} || recent",
            "lock": "" if dialect == "sqlite" else " FOR UPDATE",
            "add": ON_DUPLICATE if dialect == "mysql" else ON_CONFLICT,
        }
        self._sql = {
            name: text.format(**fields)
            for name, text in {
                "provider": PROVIDER,
                "inventories": INVENTORIES,
                "consumer": CONSUMER,
                "allocations": ALLOCATIONS,
                "counters": COUNTERS,
                "generation": GENERATION,
                "change": CHANGE,
                "owner": OWNER,
            }.items()
        }

    def _do(self, name: str, *values: Any) -> Any:
        self._cursor.execute(self._sql[name], values)
        return self._cursor

    def any_row(self, table: str) -> int:
        """Return some id of the table."""
        self._cursor.execute(f"SELECT id FROM {table} LIMIT 1")
        return int(self._cursor.fetchone()[0])

    def claim(self, host_uuid: str, consumer_uuid: str, project_id: int, user_id: int) -> float:
        """Write one claim of one unit each of the first three classes; return seconds of COMMIT."""
        now = datetime.now(UTC).replace(tzinfo=None).isoformat(" ")
        self._cursor.execute(self._begin)
        provider_id, generation = self._do("provider", host_uuid).fetchone()
        held = self._do("inventories", provider_id).fetchall()[:3]
        wanted = [(row[0], row[1], max(1, row[6])) for row in held]
        for row, (_, _, amount) in zip(held, wanted, strict=True):
            assert row[5] + amount <= (row[2] - row[3]) * row[4]
        self._do("consumer", now, now, consumer_uuid, project_id, user_id)
        rows = [
            value
            for _, class_id, amount in wanted
            for value in (now, now, provider_id, consumer_uuid, class_id, amount)
        ]
        self._do("allocations", *rows)
        cases = [value for inventory, _, amount in wanted for value in (inventory, amount)]
        self._do("counters", *cases, *(inventory for inventory, _, _ in wanted))
        self._do("generation", now, provider_id, generation)
        step = random.randrange(change_rows.MOST_STEP) + 1
        entry = f"{step}:{change_rows.STOCK}{provider_id};"
        self._do("change", step, entry, random.randrange(change_rows.SLOTS))
        slot = random.randrange(SLOTS)
        sums = [(class_id, amount) for _, class_id, amount in wanted] + [(CONSUMERS, 1)]
        accounts = [
            value
            for class_id, amount in sums
            for value in (project_id, user_id, class_id, slot, amount)
        ]
        self._do("owner", *accounts)
        before = time.perf_counter()
        self._cursor.execute("COMMIT")
        return time.perf_counter() - before


def measure(url: str, cloud: Cloud, seconds: float) -> Floor:
    """Write claims spread over the cloud's hosts for so long.

    The rows stay; they are as valid as any other claim.
    """
    dialect, driver, connection = connect(url)
    writer = Writer(dialect, connection)
    project_id, user_id = writer.any_row("projects"), writer.any_row("users")
    draw = random.Random(1)
    totals: list[float] = []
    commits: list[float] = []
    salt = time.time_ns()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(totals) <= WARM_UP:
        host = cloud.host_uuid(draw.randrange(cloud.hosts))
        consumer = uuid_of(salt, len(totals))
        before = time.perf_counter()
        commits.append(writer.claim(host, consumer, project_id, user_id))
        totals.append(time.perf_counter() - before)
    connection.close()
    totals, commits = sorted(totals[WARM_UP:]), sorted(commits[WARM_UP:])
    return Floor(
        driver,
        len(totals),
        1e3 * percentile(totals, 0.5),
        1e3 * percentile(totals, 0.99),
        1e3 * percentile(commits, 0.5),
    )
