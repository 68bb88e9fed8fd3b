"""The end of a change of the ledger: counters, generations, revisions and sums, before the commit.

From the lock on a provider to the commit whoever wants the same provider waits, and each statement is
a journey of the one who does not. So PostgreSQL takes all of it as one statement, and the commit with it;
MySQL and MariaDB update counters and providers with one where all providers are written alike. To SQLite no
statement travels.

Claims per second by this end over those by plain statements, two processes of eight threads each, in
turns of one or two seconds, on two cores that were busy with other work and ran the database too:

- all on one host: PostgreSQL 1.29 (40 turns each; shorter runs 1.15 to 1.33), MariaDB 1.13 and 1.10
  (40 and 60 turns each; shorter runs 1.01 to 1.35);
- spread over 200 hosts, where nobody waits: PostgreSQL 1.05 and 1.08, MariaDB 0.97 and 0.91, with
  single turns from 0.68 to 1.52: no difference that can be told.

With the commit in the same message over the commit in one of its own, in turns of one second:

- all on one host: PostgreSQL 1.11 (30 turns), and 1.21 on cores that were busy (25 turns, before the
  statement looked for moved generations itself); spread over 1,000 hosts: 1.01 and 1.05.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    TextClause,
    Update,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    select,
    update,
)

from placement.db import change_rows, in_list, models, owner_usage_rows, provider_rows
from placement.db.database import StaleRead, Transaction
from placement.db.inventory_rows import InventoryRow
from placement.db.owner_usage_rows import Account
from placement.db.provider_rows import LockedProvider
from placement.db.ready import Ready

_inventories = models.inventories
_key = _inventories.c.id
_used = _inventories.c.used
_UPDATE = update(_inventories)
_ONE = literal_column("1", Integer)

Write = tuple[Ready, dict[str, Any]]
"""A statement and its parameters."""

Changes = Sequence[tuple[int, int]]
"""By how much counters move, by record id in order."""


@dataclass(frozen=True, slots=True)
class Closing:
    """What is left to write of a change once its places are held and have room.

    ``moved``: by how much the counters of which records move; ``stepped``: the providers whose
    generation is stepped, by the number of steps; ``touched``: ids of others that the search must
    read again; ``owed``: by how much the sums of owners move.
    """

    moved: Sequence[tuple[InventoryRow, int]]
    stepped: Mapping[int, Collection[LockedProvider]]
    touched: Collection[int]
    owed: Mapping[Account, int]

    @property
    def provider_ids(self) -> set[int]:
        """The providers of which something moves that searches see."""
        return provider_rows.written_ids(self.stepped, self.touched)

    @property
    def number_stepped(self) -> int:
        """How many providers have their generation stepped."""
        return sum(map(len, self.stepped.values()))

    @property
    def has_ready_text(self) -> bool:
        """It is small, and all generations are stepped alike."""
        parts = (self.moved, *self.stepped.values(), self.touched, self.owed)
        return len(self.stepped) <= 1 and max(map(len, parts)) <= in_list.SIZES[-1]

    @property
    def is_uniform(self) -> bool:
        """Some counter moves of every provider, and all providers are written alike."""
        alike = not (self.number_stepped and self.touched)
        return (
            alike
            and bool(self.moved)
            and self.provider_ids == {record.provider_id for record, _ in self.moved}
        )


def close(tx: Transaction, closing: Closing) -> None:
    """Write all of it; the last writes of a transaction.

    :raises StaleRead: the generation of a provider is not the one that was read.
    """
    changes = sorted((record.id, by) for record, by in closing.moved)
    if closing.has_ready_text and tx.dialect == "postgresql":
        _write_at_once(tx, closing, changes)
        return
    if closing.has_ready_text and closing.is_uniform and tx.dialect == "mysql":
        _write_places(tx, closing, changes)
    else:
        for part in in_list.batches(changes):
            _move_counters(tx, part)
        provider_rows.advance(tx, closing.stepped, closing.touched, stock_alone=True)
    owner_usage_rows.add(tx, closing.owed)


def _write_at_once(tx: Transaction, closing: Closing, changes: Changes) -> None:
    """Write all of it with one statement, the last; no part of it writes a row of another."""
    writes = _of_providers(closing)
    if changes:
        writes.append(_moving(changes))
    if rows := owner_usage_rows.rows_of(tx, closing.owed):
        writes.append(owner_usage_rows.adding(tx.dialect, rows))
    if ids := closing.provider_ids:
        # PostgreSQL writes the first, then the others from the last on: the slot before the sums.
        writes.append((change_rows.NOTE, change_rows.noted(tx, ids, stock_alone=True)))
    if not writes:
        return
    parameters = {name: value for _, bound in writes for name, value in bound.items()}
    is_strict = closing.number_stepped > 0
    if is_strict:
        parameters["number_stepped"] = closing.number_stepped
    tx.finish(_together(is_strict, *(statement for statement, _ in writes)), parameters)


@lru_cache(maxsize=256)
def _together(is_strict: bool, first: Ready, *others: Ready) -> Ready:
    """Return one statement; a strict one fails unless the first writes ``number_stepped`` providers.

    It divides by zero then: the commit comes with it, and nobody could ask for the number before.
    """
    statements = [other.statement for other in others]
    parts = [
        (each.columns() if isinstance(each, TextClause) else each).cte(f"write_{number}")
        for number, each in enumerate(statements)
    ]
    whole = first.statement
    if is_strict:
        stepped = whole.returning(models.resource_providers.c.id).cte("stepped")
        number = select(func.count()).select_from(stepped).scalar_subquery()
        whole = select(_ONE // cast(number == bindparam("number_stepped"), Integer))
    return Ready(whole.add_cte(*parts) if parts else whole)


def _write_places(tx: Transaction, closing: Closing, changes: Changes) -> None:
    """Write counters, providers and log of a uniform change with one statement."""
    ((providers, parameters),) = _of_providers(closing)
    statement = _with_counters(providers, in_list.size_for(len(changes)))
    parameters |= _moving(changes)[1]
    parameters |= change_rows.noted(tx, closing.provider_ids, stock_alone=True)
    found = tx.change(statement, parameters)
    # Each row of each table counts once, and those of a provider with another generation do not.
    if found != closing.number_stepped + len(closing.touched) + len(changes) + 1:
        raise StaleRead("a provider's generation is another")


@lru_cache(maxsize=256)
def _with_counters(providers: Ready, size: int) -> Ready:
    """It finds no provider without one of the records and no record of another provider."""
    by = in_list.by_key(_key, _used, "key", "by", size)
    own = _inventories.c.resource_provider_id == models.resource_providers.c.id
    written = providers.statement.where(own, change_rows.IS_OWN_SLOT)
    written = written.values(change_rows.WRITTEN)
    return Ready(_move(size, by, written))


def _of_providers(closing: Closing) -> list[Write]:
    """Return at most two statements: those that are stepped come first."""
    writes: list[Write] = [
        provider_rows.stepping(provider_rows.generations(providers), steps)
        for steps, providers in closing.stepped.items()
        if providers
    ]
    if closing.touched:
        writes.append(provider_rows.touching(closing.touched))
    return writes


def _move_counters(tx: Transaction, changes: Changes) -> None:
    if in_list.size_for(len(changes)) != in_list.ANY_SIZE:
        tx.change(*_moving(changes))
        return
    moving = _move(in_list.ANY_SIZE, case(dict(changes), value=_key))
    tx.execute(moving, in_list.bound("key", [key for key, _ in changes], in_list.ANY_SIZE))


def _moving(changes: Changes) -> Write:
    """Return the statement that adds to counters, of which there are few, and its parameters."""
    size = in_list.size_for(len(changes))
    parameters = in_list.bound("key", [key for key, _ in changes], size)
    return _move_of(size), parameters | in_list.bound("by", [by for _, by in changes], size)


@cache
def _move_of(size: int) -> Ready:
    return Ready(_move(size, in_list.by_key(_key, _used, "key", "by", size)))


def _move(size: int, by: ColumnElement[int], updated: Update = _UPDATE) -> Update:
    return updated.where(in_list.is_among(_key, "key", size)).values(
        # The record as the API shows it did not change: its modified time stays.
        {_used: _used + by, _inventories.c.updated_at: _inventories.c.updated_at}
    )
