"""Rows that name a consumer by its id and by its uuid: holds, and memberships of groups.

A database can give the id of a consumer to another consumer: SQLite after a deletion, every database after a
restore or TRUNCATE. So a row counts only for the consumer that also has its uuid. If the same uuid gets the
same id again, nothing distinguishes the two: ``db restored`` deletes such rows before. A worker of the
previous release writes no uuid. Its rows count by the id, until a data migration notes the uuid.
"""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Table, or_, select, update

from placement.db import models
from placement.db.database import Transaction
from placement.db.statements import is_one_of
from placement.extensions.claims.tables import consumer_group_members, consumer_holds

_consumers = models.consumers

TABLES: Sequence[Table] = (consumer_holds, consumer_group_members)


def names_consumer(table: Table) -> ColumnElement[bool]:
    """Return the condition that a row of one of :data:`TABLES` is about the row of ``consumers``."""
    same_uuid = or_(table.c.consumer_uuid.is_(None), table.c.consumer_uuid == _consumers.c.uuid)
    return (table.c.consumer_id == _consumers.c.id) & same_uuid


def note_uuids(tx: Transaction, most: int) -> int:
    """Write the uuids of at most ``most`` consumers into rows without one; return how many consumers."""
    done = 0
    for table in TABLES:
        done += _note_uuids_of(tx, table, most - done) if done < most else 0
    return done


def _note_uuids_of(tx: Transaction, table: Table, most: int) -> int:
    without = (
        select(table.c.consumer_id)
        .distinct()
        .join(_consumers, _consumers.c.id == table.c.consumer_id)
        .where(table.c.consumer_uuid.is_(None))
        .limit(most)
    )
    ids = sorted(tx.column(without))
    if not ids:
        return 0
    uuid = select(_consumers.c.uuid).where(_consumers.c.id == table.c.consumer_id).scalar_subquery()
    lacks = (is_one_of(table.c.consumer_id, ids), table.c.consumer_uuid.is_(None))
    tx.change(update(table).where(*lacks).values(consumer_uuid=uuid))
    return len(ids)
