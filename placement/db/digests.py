"""A checksum of a provider's search data, stored with its revision, which reveals foreign changes.

Workers read a provider again when its revision has moved. A statement by hand that changes an inventory or a
trait does not move the revision, so their pictures would keep the old values. A write that moves the revision
therefore also stores the checksum of the provider's new data (``digest``), and that the revision is ours
(``own_revision``). The scrub computes the checksum again (:mod:`placement.db.scrub`). A claim does not change
the checksum and only steps our revision.

The checksum covers names, not ids, since pictures have names. The scrub compares usage with the ledger
instead, and the generation with the own generation. The database computes the checksum without an additional
message or statement.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Float,
    Select,
    String,
    Subquery,
    Table,
    Text,
    cast,
    func,
    literal,
    literal_column,
    select,
    union_all,
)

from placement.db import dialects, models
from placement.inventory_record import InventoryRecord

_providers = models.resource_providers
_inventories = models.inventories

# Checksums have 32 bits, so that no sum exceeds 64. Another release of PostgreSQL may compute hashtext()
# differently, which MEASURE detects; sha256() took ten times as long, and some servers refuse md5().
_CHECKSUM = {
    "sqlite": "placement_crc32({})",
    "postgresql": "hashtext(concat_ws(' ', {}))",
    "mysql": "CRC32(CONCAT_WS(' ', {}))",
}

# On PostgreSQL the digits of a number depend on a setting of the session.
_RATIO = {"sqlite": "{}", "postgresql": "hashfloat8({})", "mysql": "{}"}

# The driver of SQLite refuses to hand a text that is not UTF-8 to a function.
_TEXT = {"sqlite": "CAST({} AS BLOB)", "postgresql": "{}", "mysql": "{}"}


def _checksum(*values: ColumnElement[Any]) -> ColumnElement[int]:
    places = ", ".join(["{}"] * len(values))
    spelling = {kind: text.replace("{}", places) for kind, text in _CHECKSUM.items()}
    given = (
        dialects.DialectText(_TEXT, each) if isinstance(each.type, String) else each for each in values
    )
    return cast(dialects.DialectText(spelling, *given), BigInteger)


MEASURE: ColumnElement[int] = _checksum(literal("digests of release 1", Text), literal(0.5, Float))
"""A value that differs if another server, or another release, computes digests differently."""

_amounts = [
    dialects.DialectText(_RATIO, column) if name == "allocation_ratio" else column
    for name in InventoryRecord._fields
    for column in [_inventories.c[name]]
]


class _Part(NamedTuple):
    """A table with associations of a provider: ``key`` refers to the name, ``more`` lists further columns."""

    table: Table
    key: Column[int]
    name: Column[Any]
    more: Sequence[ColumnElement[Any]]

    @property
    def provider(self) -> ColumnElement[int]:
        return self.table.c.resource_provider_id

    @property
    def checksum(self) -> ColumnElement[int]:
        return _checksum(func.coalesce(self.name, ""), *self.more)


def _by_name(table: Table, key: str, name: Column[Any], what: str) -> _Part:
    return _Part(table, table.c[key], name, (literal(what, Text),))


_STOCK = _Part(_inventories, _inventories.c.resource_class_id, models.resource_classes.c.name, _amounts)
_BY_NAME = (
    _by_name(models.resource_provider_traits, "trait_id", models.traits.c.name, "trait"),
    _by_name(
        models.resource_provider_aggregates, "aggregate_id", models.placement_aggregates.c.uuid, "aggregate"
    ),
)

_ALL: ColumnElement[int] = literal_column(str(2**62))
"""A limit above the size of any table: a database evaluates a subquery with a limit separately, once."""


def _checksums(part: _Part, *columns: ColumnElement[Any]) -> Select[Any]:
    """Return the checksum of each row of a table, after the columns."""
    rows = select(*columns, part.checksum.label("checksum"))
    return rows.select_from(part.table.outerjoin(part.name.table, part.name.table.c.id == part.key))


def _sums_by_name(part: _Part) -> Select[Any]:
    """Return the sums of the same checksums as (provider, checksum), and compute each checksum once.

    A cloud has a few hundred names, and each host a few dozen of them. A checksum for each row took a quarter
    of the scrub's time for providers on PostgreSQL, and half of it on MariaDB.
    """
    names = select(part.name.table.c.id, part.checksum.label("checksum")).limit(_ALL).subquery()
    # The outer join covers a name that was deleted.
    checksum = func.coalesce(names.c.checksum, _checksum(literal("", Text), *part.more))
    sums = select(part.provider.label("provider"), func.sum(checksum).label("checksum"))
    return sums.select_from(part.table.outerjoin(names, names.c.id == part.key)).group_by(part.provider)


def select_sums(is_meant: Callable[[ColumnElement[int]], ColumnElement[bool]]) -> Subquery:
    """Return the sums of the checksums of providers' associations, as (provider, parts), in one pass.

    :param is_meant: takes a column with provider ids, and returns the condition for the wanted ones.
    """
    rows = union_all(
        _checksums(_STOCK, _STOCK.provider.label("provider")).where(is_meant(_STOCK.provider)),
        *(_sums_by_name(part).where(is_meant(part.provider)) for part in _BY_NAME),
    ).subquery()
    total = cast(func.sum(rows.c.checksum), BigInteger).label("parts")
    return select(rows.c.provider, total).group_by(rows.c.provider).subquery()


def of_row(
    uuid: ColumnElement[Any] = _providers.c.uuid,
    name: ColumnElement[Any] = _providers.c.name,
    parent_id: ColumnElement[Any] = _providers.c.parent_provider_id,
    root_id: ColumnElement[Any] = _providers.c.root_provider_id,
) -> ColumnElement[int]:
    """Return the checksum of a provider's own row, which is complete for a provider without associations.

    :param uuid, name, parent_id, root_id: the values that the same statement writes to these columns. Inside
        the statement a column is the old value on PostgreSQL and the new value on MariaDB.
    """
    return _checksum(uuid, func.coalesce(name, ""), func.coalesce(parent_id, 0), func.coalesce(root_id, 0))


def of_provider(**written: ColumnElement[Any]) -> ColumnElement[int]:
    """Return the checksum of a provider's search data, with the associations as they are now.

    :param written: the written values, as in :func:`of_row`.
    """
    digest = of_row(**written)
    for part in (_STOCK, *_BY_NAME):
        rows = _checksums(part).where(part.provider == _providers.c.id)
        total = cast(func.coalesce(func.sum(rows.selected_columns.checksum), 0), BigInteger)
        sums = rows.with_only_columns(total, maintain_column_froms=True).correlate(_providers)
        digest += sums.scalar_subquery()
    return digest


def revise(**written: ColumnElement[Any]) -> dict[Any, ColumnElement[Any]]:
    """Return the values to write for a provider that has changed, for ``ordered_values``.

    The revision moves, and the digest covers the provider's present data. The row must be locked already: on
    PostgreSQL a statement that waits does not see the other's commit in its subqueries, and the digest would
    be outdated.

    :param written: the written values, as in :func:`of_provider`.
    """
    return {
        # This assignment precedes the revision's, which MariaDB would otherwise have changed already.
        _providers.c.own_revision: _providers.c.revision + 1,
        _providers.c.digest: of_provider(**written),
        _providers.c.revision: _providers.c.revision + 1,
    }
