"""placement-manage audit, which finds consumers that do not exist, or that hold resources in the wrong place.

Specification 07 section 8.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import prometheus_client

from placement import errors
from placement.client.argument_types import non_empty, whole_number
from placement.cmd import output
from placement.db import consumer_rows, ledger_writes
from placement.db.database import Database, Transaction
from placement.objects import allocation
from placement.objects.allocation import AllocationChange
from placement.objects.replacement import ConsumerChange, Resources
from placement.printable import escape_lines, escape_unprintable
from placement.web.validation import is_uuid_like, normalized_uuid

if TYPE_CHECKING:
    from placement.client.nova import NovaConsumer

CLEAN, TROUBLE, FOUND = 0, 1, 3

NOTHING: Mapping[str, Resources] = MappingProxyType({})

COLUMNS = ("Type", "Project", "Age", "Consumer")

FEW = 0.1
"""The share of wrong consumers above which the audit doubts the list, not the ledger."""


class AuditError(Exception):
    """The audit cannot be made, at least not with these arguments."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A consumer that holds resources.

    :param type: the name of its type; None without a type.
    :param changed_at: when its allocations were last written, in UTC; None if never recorded.
    :param held: amounts by class, by provider uuid.
    """

    uuid: str
    generation: int
    type: str | None
    project: str | None
    user: str | None
    changed_at: datetime | None
    held: Mapping[str, Resources]


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A server that holds resources on another host than its own.

    :param elsewhere: the amounts there, by provider uuid; ``own``: the rest.
    :param is_placed: whether the server has no host, or holds resources of its host's tree.
    """

    holder: Holder
    server: "NovaConsumer"
    own: Mapping[str, Resources]
    elsewhere: Mapping[str, Resources]
    is_placed: bool


@dataclass(frozen=True, slots=True)
class Report:
    """``leaks`` hold resources but do not exist; ``missing`` exist and should hold some, but hold none.

    An audit against Nova has three more: ``misplaced`` hold resources on another host than their own;
    ``unplaced`` hold resources only there, although they have a host; ``under_way`` hold resources and were
    not compared.

    :param compared: the number of compared consumers that hold resources.
    :param names: the names of providers, by uuid.
    """

    compared: int
    leaks: list[Holder]
    missing: list[str]
    misplaced: list[Misplaced] = field(default_factory=list)
    unplaced: list[Misplaced] = field(default_factory=list)
    under_way: list[str] = field(default_factory=list)
    names: Mapping[str, str] = field(default_factory=dict)

    def without(self, uuids: Collection[str]) -> "Report":
        """Return the report without the removed allocations of these consumers."""
        return replace(
            self,
            leaks=[leak for leak in self.leaks if leak.uuid not in uuids],
            misplaced=[each for each in self.misplaced if each.holder.uuid not in uuids],
        )


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
        type=non_empty,
        metavar="FILE",
        help="the uuids of all consumers that exist, one a line; - is standard input",
    )
    known.add_argument(
        "--from-nova",
        action="store_true",
        help="ask Nova for its servers and migrations, of all cells, as an administrator;"
        " looks at consumers of the types that Nova makes, and at where they hold something."
        " OS_AUTH_URL and so on in the environment say where and as whom",
    )
    parser.add_argument(
        "--os-cloud",
        type=non_empty,
        metavar="NAME",
        help="with --from-nova: a cloud of clouds.yaml instead (needs openstacksdk)",
    )
    output.add_option(parser)
    parser.add_argument(
        "--remove",
        action="store_true",
        help="remove the leaks, and what servers hold where they are not, after showing them and asking",
    )
    parser.add_argument(
        "--metrics-file",
        type=non_empty,
        metavar="FILE",
        help="write the time and the results of the audit for the node exporter of Prometheus; the"
        " name ends in .prom and lies in the directory of its textfile collector",
    )
    parser.add_argument(
        "--older-than",
        type=_parse_duration,
        default=timedelta(hours=1),
        metavar="TIME",
        help="with --remove: only leaks whose allocations were written longer ago than this,"
        " such as 90m, 2h or 7d; 0m: of any age; default: 1h",
    )
    parser.add_argument(
        "--at-most",
        type=whole_number(1),
        metavar="N",
        help="with --remove: remove up to N, after you have checked them; default: a tenth of what"
        " was compared",
    )
    parser.add_argument(
        "--yes", action="store_true", help="with --remove: remove without a question"
    )
    return parser


