"""placement-manage audit: consumers that hold resources but do not exist, or are not where they hold them.

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
from typing import Any

import prometheus_client

from placement import errors
from placement.client.nova import TYPES, Nova, NovaConsumer, PlaceHidden
from placement.cmd import output
from placement.cmd.places import Places
from placement.db import consumer_rows, ledger_writes
from placement.db.database import Database, Transaction
from placement.objects import allocation
from placement.objects.allocation import AllocationChange
from placement.objects.replacement import ConsumerChange, Resources

CLEAN, TROUBLE, FOUND = 0, 1, 3

NOTHING: Mapping[str, Resources] = MappingProxyType({})

COLUMNS = ("Type", "Project", "Age", "Consumer")


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
    project: str | None
    user: str | None
    changed_at: datetime | None
    held: Mapping[str, Resources]


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A server that holds something where it is not.

    :param elsewhere: what that is, by provider uuid; ``own``: the rest.
    :param is_placed: it has no host, or holds something of its host's tree.
    """

    holder: Holder
    server: NovaConsumer
    own: Mapping[str, Resources]
    elsewhere: Mapping[str, Resources]
    is_placed: bool


@dataclass(frozen=True, slots=True)
class Report:
    """``leaks`` hold resources but do not exist; ``missing`` exist and should hold some, but hold none.

    Against Nova also: ``misplaced`` hold something where they are not; ``unplaced`` hold only that, though
    they have a host; ``under_way`` hold something and were not compared.

    :param names: of providers, by uuid.
    """

    leaks: list[Holder]
    missing: list[str]
    misplaced: list[Misplaced] = field(default_factory=list)
    unplaced: list[Misplaced] = field(default_factory=list)
    under_way: list[str] = field(default_factory=list)
    names: Mapping[str, str] = field(default_factory=dict)

    def without(self, uuids: Collection[str]) -> "Report":
        """Return it without what has been removed of these consumers."""
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
        metavar="FILE",
        help="the uuids of all consumers that exist, one a line; - is standard input",
    )
    known.add_argument(
        "--from-nova",
        action="store_true",
        help="ask Nova for its servers and migrations, of all cells, as an administrator;"
        " looks at consumers of the types that Nova makes, and at where they hold something",
    )
    parser.add_argument(
        "--os-cloud", metavar="NAME", help="with --from-nova: a cloud of clouds.yaml"
    )
    output.add_option(parser)
    parser.add_argument(
        "--remove",
        action="store_true",
        help="remove the leaks, and what servers hold where they are not, after showing them and asking",
    )
    parser.add_argument(
        "--metrics-file",
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
        " such as 90m, 2h or 7d; default: 1h",
    )
    parser.add_argument("--yes", action="store_true", help="with --remove: do not ask")
    return parser


def _parse_duration(text: str) -> timedelta:
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in units:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90m, 2h or 7d")
    return timedelta(**{units[unit]: int(number)})


def run(database: Database, arguments: Any) -> int:
    """Make the audit that the arguments describe, and return the exit code, or raise :class:`AuditError`."""
    # Before the work, which may take minutes: there is nobody to answer.
    if arguments.remove and not arguments.yes and not sys.stdin.isatty():
        raise AuditError("--remove asks before it removes; without a terminal give --yes")
    if arguments.from_nova:
        report = _ask_nova(database, arguments.os_cloud)
    else:
        existing = set(_read_list(arguments.consumers))
        held = list(holders(database))
        leaks = [holder for holder in held if holder.uuid not in existing]
        report = Report(leaks, sorted(existing - {holder.uuid for holder in held}))
    _print_report(report, arguments)
    left = report.without(_remove(database, report, arguments)) if arguments.remove else report
    if arguments.metrics_file:
        _write_metrics(arguments.metrics_file, left, with_places=arguments.from_nova)
    return FOUND if left.leaks or left.missing or left.misplaced or left.unplaced else CLEAN


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
    # A registry of its own: the default one has the figures of this process.
    registry = prometheus_client.CollectorRegistry()
    for name, (text, value) in found.items():
        prometheus_client.Gauge(name, text, registry=registry).set(value)
    try:
        prometheus_client.write_to_textfile(path, registry)
    except OSError as error:
        raise AuditError(f"{path}: {error}") from error


def _read_list(name: str) -> Iterator[str]:
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


def _ask_nova(database: Database, cloud: str | None) -> Report:
    try:
        # Only here: other commands do not wait for what speaks HTTP.
        import openstack
        from keystoneauth1 import exceptions as keystone_exceptions
    except ImportError as error:
        raise AuditError("--from-nova needs openstacksdk: pip install openstacksdk") from error
    try:
        return _compare_with_nova(database, Nova(openstack.connect(cloud=cloud)))
    except PlaceHidden as error:
        raise AuditError(f"{error}: the account must be an administrator's") from error
    except (openstack.exceptions.SDKException, keystone_exceptions.ClientException) as error:
        raise AuditError(f"Nova cannot be asked: {error}") from error


