"""The table of events: what happens to a cloud beside its requests, one process or many."""

import contextlib
import importlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from random import Random
from typing import Any

from sqlalchemy import delete, exc, select, update

from placement.client.mirror import MirrorFailed
from placement.db import invariants, models, scrub
from placement.db.coexistence import state, takeover, watch
from tests.proofs.scrub import by_hand
from tests.proofs.year.book import Broken
from tests.proofs.year.ledger import read_ledger
from tests.proofs.year.player import Asked, Kind
from tests.proofs.year.promises import scrub_all
from tests.proofs.year.requests import KIND
from tests.support import bodies, damage
from tests.support.clock import let_time_pass
from tests.support.damage import SOUND, STRUCK, Saved, unguarded

ALL = ("sqlite", "postgresql", "mysql")
Strike = Callable[[Any, Random], None]
ANY = Kind("", "", "", lambda player: None)
"""A request that may answer anything but an error."""


@dataclass(frozen=True)
class Event:
    """A line of the table: what it lets happen to a year (``steps.Year``), and on which databases."""

    name: str
    strike: Strike
    databases: tuple[str, ...] = ALL


def _changed(year: Any, only: Collection[str] | None) -> None:
    """Take over what was changed beside the service; whatever it must not have changed, the book knows."""
    year.book.adopt(read_ledger(year.db), only)
    year.book.damaged = True
    year.history.begin_again(year.db)


# -- the service -----------------------------------------------------------------------------------


def _restart(year: Any, _: Random) -> None:
    year.restart()


def _switch(option: str, *values: Any) -> Strike:
    """Return what changes an option, and starts the service again."""

    def strike(year: Any, dice: Random) -> None:
        was_whole = year.history.is_whole
        year.options[option] = dice.choice(values)
        year.share(year.other is not None)
        if not was_whole:
            year.history.begin_again(year.db)
        year.restart()

    return strike


def _unanswered(year: Any, _: Random) -> None:
    """A client that follows meets a service that is being started again."""
    year.adapter.refuses = True
    try:
        year.mirror.update(0)
    except MirrorFailed:
        pass
    except Exception as other:
        raise Broken("clients raise their own errors", f"the mirror raised {other!r}") from other
    finally:
        year.adapter.refuses = False


def _without_claims(year: Any, dice: Random) -> None:
    """Claims are switched off for a while; no request is an error of the service."""
    year.options["insight__claims"] = False
    year.restart()
    _pass_time(year, dice)
    for asked in (
        Asked("GET", "/-/holds"),
        Asked("GET", "/allocation_candidates?resources=VCPU:1"),
        Asked("POST", "/-/claims", {}),
        Asked("GET", "/-/trees"),
    ):
        year.player("nova", 0).send(ANY, asked)
    year.options["insight__claims"] = True
    year.restart()


# -- time ------------------------------------------------------------------------------------------


def _pass_time(year: Any, dice: Random) -> None:
    """Let time pass: some holds end, or all."""
    let_time_pass(year.db, dice.choice([1000, 90_000]))
    year.book.ended |= year.book.held


def _jump(year: Any, dice: Random) -> None:
    """The clock was wrong when the scrub wrote what it had done: by an hour or a year, either way."""
    by = dice.choice([-1, 1]) * dice.choice([3600, 31_536_000]) * 1000
    row = models.whole_metadata().tables["scrub"]
    later = {name: row.c[name] + by for name in ("due_at", "began_at", "ended_at") if name in row.c}
    with year.db.engine.begin() as connection:
        connection.execute(update(row).values(later))


# -- the database ----------------------------------------------------------------------------------


def _cut(year: Any, dice: Random) -> None:
    """An error of the database strikes a drawn message of the next requests."""
    year.cut_at = dice.randint(1, 12)


def _drop_connections(year: Any, _: Random) -> None:
    """The connections of the pool are gone."""
    year.db.engine.dispose()


# -- by hand ---------------------------------------------------------------------------------------


