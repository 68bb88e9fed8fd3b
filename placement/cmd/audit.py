"""placement-manage audit: consumers that hold resources but do not exist (specification 07 section 8)."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import prometheus_client
from prettytable import PrettyTable

from placement.client.nova import TYPES, Nova
from placement.cmd import output
from placement.db import consumer_rows
from placement.db.database import Database
from placement.objects import allocation
from placement.objects.replacement import ConsumerConflict

CLEAN, TROUBLE, FOUND = 0, 1, 3

BATCH = 1000
"""Consumers that are read at a time."""


class AuditError(Exception):
    """The audit cannot be made, or not with these arguments."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A consumer that holds resources.

    :param type: the name of its type, None for none.
    :param changed_at: when its allocations were last written, in UTC; None if never recorded.
    :param held: amounts by class, by provider uuid.
    """

    uuid: str
    generation: int
    type: str | None
    project: str
    user: str
    changed_at: datetime | None
    held: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Report:
    """``leaks`` hold resources but do not exist; ``missing`` exist and should hold some, but hold none."""

    leaks: list[Holder]
    missing: list[str]


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the command to those of ``placement-manage``."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "audit",
        help="Compare the ledger with the consumers that exist",
        description="Compare the ledger with the consumers that exist. Exit code 0: they agree;"
        " 3: they do not; 1: the comparison could not be made.",
    )
    known = parser.add_mutually_exclusive_group(required=True)
    known.add_argument(
        "--consumers",
        metavar="FILE",
        help="the uuids of all consumers that exist, one a line; - is standard input",
    )
    known.add_argument(
        "--from-nova",
        action="store_true",
        help="ask Nova for its servers and migrations, of all cells, as an administrator;"
        " looks at consumers of the types that Nova makes",
    )
    parser.add_argument(
        "--os-cloud", metavar="NAME", help="with --from-nova: a cloud of clouds.yaml"
    )
    output.add_option(parser)
    parser.add_argument(
        "--remove", action="store_true", help="remove the leaks, after showing them and asking"
    )
    parser.add_argument(
        "--metrics-file",
        metavar="FILE",
        help="write the time and the results of the audit for the node exporter of Prometheus; the"
        " name ends in .prom and lies in the directory of its textfile collector",
    )
    parser.add_argument(
        "--older-than",
        type=_duration,
        default=timedelta(hours=1),
        metavar="TIME",
        help="with --remove: only leaks whose allocations were written longer ago than this,"
        " such as 90m, 2h or 7d; default: 1h",
    )
    parser.add_argument("--yes", action="store_true", help="with --remove: do not ask")
    return parser


def _duration(text: str) -> timedelta:
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in units:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90m, 2h or 7d")
    return timedelta(**{units[unit]: int(number)})


def run(database: Database, arguments: Any) -> int:
    """Make the audit that the arguments describe, and return the exit code, or raise :class:`AuditError`."""
    if arguments.remove and not arguments.yes and not sys.stdin.isatty():
        raise AuditError("--remove asks before it removes; without a terminal give --yes")
    if arguments.from_nova:
        report = _against_nova(database, Nova(_cloud(arguments.os_cloud)))
    else:
        report = _against_list(database, set(_listed(arguments.consumers)))
    _print(report, arguments.json)
    left = _remove(database, report, arguments) if arguments.remove else report.leaks
    if arguments.metrics_file:
        _write_metrics(arguments.metrics_file, len(left), len(report.missing))
    return FOUND if left or report.missing else CLEAN


def _write_metrics(path: str, leaks: int, missing: int) -> None:
    """Write the file in one step, since the exporter may read it at any time."""
    found = {
        "placement_audit_timestamp_seconds": ("When the ledger was last audited.", time.time()),
        "placement_audit_leaks": ("Consumers that hold resources and do not exist.", leaks),
        "placement_audit_missing": ("Consumers that exist and hold nothing.", missing),
    }
    registry = prometheus_client.CollectorRegistry()
    for name, (text, value) in found.items():
        prometheus_client.Gauge(name, text, registry=registry).set(value)
    try:
        prometheus_client.write_to_textfile(path, registry)
    except OSError as error:
        raise AuditError(f"{path}: {error}") from error


def _listed(name: str) -> Iterator[str]:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{name}: {error}") from error
    for number, line in enumerate(text.splitlines(), start=1):
        uuid = line.strip().lower()
        if " " in uuid:
            raise AuditError(f"{name}, line {number}: {line.strip()!r} is not one uuid")
        if uuid:
            yield uuid


def _cloud(name: str | None) -> Any:
    try:
        import openstack
    except ImportError as error:
        raise AuditError("--from-nova needs openstacksdk: pip install openstacksdk") from error
    return openstack.connect(cloud=name)


def _against_list(database: Database, existing: Collection[str]) -> Report:
    """Expect each listed consumer to hold something."""
    held = list(holders(database))
    missing = set(existing) - {holder.uuid for holder in held}
    return Report([holder for holder in held if holder.uuid not in existing], sorted(missing))


def _against_nova(database: Database, nova: Nova) -> Report:
    # The ledger first: a consumer that claims afterwards cannot look like a leak.
    held = [holder for holder in holders(database) if holder.type in TYPES]
    existing = dict(nova.consumers())
    leaks = [h for h in held if h.uuid not in existing and not nova.knows(h.uuid)]
    needy = {uuid for uuid, must_hold in existing.items() if must_hold}
    needy -= {holder.uuid for holder in held}
    if needy:
        # Consumers that have claimed meanwhile are not missing.
        needy -= {holder.uuid for holder in holders(database)}
    return Report(leaks, sorted(needy))


def holders(db: Database) -> Iterator[Holder]:
    """Yield every consumer that holds something. Two statements for each thousand of them."""
    last = 0
    while True:
        rows, amounts = db.snapshot(
            partial(consumer_rows.holders_after, consumer_id=last, most=BATCH)
        )
        held: dict[str, dict[str, dict[str, int]]] = {row.uuid: {} for row in rows}
        for consumer, provider, class_name, amount in amounts:
            held[consumer].setdefault(provider, {})[class_name] = amount
        yield from (Holder(*row[1:], held=held[row.uuid]) for row in rows)
        if len(rows) < BATCH:
            return
        last = rows[-1].id


def release(db: Database, holder: Holder) -> bool:
    """Remove the consumer with all that it holds; False if it has changed since it was read, or is gone."""
    try:
        allocation.delete_allocations(db, holder.uuid, generation=holder.generation)
    except (ConsumerConflict, allocation.NoAllocations):
        return False
    return True


def _age(holder: Holder) -> timedelta | None:
    if holder.changed_at is None:
        return None
    return datetime.now(UTC).replace(tzinfo=None) - holder.changed_at


def _order(holder: Holder) -> tuple[str, str, datetime, str]:
    return (holder.type or "", holder.project, holder.changed_at or datetime.min, holder.uuid)


def _print(report: Report, as_json: bool) -> None:
    leaks = sorted(report.leaks, key=_order)
    if as_json:
        ages = [age and int(age.total_seconds()) for age in map(_age, leaks)]
        shown = [asdict(leak) | {"age_s": age} for leak, age in zip(leaks, ages, strict=True)]
        output.print_json({"leaks": shown, "missing": report.missing})
        return
    print(f"{len(leaks)} hold resources and do not exist.")
    if leaks:
        print(_table(leaks))
    print(f"{len(report.missing)} exist and hold nothing.")
    for uuid in report.missing:
        print(f"  {uuid}")


def _table(leaks: list[Holder]) -> PrettyTable:
    rows = []
    for leak in leaks:
        age = _age(leak)
        holds: Counter[str] = Counter()
        for resources in leak.held.values():
            holds.update(resources)
        shown = ", ".join(f"{name}:{amount}" for name, amount in sorted(holds.items()))
        since = "unknown" if age is None else str(age).partition(".")[0]
        rows.append((leak.type or "-", leak.project, since, leak.uuid, shown))
    columns = ["Type", "Project", "Age", "Consumer", "Holds"]
    return output.table(columns, rows, left=columns)


def _remove(database: Database, report: Report, arguments: Any) -> list[Holder]:
    """Remove the leaks that are old enough, and return the others."""
    # With --json, standard output has only the result.
    say = sys.stderr if arguments.json else sys.stdout
    ages = {leak.uuid: _age(leak) for leak in report.leaks}
    old = [
        leak for leak in report.leaks if (ages[leak.uuid] or timedelta.max) > arguments.older_than
    ]
    print(f"{len(old)} of {len(report.leaks)} are old enough to be removed.", file=say)
    question = f"Remove {len(old)} consumers with all that they hold? [y/N] "
    if not old or not (arguments.yes or input(question).lower() in ("y", "yes")):
        return report.leaks
    gone = {leak.uuid for leak in old if release(database, leak)}
    for leak in old:
        if leak.uuid not in gone:
            print(f"{leak.uuid} has changed meanwhile and stays as it is.", file=say)
    print(f"{len(gone)} removed.", file=say)
    return [leak for leak in report.leaks if leak.uuid not in gone]
