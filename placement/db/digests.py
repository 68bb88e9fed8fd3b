"""A checksum of what searches read of a provider, kept beside its revision: what no write of ours left shows.

Workers read a provider again when its revision has moved. A statement by hand changes an inventory or a trait
and moves none, so their pictures would keep what was there before. The statement of a write that moves the
revision therefore also notes the checksum of what the provider has now (``digest``), and that the revision is
one of ours (``own_revision``). The scrub computes the checksum again (:mod:`placement.db.scrub`). A claim
changes nothing of it, and only adds to the revision of ours.

Names are in it and not ids, since pictures have names. What is used is compared with the ledger instead, and
the generation with the own one. Computed in the database: no message and no statement is sent for it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Float,
    Select,
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

# The digits of the number depend on a setting of the session on PostgreSQL.
_RATIO = {"sqlite": "{}", "postgresql": "hashfloat8({})", "mysql": "{}"}


def _checksum(*values: ColumnElement[Any]) -> ColumnElement[int]:
    places = ", ".join(["{}"] * len(values))
    spelling = {kind: text.replace("{}", places) for kind, text in _CHECKSUM.items()}
    return cast(dialects.DialectText(spelling, *values), BigInteger)


MEASURE: ColumnElement[int] = _checksum(literal("digests of release 1", Text), literal(0.5, Float))
"""A value that differs if another server, or another release, computes digests differently."""

_amounts = [
    dialects.DialectText(_RATIO, column) if name == "allocation_ratio" else column
    for name in InventoryRecord._fields
    for column in [_inventories.c[name]]
]


class _Part(NamedTuple):
    """A table with associations of a provider: ``key`` refers to the name, and ``more`` counts too."""

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
    """Return the sums of the same checksums as (provider, checksum), of which each is computed once.

    A cloud has some hundred names, and each host some dozen of them. A checksum for each row took a quarter
    of the time of a scrub's look at providers on PostgreSQL, and half of it on MariaDB.
    """
    names = select(part.name.table.c.id, part.checksum.label("checksum")).limit(_ALL).subquery()
    # The name may be gone.
    checksum = func.coalesce(names.c.checksum, _checksum(literal("", Text), *part.more))
    sums = select(part.provider.label("provider"), func.sum(checksum).label("checksum"))
    return sums.select_from(part.table.outerjoin(names, names.c.id == part.key)).group_by(part.provider)


def select_sums(is_meant: Callable[[ColumnElement[int]], ColumnElement[bool]]) -> Subquery:
    """Return the sums of the checksums of all that providers have, as (provider, parts), in one pass.

    :param is_meant: says of a column with the id of a provider which providers are asked for.
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
    """Return the checksum of a provider's own row, which is all of one that has nothing yet.

    :param uuid, name, parent_id, root_id: where the same statement writes them, what it writes. In it the
        columns are the old values on PostgreSQL and the new ones on MariaDB.
    """
    return _checksum(uuid, func.coalesce(name, ""), func.coalesce(parent_id, 0), func.coalesce(root_id, 0))


def of_provider(**written: ColumnElement[Any]) -> ColumnElement[int]:
    """Return the checksum of all that searches read of a provider, its parts as they are now.

    :param written: as :func:`of_row`.
    """
    digest = of_row(**written)
    for part in (_STOCK, *_BY_NAME):
        rows = _checksums(part).where(part.provider == _providers.c.id)
        total = cast(func.coalesce(func.sum(rows.selected_columns.checksum), 0), BigInteger)
        sums = rows.with_only_columns(total, maintain_column_froms=True).correlate(_providers)
        digest += sums.scalar_subquery()
    return digest


def revise(**written: ColumnElement[Any]) -> dict[Any, ColumnElement[Any]]:
    """Return what is written of a provider that has changed, for ``ordered_values``.

    The revision moves, and the digest is that of what the provider has now. The row is locked already: what a
    statement waits for is not in its snapshot on PostgreSQL, and the digest would be that of before.

    :param written: as for :func:`of_provider`.
    """
    return {
        # This assignment comes before the one of the revision, which MariaDB would have changed already.
        _providers.c.own_revision: _providers.c.revision + 1,
        _providers.c.digest: of_provider(**written),
        _providers.c.revision: _providers.c.revision + 1,
    }
