"""The invariants of groups and holds (:mod:`placement.db.invariants`)."""

from typing import Any

from sqlalchemy import String, Table, delete, exists, literal, select, union_all

from placement.db import models
from placement.db.database import Transaction
from placement.db.invariants import Invariant
from placement.extensions.claims import broken_groups, consumer_keys, tables
from placement.extensions.claims.consumer_keys import names_consumer

_consumers = models.consumers
_groups, _members = tables.consumer_groups, tables.consumer_group_members


def _lacks_consumer(table: Table) -> Any:
    return ~exists(select(literal(1)).select_from(_consumers).where(names_consumer(table)))


# The deletion of a consumer deletes these rows.
_orphans = union_all(
    *(
        select(
            literal(table.name, String).label("table"), table.c.consumer_id.label("consumer")
        ).where(_lacks_consumer(table))
        for table in consumer_keys.TABLES
    )
)
_ORPHANS = select(_orphans.subquery())


def _remove_orphans(tx: Transaction) -> int:
    """Remove rows whose consumer was deleted without them."""
    return sum(
        tx.change(delete(table).where(_lacks_consumer(table))) for table in consumer_keys.TABLES
    )


_GROUPLESS = select(
    _members.c.consumer_id.label("consumer"), _members.c.group_id.label("group")
).where(~exists().where(_groups.c.id == _members.c.group_id))


def _remove_groupless(tx: Transaction) -> int:
    """Remove members whose group is missing."""
    return tx.change(delete(_members).where(~exists().where(_groups.c.id == _members.c.group_id)))


INVARIANTS = (
    Invariant(
        "groups of consumers keep their rules",
        broken_groups.BROKEN,
        advice="An ordinary write has moved a member: move it back, or claim it again (/-/claims). A rule"
        " that is neither apart nor together, or an at_most below 1, was written by hand: write it again.",
        broken=False,
    ),
    Invariant(
        "groups of consumers have members",
        broken_groups.WITHOUT_MEMBERS,
        broken_groups.remove_empty,
        broken=False,
        is_in_trees=False,
    ),
    Invariant("members of groups and holds have a consumer", _ORPHANS, _remove_orphans),
    Invariant("members of groups have a group", _GROUPLESS, _remove_groupless),
)
