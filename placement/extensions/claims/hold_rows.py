"""Consumers whose allocations end at a time (specification 09 section 5).

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

# Whether or not its consumer exists: every look for expired holds has this one condition.
_HAS_EXPIRED: ColumnElement[bool] = _holds.c.expires_at <= NOW

ANY_EXPIRED: ColumnElement[bool] = exists(select(literal(1)).select_from(_holds).where(_HAS_EXPIRED))
"""Some hold has expired: a look into an index that is nearly always empty."""


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
# Every write of a consumer steps its generation, also by a service that knows no holds. So a hold ends
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
    """Return the holds that count, by consumer uuid. One statement for each thousand."""
    return {
        row[1]: Hold(row[0], row[1], row[2], row[3], bool(row[4]))
        for row in tx.rows_of_all(_VALID_OF, "uuid", consumer_uuids)
    }


_VALID_OF = CompiledStatement(
    select(*_HOLD).join_from(_holds, _consumers, _VALID).where(is_among(_consumers.c.uuid, "uuid")),
    "uuid",
)


def find_expired(access: Access, most: int) -> dict[int, str | None]:
    """Return the holds that have expired, whether they count or not: uuids of consumers by id. One statement.

    The uuid is None where no consumer has that id, or another one.
    """
    # Whether it counts is asked with the consumer locked; and rows that do not count are to go as well.
    return dict(access.rows(_EXPIRED, {"most": most}))


# An outer join: every row that ANY_EXPIRED sees is found, and so can be removed.
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
    """Lock some of the consumers, at most a thousand, that no other transaction has locked; return which."""
    return tx.column(_LOCK_FREE, {"id": sorted(consumer_ids), "most": most})


_LOCK_FREE = CompiledStatement(
    select(_consumers.c.id)
    .where(is_among(_consumers.c.id, "id"))
    .limit(bindparam("most"))
    # The statement skips locked rows: one locked row made every search of every worker wait for it before.
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
    """Return the holds that count, in the order of the uuids of their consumers. One statement."""
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
    """Delete the rows of these consumers that do not count any more; return how many. One statement."""
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
    """Delete expired holds whose consumer is missing, or another one; return how many."""
    return tx.change(_REMOVE_STRAY, {"id": sorted(consumer_ids)})


# The condition includes the time: another consumer may have got the id, and the row, since the row was read.
_REMOVE_STRAY = CompiledStatement(
    delete(_holds).where(is_among(_holds.c.consumer_id, "id"), _HAS_EXPIRED, ~exists(_counts)), "id"
)


class NewHold(NamedTuple):
    """A consumer that is to be held, with its generation."""

    consumer_id: int
    consumer_uuid: str
    generation: int


def add(tx: Transaction, held: Sequence[NewHold], seconds: int) -> int:
    """Hold consumers for so long; return until when. Two statements and more."""
    # The clock is the database's, which will judge the expiry: clocks of several servers differ.
    expires_at = int(tx.value(_NOW)) + 1000 * seconds
    rows = [{**each._asdict(), "expires_at": expires_at} for each in held]
    # A row of a consumer that had this id before may be there: deletions by hand leave it.
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
