"""What is asked at a quiet moment: the promises of ``docs/promise.rst``, and those that follow from them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from sqlalchemy import select

from placement.db import invariants, scrub
from placement.db.database import Database
from placement.extensions.history import tables as history_tables
from tests.proofs.replay.ledger import Ledger, read_ledger, replay
from tests.proofs.year.book import Book, Broken, unequal
from tests.proofs.year.player import UUID
from tests.support import following
from tests.support.damage import SOUND, STRUCK

_history = history_tables.history

HALVES = (SOUND.digit * 8, STRUCK.digit * 8)
"""What the uuids of the two halves of ``tests.support.damage`` begin with."""


class Quiet:
    """A moment at which nobody writes.

    :param send: asks the service as an admin.
    :param mirror: lives on changes alone through the whole year.
    """

    def __init__(self, db: Database, book: Book, sender: Any, mirror: Any, history: "History") -> None:
        self.db, self.book, self.sender, self.mirror, self.history = db, book, sender, mirror, history
        # Whoever looks for room removes expired holds.
        answer = sender.send("GET", "/allocation_candidates?resources=VCPU:1")
        if answer.status >= 500:
            raise Broken("no error of the service", f"a search: {answer}")
        self.now: Ledger = read_ledger(db)
        book.settle(self.now)


class History:
    """Where the replay of the history begins: nowhere, or where something else has changed the ledger."""

    def __init__(self) -> None:
        self.start: Ledger = {"consumers": {}, "providers": {}}
        self.after = 0
        self.is_whole = True

    def begin_again(self, db: Database) -> None:
        """Begin with what is there now."""
        self.start = read_ledger(db)
        last = select(_history.c.id).order_by(_history.c.id.desc()).limit(1)
        self.after = db.read(lambda reader: reader.value(last)) or 0


def _nothing_lost(quiet: Quiet) -> Iterator[str]:
    """What was acknowledged is there, and nothing of what was refused."""
    yield from quiet.book.differences(quiet.now)


def _nothing_overfull(quiet: Quiet) -> Iterator[str]:
    for provider, name in set(quiet.book.overfull()) - quiet.book.over:
        yield f"more {name} of {provider} is allocated than there is"


def _ended(quiet: Quiet) -> Iterator[str]:
    """A hold that has ended is removed by whoever looks for room."""
    there = quiet.book.ended & quiet.now["consumers"].keys()
    # Rows of a hold of these may say anything.
    yield from (f"{each} is still held" for each in sorted(there) if not each.startswith(HALVES))


def _invariants(quiet: Quiet) -> Iterator[str]:
    if not quiet.book.damaged:
        yield from (f"{each.invariant.name}: {each.examples}" for each in invariants.violations(quiet.db))


def _nothing_healed(quiet: Quiet) -> Iterator[str]:
    """The scrub mends what an event has damaged, and nothing else."""
    healed, left = scrub_all(quiet.db)
    if not quiet.book.damaged:
        yield from (f"{number} {what} were mended" for what, number in healed.items() if number)
    yield from (f"{each} is not so and was not mended" for each in left)
    quiet.book.damaged = False


def scrub_all(db: Database) -> tuple[dict[str, int], list[str]]:
    """Compare and mend everything; return what was mended, and what is left."""
    healed: dict[str, int] = {}
    left = []
    options = scrub.ScrubOptions(thorough=True, wait_s=None)
    for stage in scrub.STAGES:
        part = stage.go_on(db, -scrub.BEYOND, stage.size, options)
        for what, number in part.healed.items():
            healed[what] = healed.get(what, 0) + number
        left += [each.invariant.name for each in part.left if each.invariant.broken]
    return healed, left


def _mirror_is_whole(quiet: Quiet) -> Iterator[str]:
    following.update(quiet.mirror)
    now = following.read_whole(quiet.sender)
    known = quiet.mirror.trees
    for root in sorted(known.keys() | now.keys()):
        differ = [
            each
            for each in unequal(known.get(root), now.get(root))
            # Time that passes in tests changes it behind the service's back.
            if "held_until" not in each
        ]
        if differ and not all(each.startswith("etag") for each in differ):
            yield f"the mirror of {root} and a whole read: {'; '.join(differ)}"


def _history_is_whole(quiet: Quiet) -> Iterator[str]:
    """The history, replayed, makes the ledger."""
    if not quiet.history.is_whole:
        return
    try:
        made = replay(quiet.db, quiet.history.start, quiet.history.after)
    except AssertionError as wrong:
        yield f"a row does not follow: {wrong}"
        return
    for uuid, each in made["providers"].items():
        # Claims step providers, and leave no row of them.
        each["generation"] = quiet.now["providers"].get(uuid, each)["generation"]
    for part in ("consumers", "providers"):
        for uuid in sorted(made[part].keys() | quiet.now[part].keys()):
            for what in unequal(made[part].get(uuid), quiet.now[part].get(uuid)):
                yield f"{uuid}, replayed and as it is: {what}"


def _authors(quiet: Quiet) -> Iterator[str]:
    yield from find_wrong_authors(quiet.db, quiet.book.authors, quiet.history)


def find_wrong_authors(
    db: Database, authors: Mapping[str, tuple[str, str]], history: History
) -> Iterator[str]:
    """Yield each row of the history whose author did not write what it is about."""
    columns = (_history.c[name] for name in ("request_id", "by_user", "route", "consumer_uuid"))
    rows = select(*columns).where(_history.c.id > history.after)
    for request_id, user, route, consumer in db.read(lambda reader: reader.rows(rows)):
        if not user or request_id not in authors:
            # The service itself, or a command.
            continue
        author, asked = authors[request_id]
        if author != user:
            yield f"{route} of {author} ({asked}) is said to be of {user}"
        # A plan holds its destinations for consumers of its own.
        if consumer and route != "/-/plans" and consumer not in UUID.findall(asked):
            yield f"what was written of {consumer} is said to be of {user}, who sent {asked}"


PROMISES: tuple[tuple[str, Callable[[Quiet], Iterator[str]]], ...] = (
    ("1: nothing is allocated that is not there", _nothing_overfull),
    ("2, 3, 4: what was acknowledged is there, whole, and nothing else", _nothing_lost),
    ("holds end when their time is over", _ended),
    ("17: who is who", _authors),
    ("the history makes the ledger", _history_is_whole),
    ("db check finds nothing", _invariants),
    ("18: ordinary use is not damage", _nothing_healed),
    ("13: followers see every change", _mirror_is_whole),
)
"""Their names, and what yields how they are broken. The names begin with the lines of the promise."""


def ask_all(quiet: Quiet, known: Collection[str] = ()) -> None:
    """Ask for every promise.

    :param known: signatures of faults that do not count.
    :raises Broken: the first that does not hold
    """
    for name, broken in PROMISES:
        for what in broken(quiet):
            found = Broken(name, what)
            if found.signature not in known:
                raise found