def _half(year: Any) -> None:
    """Let the half be there that is struck, and the other one, whose names are written into it."""
    if STRUCK.uuid("root") in year.book.providers:
        return
    for half in (SOUND, STRUCK):
        # Something of it may be there.
        with contextlib.suppress(AssertionError):
            half.make(year.way)
    _changed(year, _of_half(year))
    _hold_half(year)
    year.half = _in_half(year)
    year.book.damaged = False


def _hold_half(year: Any) -> None:
    """Note that what is held of the struck half may end, whatever its rows say."""
    held = year.db.read(lambda reader: reader.column(_with_hold()))
    year.book.held |= _of_half(year).intersection(held)


def _in_half(year: Any) -> Any:
    """Return what the book has of the halves, but for generations."""
    return [
        {name: value for name, value in known[uuid].items() if name != "generation"}
        for known in (year.book.providers, year.book.consumers)
        for uuid in sorted(_of_half(year) & known.keys())
    ]


def _of_half(year: Any) -> set[str]:
    return {uuid for half in (SOUND, STRUCK) for uuid in (*half.providers, *half.consumers)}


def _ask(year: Any) -> None:
    """Ask everything about the struck half: no answer is an error."""
    for path in (*damage.questions(STRUCK), *damage.figures(STRUCK)):
        year.player("reader", 0).send(ANY, Asked("GET", path))


def _damage(year: Any, dice: Random) -> None:
    """Rows are missing, wrong or NULL; a person finds that by ``db check``, and mends it."""
    _half(year)
    line = dice.choice([each for each in damage.TABLE if each.fits(year.db.dialect)])
    year.log.append(f"  damage: {line}")
    silent = bool(SILENT.intersection(line.tables.split()))
    # The hold or the members that the line leaves behind may have gone before.
    gone = set() if line.tables in MEMBERS else {damage.ORPHANS, damage.GROUPS}
    # Of what an earlier event has taken out of the halves the line leaves nothing behind.
    told = set(line.told) - gone if _in_half(year) == year.half else ()
    _by_hand(year, lambda: line.apply(year.db), told, silent)


def _statement(year: Any, dice: Random) -> None:
    """Somebody writes what a page about OpenStack says, or changes a value."""
    _half(year)
    line = dice.choice(by_hand.LINES)
    year.log.append(f"  by hand: {line}")

    def write() -> None:
        assert line.apply(year.db), "the schema does not allow it"

    _by_hand(year, write, (), bool(SILENT.intersection(line.name.split())))


MEMBERS = {"consumer_group_members", "consumer_holds"}
SILENT = {
    "projects",
    "users",
    "consumer_types",
    "consumer_groups",
    "consumer_group_members",
    "consumer_holds",
    "generation",
    "name",
    "uuid",
}
"""Tables and columns of which the service keeps no second copy: the pages say that followers see changes of
them after the command ``db scrub``."""


def _by_hand(year: Any, write: Callable[[], None], told: Collection[str], is_silent: bool) -> None:
    year.book.settle(read_ledger(year.db))
    saved, book = Saved(year.db), year.book.copied()
    try:
        write()
    except (AssertionError, exc.SQLAlchemyError) as nothing:
        year.log.append(f"  nothing: {str(nothing)[:80]}")
        saved.put_back()
        return
    found = {each.invariant.name for each in invariants.violations(year.db)}
    # While the other service writes, nobody relies on what is counted.
    if missing := set(told) - found - (damage.NOT_SHARED if year.other else set()):
        raise Broken("9: damage is named", f"db check does not name {missing}")
    _ask(year)
    scrub_all(year.db)
    if is_silent:
        scrub.show_all_again(year.db)
    for each in invariants.check(year.db):
        if each.count:
            invariants.repair(year.db, each.invariant)
    _ask(year)
    try:
        whole = not invariants.violations(year.db)
        ledger = read_ledger(year.db)
    except KeyError:
        whole = False
    if whole:
        year.book.adopt(ledger)
        _hold_half(year)
        year.book.damaged = True
        year.history.begin_again(year.db)
        learn_names(year)
        return
    # Only a backup helps.
    saved.put_back()
    _settle(year)
    year.book = book
    _after_backup(year)