def _compare_with_nova(database: Database, nova: Nova) -> Report:
    # The ledger first: a consumer that claims afterwards cannot look like a leak.
    held = [holder for holder in holders(database) if holder.type in TYPES]
    existing = {consumer.uuid: consumer for consumer in nova.consumers()}
    known = [(holder, existing[holder.uuid]) for holder in held if holder.uuid in existing]
    # A server that the list lacks is asked for by itself before it is called a leak.
    leaks = [h for h in held if h.uuid not in existing and not nova.knows(h.uuid)]
    needy = {consumer.uuid for consumer in existing.values() if consumer.must_hold}
    needy -= {holder.uuid for holder in held}
    # After the servers: a new host has a provider before it has a server.
    places = Places(database)
    wrong = [found for each in known if (found := _compare(*each, places))]
    wrong = [found for each in wrong if (found := _compare_again(each, nova, places))]
    if needy or wrong:
        # Consumers that have claimed meanwhile are not missing, and those that have changed may have moved.
        now = {holder.uuid: holder for holder in holders(database)}
        needy -= now.keys()
        wrong = [each for each in wrong if now.get(each.holder.uuid) == each.holder]
    return Report(
        leaks,
        sorted(needy),
        [each for each in wrong if each.is_placed],
        [each for each in wrong if not each.is_placed],
        [holder.uuid for holder, consumer in known if consumer.nodes is None],
        places.names,
    )


def _compare(holder: Holder, consumer: NovaConsumer, places: Places) -> Misplaced | None:
    """Compare what a consumer holds with where it is; return None if they agree, or it is under way."""
    if consumer.nodes is None:
        return None
    allowed = places.own(consumer.nodes)
    own = {uuid: resources for uuid, resources in holder.held.items() if uuid in allowed}
    elsewhere = {uuid: resources for uuid, resources in holder.held.items() if uuid not in allowed}
    # A server that holds nothing of its own tree is only reported: what it holds is all that it has.
    is_placed = consumer.node is None or not own.keys().isdisjoint(places.tree(consumer.node))
    return Misplaced(holder, consumer, own, elsewhere, is_placed) if elsewhere else None


def _compare_again(found: Misplaced, nova: Nova, places: Places) -> Misplaced | None:
    """Compare once more with what Nova says now of this server alone; what is only told is not asked for."""
    uuid = found.holder.uuid
    if not found.is_placed:
        return found
    again = next((each for each in nova.consumers(uuid) if each.uuid == uuid), None)
    return again and _compare(found.holder, again, places)


def holders(db: Database) -> Iterator[Holder]:
    """Yield every consumer that holds something. Two statements for each thousand of them."""
    for found in consumer_rows.walk_holders(db):
        yield from _make_holders(found)


def _make_holders(found: consumer_rows.Holdings) -> list[Holder]:
    rows, amounts = found
    held: dict[str, dict[str, dict[str, int]]] = {row.uuid: {} for row in rows}
    for consumer, provider, class_name, amount in amounts:
        held[consumer].setdefault(provider, {})[class_name] = amount
    return [Holder(*row[1:], held=held[row.uuid]) for row in rows]


def release(db: Database, holder: Holder, keeps: Mapping[str, Resources] = NOTHING) -> bool:
    """Remove what the consumer holds; False if it has changed since it was read, or is gone.

    :param keeps: what it goes on holding, by provider uuid; without that it is removed as well.
    :raises Conflict: 409, what it keeps cannot be written: its inventory no longer admits it
    :raises AuditError: nobody can be named as the owner of what it keeps
    """
    project, user = holder.project or "", holder.user or ""
    if keeps and not (project and user):
        raise AuditError("its project or user is gone; placement-manage db check --repair names another")
    change = ConsumerChange(holder.uuid, keeps, project, user, holder.generation)

    def work(tx: Transaction) -> bool:
        # The generation says too little: a move removes a server's consumer and makes it anew, from 1 on.
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
            f"{names.get(uuid, uuid)} {_write_amounts(amounts)}"
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


def _remove(database: Database, report: Report, arguments: Any) -> set[str]:
    """Remove what is wrong and old enough, and return the uuids of these consumers."""
    # With --json, standard output has only the result.
    say = sys.stderr if arguments.json else sys.stdout
    wrong = [(leak, NOTHING) for leak in report.leaks]
    wrong += [(each.holder, each.own) for each in report.misplaced]
    # Written a moment ago, it may be of a consumer that its service does not list yet. A consumer without
    # a time is old.
    ages = {holder.uuid: _compute_age(holder) for holder, _ in wrong}
    old = [each for each in wrong if (ages[each[0].uuid] or timedelta.max) > arguments.older_than]
    print(f"{len(old)} of {len(wrong)} are old enough to be removed.", file=say)
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
            print(f"{holder.uuid} stays as it is: {error}", file=say)
    print(f"{len(gone)} removed.", file=say)
    return gone
