"""Statements that step providers and log them: the log says which providers were written since a search.

The log costs a search the same in any cloud. It has ``SLOTS`` rows. A write that moves the revision of a
provider takes one of them, chosen at random, adds a random ``step`` to its ``mark`` and puts ``step:ids;``
before its ``recent``, which is cut to ``LENGTH`` characters; ``step:+ids;`` if nothing has changed but
inventories and usage, as by a claim; ``step:ids!uuid;`` if the tree with the root ``uuid`` has lost them,
because they were deleted or moved. A write of more providers than fit into a slot takes several slots, each
for a part of the providers. The row is locked until COMMIT. So a slot lists its writes in the order of their
commits, also on each node of a Galera cluster. A search that knows a mark walks back from the present mark,
step by step, until it reaches the known one; the providers named on the way have changed. A mark that is
never reached has been cut off, or belongs to another history, such as before a backup was restored: random
steps make the two histories differ.

So a search stores a mark for each slot, not one number. A transaction that begins early and commits late
appears once it has committed, and none is skipped.

A transaction takes its slots after providers and inventories and before the sums of owners: usually one, or
several in the order of their numbers. So two writers cannot deadlock.
"""

import math
import re
import secrets
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeGuard

from sqlalchemy import (
    ColumnElement,
    String,
    bindparam,
    case,
    delete,
    func,
    literal_column,
    or_,
    select,
    update,
)

from placement.db import models, statements
from placement.db.database import Access, Transaction
from placement.db.statements import CompiledStatement

_providers = models.resource_providers
_changes = models.provider_changes

SLOTS = 64
LENGTH = 255
"""The length of a slot: about 15 claims, so about a thousand in all slots."""

MOST_STEP = 10**8 - 1
"""The largest random step, so large that another history does not reach the same mark. A follower's token
can consist of a mark alone.
"""

_BESIDE_IDS = len(f"{MOST_STEP}:;")
ROOM = LENGTH - _BESIDE_IDS
"""The length of an entry's list of names."""

HALF_ROOM = LENGTH // 2 - _BESIDE_IDS
"""The length of an entry's list of names if the slot must also fit another entry."""

STOCK = "+"
"""The prefix of an entry whose providers changed in inventories and usage alone."""

LEFT = "!"
"""The text between the ids of providers that left a tree and the uuid of its root, which may be deleted."""


MOST_MARK = 2**62
"""The largest mark. No write of ours makes a larger or a negative one; the next write resets such a mark."""

COUNTED_BITS = 2**56 - 1
"""The part of a mark that is added up, so that a sum of 64 parts fits into 64 bits."""

_ENTRY = re.compile(r"([1-9][0-9]{0,9}):(?:\+?([0-9]{1,10}(?:,[0-9]{1,10})*)(?:!.*)?)?", re.DOTALL)
"""The pattern of a readable entry; the second group is its list of names."""


class Changed(NamedTuple):
    """Providers that were written: ``whole``, or only in inventories and usage, with the number of writes."""

    whole: set[int]
    stock: Counter[int]