def learn_names(year: Any) -> None:
    """Let the book know the traits and classes of clients that are there."""
    for which, table in (("traits", models.traits), ("classes", models.resource_classes)):
        names = year.db.read(lambda reader, table=table: reader.column(select(table.c.name)))
        setattr(year.book, which, {name for name in names if name.startswith("CUSTOM_")})


def _orphan(year: Any, dice: Random) -> None:
    """A person deletes a consumer, one that is held if there is one; rows of ours stay behind."""
    there = sorted(year.book.held & year.book.consumers.keys()) or sorted(year.book.consumers)
    if not there:
        return
    consumer = dice.choice(there)
    year.log.append(f"  deleted: {consumer}")
    with unguarded(year.db) as connection:
        rows = models.allocations
        connection.execute(delete(rows).where(rows.c.consumer_id == consumer))
        connection.execute(delete(models.consumers).where(models.consumers.c.uuid == consumer))
    _changed(year, {consumer})
    if dice.random() < 0.5:
        _pass_time(year, dice)
        year.player("nova", 0).send(ANY, Asked("GET", "/allocation_candidates?resources=VCPU:1"))
    # Until then sums are what they were, and requests are refused by them: so the page about SQL says.
    scrub_all(year.db)


def _truncate(year: Any, dice: Random) -> None:
    """All rows of a table of ours are deleted."""
    name = dice.choice(OURS)
    year.log.append(f"  truncated: {name}")
    with unguarded(year.db) as connection:
        connection.execute(delete(models.whole_metadata().tables[name]))
    if name == "consumer_holds":
        year.book.held.clear()
        year.book.ended.clear()
    if name in SILENT:
        scrub.show_all_again(year.db)
    _changed(year, ())


OURS = (
    "provider_changes",
    "owner_usages",
    "capacity_records",
    "history",
    "scrub",
    "consumer_holds",
    "consumer_group_members",
    "consumer_groups",
)


# -- backups ---------------------------------------------------------------------------------------


def _dump(year: Any, _: Random) -> None:
    year.book.settle(read_ledger(year.db))
    year.dump = Saved(year.db), year.book.copied()


def _restore_all(year: Any, _: Random) -> None:
    """The last dump is restored, as the page about backups says."""
    if year.dump is None:
        return
    saved, book = year.dump
    saved.put_back()
    year.names.epoch += 1
    year.book = book.copied()
    _settle(year)
    _after_backup(year)


def _restore_theirs(year: Any, dice: Random) -> None:
    """Only the tables of the OpenStack service are restored, and clients write before the command has run.

    Rows of ours are then about consumers that have never been, or whose numbers others get.
    """
    if year.dump is None:
        return
    saved, book = year.dump
    kept, held = Saved(year.db), year.book.held
    saved.put_back()
    _put_back_ours(year, kept)
    year.names.epoch += 1
    year.book = book.copied()
    year.book.held = book.held & held
    _after_backup(year)
    for _ in range(4):
        year.player("nova", dice.randrange(2**31)).play(KIND["allocations"])
    _pass_time(year, dice)
    year.way.send("GET", "/allocation_candidates?resources=VCPU:1")
    now = read_ledger(year.db)
    year.book.settle(now)
    for what in year.book.differences(now):
        raise Broken("16: rows refer to things, not to numbers", what)
    _settle(year)
    _after_backup(year)


def _put_back_ours(year: Any, kept: Saved) -> None:
    """Put back the rows of our own tables as they were before the restore."""
    rows = {table: each for table, each in kept._rows.items() if table.name in OURS}
    only = Saved.__new__(Saved)
    only._db, only._rows = year.db, rows
    only.put_back()


def _settle(year: Any) -> None:
    """Run ``placement-manage db restored``, or what releases before it had for that."""
    with contextlib.suppress(ImportError):
        restored = importlib.import_module("placement.objects.restored")
        restored.settle(year.db, lambda *_: None)
        return
    for each in invariants.check(year.db):
        if each.count:
            invariants.repair(year.db, each.invariant)


