"""Statements on holds: consumers whose allocations expire (specification 09 section 5).

A row counts only while the consumer has the uuid and the generation that it names. Times are milliseconds
since the epoch, by the clock of the database.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, bindparam, delete, exists, literal, or_, select

from placement.db import models
from placement.db.clock import NOW
from placement.db.database import Access, Transaction
from placement.db.statements import CompiledStatement, is_among
from placement.extensions.claims import tables
from placement.extensions.claims.consumer_keys import names_consumer

_holds = tables.consumer_holds
_consumers = models.consumers

# The condition ignores whether the consumer exists: every search for expired holds uses this one condition.
_HAS_EXPIRED: ColumnElement[bool] = _holds.c.expires_at <= NOW

ANY_EXPIRED: ColumnElement[bool] = exists(select(literal(1)).select_from(_holds).where(_HAS_EXPIRED))
"""The condition that a hold has expired: a search in an index that is nearly always empty."""


class Hold(NamedTuple):
    """A hold with its consumer. ``has_expired``: by the clock of the database."""

    consumer_id: int
    consumer_uuid: str
    generation: int
    expires_at: int
    has_expired: bool


_HOLD = (
    _consumers.c.id,
    _consumers.c.uuid,
    _holds.c.generation,
    _holds.c.expires_at,
    _HAS_EXPIRED.label("has_expired"),
)
# Every write of a consumer steps its generation, even by a service that does not know holds. So a hold ends
# without the removal of its row.
_VALID = names_consumer(_holds) & (_consumers.c.generation == _holds.c.generation)


def are_claims_used(tx: Access) -> bool:
    """Return whether any consumer at all is held or a member of a group. One statement."""
    return bool(tx.value(_ARE_CLAIMS_USED))


_ARE_CLAIMS_USED = CompiledStatement(
    select(
        or_(
            *(
                exists(select(literal(1)).select_from(table))
                for table in (_holds, tables.consumer_group_members)
            )
        )
    )
)


def find_valid(tx: Access, consumer_uuids: Collection[str]) -> dict[str, Hold]:
    """Return the valid holds by consumer uuid. One statement per thousand consumers."""
    return {
        row[1]: Hold(row[0], row[1], row[2], row[3], bool(row[4]))
        for row in tx.rows_of_all(_VALID_OF, "uuid", consumer_uuids)
    }


_VALID_OF = CompiledStatement(
    select(*_HOLD).join_from(_holds, _consumers, _VALID).where(is_among(_consumers.c.uuid, "uuid")),
    "uuid",
)


def find_expired(access: Access, most: int) -> dict[int, str | None]:
    """Return the expired holds, valid or not, as uuids of consumers by id.

    One statement. The uuid is None if the consumer is missing or was replaced.
    """
    # Whether a hold is valid is checked with the consumer locked; invalid rows must be removed as well.
    return dict(access.rows(_EXPIRED, {"most": most}))


# The outer join finds every row that ANY_EXPIRED finds, so that each can be removed.
_EXPIRED = CompiledStatement(
    select(_holds.c.consumer_id, _consumers.c.uuid)
    .outerjoin_from(_holds, _consumers, names_consumer(_holds))
    .where(_HAS_EXPIRED)
    .order_by(_holds.c.expires_at)
    .limit(bindparam("most"))
)


def find_some(access: Access, most: int) -> dict[int, str | None]:
    """Return some holds with their consumers, whether or not the holds have expired."""
    return dict(access.rows(_SOME, {"most": most}))


_SOME = CompiledStatement(
    select(_holds.c.consumer_id, _consumers.c.uuid)
    .outerjoin_from(_holds, _consumers, names_consumer(_holds))
    .order_by(_holds.c.consumer_id)
    .limit(bindparam("most"))
)


def lock_free(tx: Transaction, consumer_ids: Collection[int], most: int) -> list[int]:
    """Lock and return consumers, at most a thousand, that no other transaction has locked."""
    return tx.column(_LOCK_FREE, {"id": sorted(consumer_ids), "most": most})


_LOCK_FREE = CompiledStatement(
    select(_consumers.c.id)
    .where(is_among(_consumers.c.id, "id"))
    .limit(bindparam("most"))
    # The statement skips locked rows: earlier, one locked row made every search of every worker wait.
    .with_for_update(skip_locked=True),
    "id",
)


class ShownHold(NamedTuple):
    """A hold with its consumer and owner."""

    consumer_uuid: str
    generation: int
    expires_at: int
    has_expired: bool
    project: str
    user: str
    type: str | None


def list_valid(
    access: Access, limit: int, project: str | None, group: str | None, after: str | None
) -> list[ShownHold]:
    """Return the valid holds, in the order of the uuids of their consumers. One statement."""
    statement = (
        select(
            _consumers.c.uuid,
            *_HOLD[2:],
            models.projects.c.external_id,
            models.users.c.external_id,
            models.consumer_types.c.name,
        )
        .join_from(_holds, _consumers, _VALID)
        .join(models.projects, models.projects.c.id == _consumers.c.project_id)
        .join(models.users, models.users.c.id == _consumers.c.user_id)
        .outerjoin(
            models.consumer_types, models.consumer_types.c.id == _consumers.c.consumer_type_id
        )
        .order_by(_consumers.c.uuid)
        .limit(limit)
    )
    if project is not None:
        statement = statement.where(models.projects.c.external_id == project)
    if after is not None:
        statement = statement.where(_consumers.c.uuid > after)
    if group is not None:
        in_group = (
            select(literal(1))
            .select_from(tables.consumer_group_members)
            .join(
                tables.consumer_groups,
                tables.consumer_groups.c.id == tables.consumer_group_members.c.group_id,
            )
            .where(
                names_consumer(tables.consumer_group_members),
                tables.consumer_groups.c.name == group,
            )
        )
        statement = statement.where(exists(in_group))
    return [
        ShownHold(row[0], row[1], row[2], bool(row[3]), *row[4:]) for row in access.rows(statement)
    ]


def remove_ended(tx: Transaction, consumer_ids: Collection[int]) -> int:
    """Delete the rows of these consumers that are no longer valid; return their number. One statement."""
    if not consumer_ids:
        return 0
    return tx.change(_REMOVE_ENDED, {"id": sorted(consumer_ids)})


_counts = select(literal(1)).select_from(_consumers).where(_VALID)
# The condition is not the time: the consumer may have been claimed and held again before its record was
# locked.
_REMOVE_ENDED = CompiledStatement(
    delete(_holds).where(is_among(_holds.c.consumer_id, "id"), ~exists(_counts)), "id"
)


def remove_stray(tx: Transaction, consumer_ids: Collection[int]) -> int:
    """Delete expired holds whose consumer is missing or was replaced; return their number."""
    return tx.change(_REMOVE_STRAY, {"id": sorted(consumer_ids)})


# The condition includes the time: another consumer may have taken over the id and the row since it was read.
_REMOVE_STRAY = CompiledStatement(
    delete(_holds).where(is_among(_holds.c.consumer_id, "id"), _HAS_EXPIRED, ~exists(_counts)), "id"
)


class NewHold(NamedTuple):
    """A consumer to hold, with its generation."""

    consumer_id: int
    consumer_uuid: str
    generation: int


def add(tx: Transaction, held: Sequence[NewHold], seconds: int) -> int:
    """Hold consumers for a time; return when the holds expire. At least two statements."""
    # The time comes from the clock of the database, which also decides the expiry: clocks of several servers
    # differ.
    expires_at = int(tx.value(_NOW)) + 1000 * seconds
    rows = [{**each._asdict(), "expires_at": expires_at} for each in held]
    # A deletion by hand can leave a row of an earlier consumer with this id.
    tx.insert_later(_holds, rows, or_add=_OR_REPLACE[tx.dialect])
    return expires_at


_ON_CONFLICT = (
    " ON CONFLICT (consumer_id) DO UPDATE SET consumer_uuid = excluded.consumer_uuid,"
    " generation = excluded.generation, expires_at = excluded.expires_at"
)
_OR_REPLACE = {
    "sqlite": _ON_CONFLICT,
    "postgresql": _ON_CONFLICT,
    "mysql": " ON DUPLICATE KEY UPDATE consumer_uuid = VALUES(consumer_uuid),"
    " generation = VALUES(generation), expires_at = VALUES(expires_at)",
}


_NOW = CompiledStatement(select(NOW))