class Log(NamedTuple):
    """The log in one snapshot: for each slot the mark and the last writes."""

    slots: Mapping[int, tuple[int, str]]

    @property
    def total(self) -> int:
        """The sum of the marks, which grows with every write."""
        return sum(mark & COUNTED_BITS for mark, _ in self.slots.values())

    def changed_since(self, before: "Log") -> Changed | None:
        """Return the ids of the providers written since; None if the log has been cut meanwhile."""
        changed = Changed(set(), Counter())
        # A slot that was deleted or cannot be stepped does not record writes. Its writes would be missed, so
        # all providers are compared.
        if len(self.slots) != SLOTS or before.slots.keys() != self.slots.keys():
            return None
        for slot, (known, _) in before.slots.items():
            if self.slots[slot][0] == known:
                continue
            entries = self.entries_since(slot, known)
            if entries is None:
                return None
            for entry in entries:
                (changed.stock if entry.stock_alone else changed.whole).update(entry.ids)
        return changed

    def entries_since(self, slot: int, known: int) -> list["Entry"] | None:
        """Return the writes of a slot since it had the mark ``known``, newest first.

        None if the log does not have them all.
        """
        mark, recent = self.slots[slot]
        entries = []
        # The text after the last semicolon is an entry that was cut.
        for text in recent.split(";")[:-1]:
            if mark <= known:
                break
            entry = Entry(mark, text)
            # The entry stands for too many providers to name, or for unknown ones.
            if not entry.names_all:
                return None
            entries.append(entry)
            mark -= entry.step
        # The walk has passed the known mark or reached the end. The mark was cut off or belongs to another
        # history, such as before a restored backup, whose random steps do not lead to it.
        return entries if mark == known else None

    def entry_at(self, slot: int, known: int) -> str | None:
        """Return the entry that moved a slot to a mark; "" without one, None if it was cut."""
        mark, recent = self.slots[slot]
        *entries, rest = recent.split(";")
        for text in entries:
            if mark <= known:
                return text if mark == known else None
            entry = Entry(mark, text)
            if not entry.step:
                return None
            mark -= entry.step
        return "" if mark == known and not rest else None


class Entry:
    """The record of one transaction in the log.

    ``mark``: the mark of its slot afterwards. ``step``: the distance by which the mark moved; 0 if the text
    cannot be read, and then the entry names no provider. ``left``: the uuid of the root of the tree that the
    providers have left, or "".
    """

    __slots__ = ("_ids", "left", "mark", "step", "stock_alone")

    def __init__(self, mark: int, text: str) -> None:
        read = _ENTRY.fullmatch(text)
        self.mark, self.step = mark, int(read[1]) if read else 0
        self._ids = (read[2] or "") if read else ""
        named = text.partition(":")[2]
        self.stock_alone = named.startswith(STOCK)
        self.left = named.partition(LEFT)[2]

    @property
    def names_all(self) -> bool:
        """Whether the entry names every provider that was written."""
        return bool(self._ids)

    @property
    def ids(self) -> Iterator[int]:
        """The providers that were written; some may be deleted by now."""
        return map(int, self._ids.split(","))


NO_LOG = Log({})


