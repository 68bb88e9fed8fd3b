"""Checksums that show a write of any service, even if no log has it and no generation was stepped.

The checksums are sums over blocks of ids: a block with a different sum is read again. Reading them takes the
database 35 ms with 200,000 consumers, and 180 ms after a claim.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    case,
    cast,
    func,
    literal,
    literal_column,
    select,
)

from placement.db import dialects, models
from placement.db.coexistence.state import UNDER_WAY
from placement.db.database import Snapshot
from placement.db.statements import CompiledStatement

_providers = models.resource_providers
_allocations = models.allocations
_consumers = models.consumers
_members = models.resource_provider_aggregates.c

_MARK = {
    "sqlite": "CAST(julianday({1}) * 86400000 AS INTEGER)",
    "postgresql": "CAST(extract(epoch FROM {1}) * 1000000 AS bigint)",
    # These databases store times in whole seconds.
    "mysql": "(timestampdiff(SECOND, '1970-01-01', {1}) + crc32({0}))",
}


def _mark(table: FromClause) -> ColumnElement[int]:
    """Return a checksum of a row's name and of the time of its last change.

    The checksum is 0 without a time, or, on MySQL and MariaDB, without a name.
    """
    moment = func.coalesce(table.c.updated_at, table.c.created_at)
    return func.coalesce(dialects.DialectText(_MARK, table.c.name, moment, type_=BigInteger()), 0)


# The constant is larger than any id and added for each row, so that sums of different numbers of rows differ.
_MANY = 2**33
_MIXED, _BELOW, _STRIDE = 9007199254740881, 999999999989, 1000003


def _mix(number: ColumnElement[int], other: ColumnElement[int]) -> ColumnElement[int]:
    """Return a number that is linear in neither argument: plain sums of {1, 4} and {2, 3} would be equal."""
    key = cast(number, BigInteger) * _STRIDE + other + _STRIDE
    return literal(_MIXED, BigInteger) % key % _BELOW


def _sum_checksums(number: ColumnElement[int], of_provider: ColumnElement[int]) -> ColumnElement[int]:
    """Return a checksum of a provider's associated rows."""
    rows = select(cast(_sum(number + literal(_MANY, BigInteger)), BigInteger))
    return rows.where(of_provider == _providers.c.id).correlate(_providers).scalar_subquery()


def _sum(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.coalesce(func.sum(value), 0)


CHECKSUMS_OF_PROVIDER: tuple[ColumnElement[int], ...] = tuple(
    case((UNDER_WAY, sign), else_=0)
    for sign in (
        # Ids of allocations only grow, so their sums differ for different sets; ids of aggregates can repeat.
        _sum_checksums(_allocations.c.id, _allocations.c.resource_provider_id),
        _sum_checksums(
            _mix(_members.aggregate_id, _members.resource_provider_id),
            _members.resource_provider_id,
        ),
        _mark(_providers),
    )
)
"""Checksums that show a change of a provider even without a step of its generation; 0 without a
coexistence.
"""

BLOCK_BITS = 5
"""The ids of providers in one block, which are compared and read together, differ in this many bits."""

Rows = Mapping[int, Sequence[Any]]
"""The rows that were read of each block, by ``provider id >> BLOCK_BITS``."""


class ForeignChangeChecksums(NamedTuple):
    """Checksums; a write by any service that a search can see changes at least one of them.

    ``classes`` and ``consumers`` cover all rows of these tables. ``shape`` covers the set of providers and
    their places in trees. ``contents``, ``allocations`` and ``memberships`` cover everything else about
    providers.
    """

    classes: Sequence[Any]
    consumers: Sequence[Any]
    shape: Rows
    contents: Rows
    allocations: Rows
    memberships: Rows

    def changed_since(self, before: "ForeignChangeChecksums") -> list[range] | None:
        """Return ids that include all changed providers; None if more than contents has changed."""
        # A change of a provider's descendants or of the name of a class affects providers whose rows were not
        # written.
        if (self.classes, self.shape) != (before.classes, before.shape):
            return None
        pairs = (
            (self.contents, before.contents),
            (self.allocations, before.allocations),
            (self.memberships, before.memberships),
        )
        blocks = {
            block
            for new, old in pairs
            for block in new.keys() | old.keys()
            if new.get(block) != old.get(block)
        }
        return [range(block << BLOCK_BITS, (block + 1) << BLOCK_BITS) for block in blocks]


def _by_block(of_provider: ColumnElement[int], *checksums: ColumnElement[Any]) -> CompiledStatement:
    block = of_provider.bitwise_rshift(literal_column(str(BLOCK_BITS)))
    return CompiledStatement(select(block, *checksums).group_by(block))


_CLASSES_SIGN = CompiledStatement(
    select(
        func.count(),
        _sum(models.resource_classes.c.id),
        _sum(_mark(models.resource_classes)),
    )
)
_SHAPE = (
    func.count(),
    _sum(_providers.c.id),
    _sum(_mix(_providers.c.parent_provider_id, _providers.c.id)),
    _sum(_mix(_providers.c.root_provider_id, _providers.c.id)),
)
_PROVIDERS = _by_block(
    _providers.c.id,
    *_SHAPE,
    _sum(_providers.c.revision + func.coalesce(_providers.c.generation, 0)),
    _sum(_mark(_providers)),
)
# Ids of allocations only grow and no allocation is changed in place: equal numbers and sums mean equal sets.
_ALLOCATIONS = _by_block(
    _allocations.c.resource_provider_id, func.count(), _sum(_allocations.c.id)
)
_MEMBERSHIPS = _by_block(
    _members.resource_provider_id,
    func.count(),
    _sum(_members.aggregate_id),
    _sum(_mix(_members.aggregate_id, _members.resource_provider_id)),
)


# Generations of consumers only grow, and ids too, so equal sums mean equal sets. SQLite alone gives the id of
# a removed consumer to the next one, so there the times count as well.
_WHEN = {"sqlite": "CAST(julianday({}) * 86400000 AS INTEGER)", "postgresql": "0", "mysql": "0"}
_CONSUMERS_SIGN = CompiledStatement(
    select(
        func.count(),
        _sum(_consumers.c.id),
        _sum(_consumers.c.generation),
        _sum(dialects.DialectText(_WHEN, _consumers.c.created_at, type_=BigInteger())),
    )
)


def read_checksums(tx: Snapshot, before: ForeignChangeChecksums | None) -> ForeignChangeChecksums:
    """Return the present checksums.

    Four statements, which read all classes, consumers, providers and memberships. A fifth statement reads all
    allocations, unless the consumers are unchanged. No service changes allocations without changing a
    consumer, so the value in ``before`` is then still right.
    """
    classes, consumers = tx.rows(_CLASSES_SIGN)[0], tx.rows(_CONSUMERS_SIGN)[0]
    providers = _rows_by_block(tx, _PROVIDERS)
    is_known = before is not None and before.consumers == consumers
    allocations = before.allocations if before and is_known else _rows_by_block(tx, _ALLOCATIONS)
    first = len(_SHAPE)
    return ForeignChangeChecksums(
        classes,
        consumers,
        {block: numbers[:first] for block, numbers in providers.items()},
        {block: numbers[first:] for block, numbers in providers.items()},
        allocations,
        _rows_by_block(tx, _MEMBERSHIPS),
    )


def _rows_by_block(tx: Snapshot, statement: CompiledStatement) -> Rows:
    return {block: numbers for block, *numbers in tx.rows(statement)}
