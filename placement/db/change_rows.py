"""Statements on ``provider_changes``: which providers were written since somebody last looked.

A search must know, before anything else, what was committed since the last one. To compare the revisions
of all providers costs what the cloud is large; this log costs the same in any cloud. It has ``SLOTS`` rows.
A write that moves the revision of a provider takes one of them, chosen at random, adds a random ``step`` to
its ``mark`` and puts ``step:ids;`` before its ``recent``, which is cut to ``LENGTH`` characters. Where
nothing has changed but inventories and what is used of them, as by a claim, it puts ``step:+ids;``. The row
is the writer's until its COMMIT, and what is rolled back was never there: so a slot lists its writes in the
order of their commits, with no clock and no ids that are given out before it, on each node of a Galera
cluster too. Who knows a mark walks back from the present one, step by step, until it is reached; what is
named on the way has changed. A mark that is not reached has been cut off, or is of another history, such
as that of a database that was restored: steps are random so that one is not taken for the other.

The slot is taken after providers and inventories and before the sums of owners, and one for the whole
transaction. So two writers cannot wait for one another.
"""

import secrets
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, String, bindparam, func, literal_column, update

from placement.db import models
from placement.db.database import Transaction
from placement.db.insertion import insert_missing
from placement.db.ready import Ready

_changes = models.provider_changes

SLOTS = 64
LENGTH = 255
"""Characters of a slot: some 18 claims, so more than a thousand in all."""

MOST_STEP = 2**16


STOCK = "+"
"""Before the ids of providers of which inventories and usage alone have changed."""


class Changed(NamedTuple):
    """Which providers were written: ``whole``, or their inventories and usage alone, and how often that."""

    whole: set[int]
    stock: Counter[int]


class Log(NamedTuple):
    """The log as one snapshot has it: by slot the mark, and what was written last."""

    slots: Mapping[int, tuple[int, str]]

    @property
    def total(self) -> int:
        """The sum of the marks, which grows with every write."""
        return sum(mark for mark, _ in self.slots.values())

    def changed_since(self, before: "Log") -> Changed | None:
        """Return the ids of the providers written since; None where the log has been cut since."""
        changed = Changed(set(), Counter())
        if len(self.slots) != SLOTS or before.slots.keys() != self.slots.keys():
            return None
        for slot, (mark, recent) in self.slots.items():
            known, _ = before.slots[slot]
            if mark != known and not _add_since(known, mark, recent, changed):
                return None
        return changed


NO_LOG = Log({})


def _add_since(known: int, mark: int, recent: str, changed: Changed) -> bool:
    """Add what was written since the known mark; tell whether the log still has it."""
    # What follows the last semicolon was cut.
    for entry in recent.split(";")[:-1]:
        step, _, named = entry.partition(":")
        if not named:
            return False
        ids = map(int, named.removeprefix(STOCK).split(","))
        (changed.stock if named.startswith(STOCK) else changed.whole).update(ids)
        mark -= int(step)
        if mark <= known:
            break
    return mark == known


def note(tx: Transaction, provider_ids: Collection[int], *, stock_alone: bool = False) -> None:
    """Name providers whose revision this transaction moves. One statement, or none for no provider.

    To be called when all providers are locked: whoever wants the same slot waits from here to the commit.
    """
    if provider_ids:
        tx.change_later(NOTE, noted(tx, provider_ids, stock_alone=stock_alone))


def note_many(tx: Transaction) -> None:
    """Let searches compare all providers: nobody knows which ones have changed. One statement."""
    tx.change_later(NOTE, noted(tx, ()))


def noted(
    tx: Transaction, provider_ids: Collection[int], *, stock_alone: bool = False
) -> dict[str, Any]:
    """Return the parameters of :data:`IS_OWN_SLOT` and :data:`WRITTEN`.

    With ``stock_alone`` nothing has changed of them but inventories and what is used, by a revision each.
    An entry without names stands for providers that nobody knows, or that are too many to be named.
    """
    step = secrets.randbelow(MOST_STEP) + 1
    entry = f"{step}:{STOCK * stock_alone}{','.join(map(str, sorted(provider_ids)))};"
    return {
        "own_slot": tx.lot % SLOTS,
        "by_step": step,
        "entry": entry if len(entry) <= LENGTH else f"{step}:;",
    }


IS_OWN_SLOT: ColumnElement[bool] = _changes.c.slot == bindparam("own_slot")
"""The row is the one that this transaction has chosen."""

WRITTEN: Mapping[Any, Any] = {
    _changes.c.mark: _changes.c.mark + bindparam("by_step", type_=_changes.c.mark.type),
    _changes.c.recent: func.substr(
        bindparam("entry", type_=String()) + _changes.c.recent,
        literal_column("1"),
        literal_column(str(LENGTH)),
    ),
}
"""The values of that row with one more write, by column."""

NOTE = Ready(update(_changes).where(IS_OWN_SLOT).values(WRITTEN))
"""The statement of :func:`note`, with the parameters of :func:`noted`."""


def restore(tx: Transaction) -> int:
    """Insert the slots that are not there, and return how many were not. One statement."""
    # With a mark that nobody has seen.
    start = secrets.randbits(40)
    rows = [{"slot": slot, "mark": start, "recent": ""} for slot in range(SLOTS)]
    return insert_missing(tx, _changes, rows)