def _with_hold() -> Any:
    holds = models.whole_metadata().tables["consumer_holds"]
    return select(models.consumers.c.uuid).where(models.consumers.c.id == holds.c.consumer_id)


def _after_backup(year: Any) -> None:
    now = read_ledger(year.db)
    for uuid, each in now["providers"].items():
        if uuid in year.book.providers:
            year.book.providers[uuid]["generation"] = each["generation"]
    for uuid in year.book.held & now["consumers"].keys():
        # The end of a hold is a step of its consumer.
        year.book.consumers[uuid]["generation"] = now["consumers"][uuid]["generation"]
    year.book.held &= set(year.db.read(lambda reader: reader.column(_with_hold())))
    year.book.ended &= year.book.held
    year.book.damaged = True
    year.history.begin_again(year.db)
    learn_names(year)
    year.share(year.db.read(state.is_under_way))
    year.restart()


# -- the other service -----------------------------------------------------------------------------


SHARED, ALONE = "the other service writes too", "the other service ends"


def _share(year: Any, _: Random) -> None:
    """The OpenStack service writes too from now on."""
    takeover.release(year.db)
    year.share(True)


def _end(year: Any, _: Random) -> None:
    """No process of it runs any more: everything is counted again, and right."""
    if year.other is None:
        return
    takeover.finish(year.db)
    year.share(False)
    year.history.begin_again(year.db)
    for each in invariants.violations(year.db):
        if each.invariant.name == damage.ORPHANS:
            continue
        raise Broken("18: what another service wrote is counted", f"{each.invariant.name}: {each.examples}")


def _claim_the_rest(year: Any, late: Asked) -> None:
    """Claim one unit more than is left where something was claimed, and then what is left."""
    free = [each for each in year.names.consumers if each not in year.book.consumers]
    ((uuid, part), *_) = late.body["allocations"].items()
    ((name, _), *_) = part["resources"].items()
    left = int(year.book.record(uuid, name).capacity) - year.book.used(uuid, name)
    for amount in (left + 1, left):
        if free and amount > 0:
            asked = Asked("PUT", f"/allocations/{free[0]}", bodies.entry({uuid: {name: amount}}))
            year.player("nova", 0).send(KIND["allocations"], asked)


def _write_late(year: Any, dice: Random) -> None:
    """A process of it that was forgotten writes although it must not: the service notices.

    So does the next claim on that provider, if it is the first to come.
    """
    if year.other is not None:
        return
    year.share(True)
    late = year.write_beside(year.player("other", dice.randrange(2**31)), KIND["allocations"])
    year.share(False)
    if late is not None and dice.random() < 0.7:
        _claim_the_rest(year, late)
    watch.report(year.db)
    # The usage of an owner is counted by the scrub.
    year.book.damaged = True
    year.history.begin_again(year.db)


TABLE: tuple[Event, ...] = (
    Event("the service starts again", _restart),
    Event("the service does not answer a follower", _unanswered),
    Event("history is switched", _switch("insight__history_days", 0.0, 30.0)),
    Event("metrics are switched", _switch("insight__metrics_per_consumer", False, True)),
    Event("claims are switched off", _without_claims),
    Event("time passes", _pass_time),
    Event("the clock jumps", _jump),
    Event("the database fails at a message", _cut),
    Event("connections are dropped", _drop_connections),
    Event("rows are damaged", _damage),
    Event("a statement by hand", _statement),
    Event("a consumer is deleted by hand", _orphan),
    Event("a table is truncated", _truncate),
    Event("a backup is made", _dump),
    Event("a backup is restored", _restore_all),
    Event("a backup is restored without our tables", _restore_theirs),
    Event(SHARED, _share),
    Event(ALONE, _end),
    Event("the other service writes too late", _write_late),
)
EVENT = {each.name: each for each in TABLE}