def _parse_duration(text: str) -> timedelta:
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    number, unit = text[:-1], text[-1:]
    try:
        return timedelta(**{units[unit]: whole_number(0)(number)})
    except (KeyError, OverflowError, argparse.ArgumentTypeError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90m, 2h or 7d") from error


def run(database: Database, arguments: Any) -> int:
    """Make the audit that the arguments describe, and return the exit code, or raise :class:`AuditError`."""
    # The question is asked before the work, which can take minutes, so that a missing terminal stops the
    # command early.
    if arguments.remove and not arguments.yes and not (sys.stdin and sys.stdin.isatty()):
        raise AuditError("--remove asks before it removes; without a terminal give --yes")
    if arguments.from_nova:
        # The HTTP libraries are slow to import, and other commands do not need them.
        from placement.cmd import nova_audit

        report = nova_audit.ask(database, arguments.os_cloud)
    else:
        report = _compare_with_list(database, arguments.consumers)
    _print_report(report, arguments)
    left = report.without(_remove(database, report, arguments)) if arguments.remove else report
    if arguments.metrics_file:
        _write_metrics(arguments.metrics_file, left, with_places=arguments.from_nova)
    return FOUND if left.leaks or left.missing or left.misplaced or left.unplaced else CLEAN


def _compare_with_list(database: Database, name: str) -> Report:
    existing = set(_read_list(name))
    # The program that writes the list may have failed: an empty list does not mean that nothing exists.
    if not existing:
        raise AuditError(f"{name}: the list is empty, so nothing was compared")
    held = list(holders(database))
    leaks = [holder for holder in held if holder.uuid not in existing]
    return Report(len(held), leaks, sorted(existing - {holder.uuid for holder in held}))


def _write_metrics(path: str, left: Report, *, with_places: bool) -> None:
    """Write the file in one step, since the exporter may read it at any time."""
    leaks, missing = len(left.leaks), len(left.missing)
    found = {
        "placement_audit_timestamp_seconds": ("When the ledger was last audited.", time.time()),
        "placement_audit_leaks": ("Consumers that hold resources and do not exist.", leaks),
        "placement_audit_missing": ("Consumers that exist and hold nothing.", missing),
    }
    if with_places:
        misplaced = len(left.misplaced) + len(left.unplaced)
        text = "Consumers that hold resources where they are not."
        found["placement_audit_misplaced"] = (text, misplaced)
    # A separate registry: the default one has the figures of this process.
    registry = prometheus_client.CollectorRegistry()
    for name, (text, value) in found.items():
        prometheus_client.Gauge(name, text, registry=registry).set(value)
    try:
        prometheus_client.write_to_textfile(path, registry)
    except OSError as error:
        raise AuditError(f"{path}: {error}") from error


def _read_list(name: str) -> Iterator[str]:
    """Yield the uuids of a list.

    :raises AuditError: a line is not a uuid. A damaged line, such as the last one of a list that was cut,
        would make a consumer that exists look like a leak.
    """
    if name == "-" and sys.stdin is None:
        raise AuditError("-: standard input is closed, so there is no list")
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AuditError(f"{name}: {error}") from error
    # Some programs begin a file with a byte order mark.
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        given = line.strip().lower()
        if given and not is_uuid_like(given):
            raise AuditError(f"{name}, line {number}: {line.strip()!r} is not one uuid")
        if given:
            yield normalized_uuid(given)


def holders(db: Database) -> Iterator[Holder]:
    """Yield every consumer that holds resources, with two statements per thousand consumers."""
    for found in consumer_rows.walk_holders(db):
        yield from _make_holders(found)


def _make_holders(found: consumer_rows.Holdings) -> list[Holder]:
    rows, amounts = found
    held: dict[str, dict[str, dict[str, int]]] = {row.uuid: {} for row in rows}
    for consumer, provider, class_name, amount in amounts:
        held[consumer].setdefault(provider, {})[class_name] = amount
    return [Holder(*row[1:], held=held[row.uuid]) for row in rows]


def release(db: Database, holder: Holder, keeps: Mapping[str, Resources] = NOTHING) -> bool:
    """Remove what the consumer holds; return False if it has changed since it was read, or was deleted.

    :param keeps: the allocations to keep, by provider uuid; the consumer is removed if there are none.
    :raises Conflict: 409, an allocation to keep cannot be written, since its inventory no longer admits it
    :raises AuditError: the kept allocations do not have an owner
    """
    project, user = holder.project or "", holder.user or ""
    if keeps and not (project and user):
        raise AuditError(
            "its project or user was deleted; placement-manage db check --repair names another"
        )
    change = ConsumerChange(holder.uuid, keeps, project, user, holder.generation)

    def work(tx: Transaction) -> bool:
        # The generation is not enough: a move removes a server's consumer and creates it again with
        # generation 1.
        ledger_writes.lock_consumers(tx, [holder.uuid])
        if _make_holders(consumer_rows.holder(tx, holder.uuid)) != [holder]:
            return False
        if keeps:
            allocation.replace(tx, AllocationChange.of_one(change))
        else:
            allocation.remove(tx, (change,))
        return True

    return db.write(work, on_conflict=allocation.LedgerMoved)


def _compute_age(holder: Holder) -> timedelta | None:
    if holder.changed_at is None:
        return None
    return datetime.now(UTC).replace(tzinfo=None) - holder.changed_at


def _get_sort_key(holder: Holder) -> tuple[str, str, datetime, str]:
    return (holder.type or "", holder.project or "", holder.changed_at or datetime.min, holder.uuid)


def _print_report(report: Report, arguments: Any) -> None:
    leaks = sorted(report.leaks, key=_get_sort_key)
    misplaced, unplaced = (
        sorted(found, key=lambda each: _get_sort_key(each.holder))
        for found in (report.misplaced, report.unplaced)
    )
    if arguments.json:
        shown = {"leaks": [_render_leak(leak) for leak in leaks], "missing": report.missing}
        if arguments.from_nova:
            shown["misplaced"] = [_render_misplaced(each) for each in misplaced]
            shown["unplaced"] = [_render_misplaced(each) for each in unplaced]
            shown["under_way"] = report.under_way
        output.print_json(shown)
        return
    print(f"{len(leaks)} hold resources and do not exist.")
    rows = []
    for leak in leaks:
        holds: Counter[str] = Counter()
        for resources in leak.held.values():
            holds.update(resources)
        rows.append((*_describe_holder(leak), _write_amounts(holds)))
    if rows:
        columns = [*COLUMNS, "Holds"]
        print(output.make_table(columns, rows, left=columns))
    print(f"{len(report.missing)} exist and hold nothing.")
    for uuid in report.missing:
        print(f"  {uuid}")
    if arguments.from_nova:
        _print_places("hold resources where they are not.", misplaced, report.names)
        _print_places("have a host and hold resources, but none there.", unplaced, report.names)
        print(f"{len(report.under_way)} are being built or moved and were not compared.")


def _print_places(words: str, found: list[Misplaced], names: Mapping[str, str]) -> None:
    print(f"{len(found)} {words}")
    rows = []
    for each in found:
        held = [
            f"{escape_unprintable(names.get(uuid, uuid))} {_write_amounts(amounts)}"
            for uuid, amounts in each.elsewhere.items()
        ]
        server = (each.server.state, each.server.node or "-", "\n".join(held))
        rows.append((*_describe_holder(each.holder), *server))
    columns = [*COLUMNS, "State", "Host", "Holds elsewhere"]
    if rows:
        print(output.make_table(columns, rows, left=columns))


def _render_leak(leak: Holder) -> dict[str, Any]:
    age = _compute_age(leak)
    return asdict(leak) | {"age_s": age and int(age.total_seconds())}


def _render_misplaced(found: Misplaced) -> dict[str, Any]:
    server = {"state": found.server.state, "host": found.server.node}
    return _render_leak(found.holder) | server | {"elsewhere": found.elsewhere}


def _describe_holder(holder: Holder) -> tuple[str, str, str, str]:
    age = _compute_age(holder)
    since = "unknown" if age is None else str(age).partition(".")[0]
    return holder.type or "-", holder.project or "-", since, holder.uuid


def _write_amounts(resources: Resources) -> str:
    return ", ".join(f"{name}:{amount}" for name, amount in sorted(resources.items()))


def _require_few(number: int, compared: int, at_most: int | None) -> None:
    """Refuse to remove so many consumers that a part of the list is probably missing."""
    if at_most is None and number > compared * FEW:
        raise AuditError(
            f"Nothing was removed: {number} of {compared} consumers are many more than leaks usually are,"
            " and the list may have only a part of those that exist. Look at them. If all of them are"
            f" to go, give --at-most {number}"
        )
    if at_most is not None and number > at_most:
        raise AuditError(f"Nothing was removed: {number} are more than --at-most {at_most}")


def _remove(database: Database, report: Report, arguments: Any) -> set[str]:
    """Remove the wrong allocations that are old enough, and return the uuids of their consumers."""
    # With --json, only the result is printed to standard output.
    say = sys.stderr if arguments.json else sys.stdout
    wrong = [(leak, NOTHING) for leak in report.leaks]
    wrong += [(each.holder, each.own) for each in report.misplaced]
    # A consumer that was written a moment ago may not be listed by its service yet. A consumer without a time
    # counts as old.
    ages = {holder.uuid: _compute_age(holder) for holder, _ in wrong}
    old = [each for each in wrong if (ages[each[0].uuid] or timedelta.max) > arguments.older_than]
    print(f"{len(old)} of {len(wrong)} are old enough to be removed.", file=say)
    _require_few(len(old), report.compared, arguments.at_most)
    parts = sum(1 for _, keeps in old if keeps)
    question = f"Remove {len(old) - parts} consumers with all that they hold"
    if parts:
        question += f", and of {parts} what they hold elsewhere"
    if not old or not (arguments.yes or input(f"{question}? [y/N] ").lower() in ("y", "yes")):
        return set()
    gone = set()
    for holder, keeps in old:
        try:
            if release(database, holder, keeps):
                gone.add(holder.uuid)
            else:
                print(f"{holder.uuid} has changed meanwhile and stays as it is.", file=say)
        except (errors.Conflict, AuditError) as error:
            print(f"{holder.uuid} stays as it is: {escape_lines(str(error))}", file=say)
    print(f"{len(gone)} removed.", file=say)
    return gone