def note(
    tx: Transaction, provider_ids: Collection[int], *, stock_only: bool = False, left: str = ""
) -> None:
    """Log the providers whose revision this transaction moves. One statement, or none for no provider.

    More than about 15 providers take a statement for each 15. Call this when all providers are locked: the
    slots stay locked from here to the commit.

    :param left: the uuid of the root of the tree that the providers have left.
    """
    if not provider_ids:
        return
    ids = [*map(str, sorted(provider_ids))]
    before, after = STOCK * stock_only, left and LEFT + left
    beside, widest = len(before + after), len(f"{ids[-1]},")
    # An entry names so few providers that two entries fit into a slot, where possible: a second write of the
    # same size then keeps the providers of the first.
    most = max(1, (HALF_ROOM - beside + 1) // widest)
    each = math.ceil(len(ids) / min(SLOTS, math.ceil(len(ids) / most)))
    parts = [",".join(ids[at : at + each]) for at in range(0, len(ids), each)]
    # An entry cut in the middle of its ids would name some providers and hide the others.
    named = all(len(part) <= ROOM - beside for part in parts)
    _add_entries(tx, [f"{before}{part}{after}" for part in parts] if named else [""])


def note_unnamed(tx: Transaction) -> None:
    """Log that unknown providers have changed, so that searches compare all of them. One statement."""
    _add_entries(tx, [""])


def _add_entries(tx: Transaction, entries: Sequence[str]) -> None:
    """Write an entry into each of so many slots; an entry without names stands for unknown providers."""
    # The slots include the one that an earlier entry of the transaction may have locked.
    first = min(tx.slot_seed % SLOTS, SLOTS - len(entries))
    for slot, named in enumerate(entries, first):
        # The step is random, not always 1: otherwise a restored database could reach a mark that a search
        # knows.
        step = secrets.randbelow(MOST_STEP) + 1
        given = {"slot_of_tx": slot, "by_step": step, "entry": f"{step}:{named};"}
        tx.change_later(_ADD_ENTRY, given)


_by_step = bindparam("by_step", type_=_changes.c.mark.type)
_ADD_ENTRY = CompiledStatement(
    update(_changes)
    .where(_changes.c.slot == bindparam("slot_of_tx"))
    .values(
        {
            _changes.c.mark: case(
                # The damaged text is dropped: no step would lead anywhere from it.
                (or_(_changes.c.mark < 0, _changes.c.mark > MOST_MARK), _by_step),
                else_=_changes.c.mark + _by_step,
            ),
            _changes.c.recent: func.substr(
                bindparam("entry", type_=String()) + _changes.c.recent,
                literal_column("1"),
                literal_column(str(LENGTH)),
            ),
        }
    )
)


def move_far(tx: Transaction, provider_ids: Collection[int], by: int) -> None:
    """Move the revisions of locked providers to values that they never had. One statement.

    The log must not name the providers; :func:`note_unnamed` and :func:`void` see to that.
    """
    tx.change(_MOVE_FAR, {"id": sorted(provider_ids), "by": by})


_by: ColumnElement[int] = bindparam("by", type_=_providers.c.revision.type)
_MOVE_FAR = CompiledStatement(
    update(_providers)
    .where(statements.is_among(_providers.c.id, "id"))
    .values(
        {
            _providers.c.own_revision: _providers.c.own_revision + _by,
            _providers.c.revision: _providers.c.revision + _by,
            # The API shows the provider unchanged, so its modified time stays.
            _providers.c.updated_at: _providers.c.updated_at,
        }
    ),
    "id",
)


def void(tx: Transaction) -> None:
    """Give all slots marks that no search and no token knows, so that both start again. One statement."""
    tx.change(update(_changes).values(mark=secrets.randbits(40), recent=""))


_ROWS = select(_changes.c.slot, _changes.c.mark, _changes.c.recent).order_by(_changes.c.slot)


def can_be_read(mark: object, recent: str) -> bool:
    """Return whether a slot has a mark that a token can have, and entries that can be read."""
    # The bound allows one more step, which a write may have made. The text after the last semicolon was cut.
    in_bounds = is_mark(mark) and mark <= MOST_MARK + MOST_STEP
    return in_bounds and all(map(_ENTRY.fullmatch, recent.split(";")[:-1]))


def is_mark(mark: object) -> TypeGuard[int]:
    """Return whether a token can have this value as a mark."""
    # SQLite turns a number that is too large into a float.
    return isinstance(mark, int) and mark >= 0


def find_faults(access: Access) -> list[str]:
    """Return the slots that are missing, moved, or unreadable. One statement."""
    wrong = _find_wrong(access)
    return [f"slot {slot}: {wrong[slot]};" for slot in sorted(wrong)]


def _find_wrong(access: Access) -> dict[int, str]:
    """Return what is wrong with slots, by slot."""
    rows = {slot: (mark, recent) for slot, mark, recent in access.rows(_ROWS)}
    wrong = {slot: "missing" for slot in range(SLOTS) if slot not in rows}
    for slot, (mark, recent) in rows.items():
        if slot not in range(SLOTS):
            wrong[slot] = "taken by no write"
        elif not can_be_read(mark, recent):
            wrong[slot] = f"mark {mark}, recent {recent[:20]!r} cannot be read"
    return wrong


def restore(tx: Transaction) -> int:
    """Insert missing and unreadable slots, and delete slots that no write uses.

    :returns: the number of changed slots. At most three statements.
    """
    wrong = sorted(_find_wrong(tx))
    gone = delete(_changes).where(statements.is_one_of(_changes.c.slot, wrong))
    deleted = tx.change(gone) if wrong else 0
    # The mark is one that no search knows.
    start = secrets.randbits(40)
    rows = [{"slot": slot, "mark": start, "recent": ""} for slot in range(SLOTS)]
    return deleted + tx.insert_missing(_changes, rows)
