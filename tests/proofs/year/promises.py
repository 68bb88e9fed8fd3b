"""What is asked at a quiet moment: the promises of ``docs/promise.rst``, and those that follow from them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from sqlalchemy import select

from placement.db import invariants, scrub
from placement.db.database import Database
from placement.extensions.history import tables as history_tables
from placement.inventory_record import InventoryRecord
from tests.proofs.year.book import Book, Broken, unequal
from tests.proofs.year.draws import OWNERS
from tests.proofs.year.ledger import Ledger, find_root, read_ledger, replay
from tests.proofs.year.player import UUID
from tests.support import following
from tests.support.damage import SOUND, STRUCK

_history = history_tables.history

HALVES = (SOUND.digit * 8, STRUCK.digit * 8)
"""What the uuids of the two halves of ``tests.support.damage`` begin with."""
PROJECTS = sorted({project for project, _ in OWNERS})


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


def find_wrong_reads(sender: Any, now: Ledger) -> Iterator[str]:
    """Yield each search, list, usage and sum that does not show what is there."""
    left = _find_room(now)
    providers = {uuid: each for uuid, each in now["providers"].items() if not uuid.startswith(HALVES)}
    roots = {uuid: find_root(now, uuid) for uuid in providers}
    for uuid, each in providers.items():
        if not each["inventories"]:
            continue
        records = {name: InventoryRecord(**each) for name, each in each["inventories"].items()}
        used = {name: int(record.capacity) - left[uuid, name] for name, record in records.items()}
        shown = sender.send("GET", f"/resource_providers/{uuid}/usages").json["usages"]
        if shown != used:
            yield f"usages of {uuid}: {shown}, there is {used}"
    for query, name, amount, fits in _searches(providers, left):
        room = {uuid for uuid in providers if left.get((uuid, name), 0) >= amount and fits(providers[uuid])}
        if amount == 1:
            listed = sender.send("GET", f"/resource_providers?{query}").json["resource_providers"]
            shown = {one["uuid"]: _place(one) for one in listed if not one["uuid"].startswith(HALVES)}
            for what in unequal({uuid: (roots[uuid], *_own(providers[uuid])) for uuid in room}, shown):
                yield f"there is and is shown for {query}: {what}"
            continue
        found = sender.send("GET", f"/allocation_candidates?{query}").json["allocation_requests"]
        offered = {uuid for one in found for uuid in one["allocations"] if not uuid.startswith(HALVES)}
        if offered != room:
            yield f"{query}: offered {sorted(offered)}, there is room on {sorted(room)}"
    yield from _wrong_sums(sender, now)


def find_wrong_room(sender: Any, book: Book, places: Collection[tuple[str, str]]) -> Iterator[str]:
    """Yield where a search does not offer the last unit of a class of a provider, or offers one more."""
    for uuid, name in sorted(places):
        record = book.record(uuid, name)
        left = int(record.capacity) - book.used(uuid, name) if record else 0
        for amount in (left, left + 1):
            if amount > 0 and not book.ended:
                found = sender.send("GET", f"/allocation_candidates?resources={name}:{amount}").json
                offered = any(uuid in one["allocations"] for one in found["allocation_requests"])
                if offered != (amount == left):
                    yield f"{amount} of {name} on {uuid}: offered {offered}, {left} are left"


def find_wrong_trees(sender: Any, book: Book, uuids: Collection[str]) -> Iterator[str]:
    """Yield where a search in the tree of one of these providers does not show those that have room."""
    left = _find_room(book.ledger)
    roots = {uuid: find_root(book.ledger, uuid) for uuid in book.providers}
    for uuid in sorted(roots.keys() & set(uuids)):
        tree = {each: root for each, root in roots.items() if root == roots[uuid]}
        for name in sorted({of for each, of in left if each in tree}):
            room = {each: root for each, root in tree.items() if left.get((each, name), 0) > 0}
            query = f"in_tree={uuid}&resources={name}:1"
            listed = sender.send("GET", f"/resource_providers?{query}").json["resource_providers"]
            shown = {one["uuid"]: one["root_provider_uuid"] for one in listed}
            if shown != room and not book.ended:
                yield f"{query}: {shown}, there is {room}"


def _searches(
    providers: Ledger, left: Mapping[tuple[str, str], int]
) -> Iterator[tuple[str, str, int, Callable[[Any], bool]]]:
    """Yield queries for one class, at the last unit of some providers too, with what else they ask for."""
    names = {name for uuid, name in left if uuid in providers}
    for name in sorted(names):
        rooms = sorted({n for (uuid, of), n in left.items() if of == name and uuid in providers and n > 1})
        for amount in {1, *rooms[len(rooms) // 2 :][:1], *rooms[-1:]}:
            yield f"resources={name}:{amount}", name, amount, lambda each: True
    for part, word in (("traits", "required"), ("aggregates", "member_of")):
        for value in sorted({one for each in providers.values() for one in each[part]}):
            for name in sorted(names & {"VCPU"}):
                query = f"resources={name}:1&{word}={value}"
                yield query, name, 1, lambda each, part=part, value=value: value in each[part]


def _find_room(now: Ledger) -> dict[tuple[str, str], int]:
    """Return how much of each class of each provider is free."""
    left = {
        (uuid, name): int(InventoryRecord(**record).capacity)
        for uuid, each in now["providers"].items()
        for name, record in each["inventories"].items()
    }
    for each in now["consumers"].values():
        for uuid, part in each["held"].items():
            for name, amount in part["resources"].items():
                if (uuid, name) in left:
                    left[uuid, name] -= amount
    return left


def _own(each: Mapping[str, Any]) -> tuple[Any, ...]:
    return each["name"], each["parent_provider_uuid"], each["generation"]


def _place(one: Mapping[str, Any]) -> tuple[Any, ...]:
    return one["root_provider_uuid"], one["name"], one["parent_provider_uuid"], one["generation"]


def _wrong_sums(sender: Any, now: Ledger) -> Iterator[str]:
    for project in PROJECTS:
        sums: dict[str, int] = {}
        for each in now["consumers"].values():
            for part in each["held"].values():
                if part["project_id"] == project:
                    for name, amount in part["resources"].items():
                        sums[name] = sums.get(name, 0) + amount
        shown = sender.send("GET", f"/usages?project_id={project}", version="1.37").json["usages"]
        if shown != sums:
            yield f"usages of the project {project}: {shown}, there is {sums}"


def _invariants(quiet: Quiet) -> Iterator[str]:
    if not quiet.book.damaged:
        yield from (f"{each.invariant.name}: {each.examples}" for each in invariants.violations(quiet.db))


def _nothing_healed(quiet: Quiet) -> Iterator[str]:
    """The scrub mends what an event has damaged, and nothing else."""
    yield from find_healed(quiet.db, quiet.book.damaged)
    quiet.book.damaged = False


def scrub_all(db: Database) -> tuple[dict[str, int], list[str]]:
    """Compare and mend everything; return what was mended, and what is left."""
    healed, left = scrub.scrub_all(db)
    return healed, [each.invariant.name for each in left if each.invariant.broken]


def find_healed(db: Database, is_damaged: bool = False) -> Iterator[str]:
    """Yield what a scrub mends, unless something has damaged it, and what it leaves."""
    healed, left = scrub_all(db)
    if not is_damaged:
        yield from (f"{number} {what} were mended" for what, number in healed.items() if number)
    yield from (f"{each} is not so and was not mended" for each in left)


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
    if quiet.history.is_whole:
        yield from find_unlike_history(quiet.db, quiet.now, quiet.history, lambda uuid: True)


def find_unlike_history(
    db: Database, now: Ledger, history: History, has_all: Callable[[str], bool]
) -> Iterator[str]:
    """Yield where the history, replayed, does not make the ledger.

    :param has_all: whether it must have all writes of a consumer or provider.
    """
    try:
        made = replay(db, history.start, history.after)
    except AssertionError as wrong:
        yield f"a row does not follow: {wrong}"
        return
    for uuid, each in made["providers"].items():
        # Claims step providers, and leave no row of them.
        each["generation"] = now["providers"].get(uuid, each)["generation"]
    for part in ("consumers", "providers"):
        for uuid in sorted(filter(has_all, made[part].keys() | now[part].keys())):
            for what in unequal(made[part].get(uuid), now[part].get(uuid)):
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
    ("7: answers show what is there", lambda quiet: find_wrong_reads(quiet.sender, quiet.now)),
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
