"""The work after a restored backup: end outdated state, and compute all derived values again.

A backup brings back old holds, which have expired by now, the old log, and perhaps rows with broken
references (specification 06 section 7.9). The work can be repeated, and the service can run meanwhile.
"""

import secrets
from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

from placement.db import (
    change_rows,
    freshness,
    invariants,
    provider_rows,
    scrub_rows,
    sequences,
    writes,
)
from placement.db.change import Change
from placement.db.coexistence import adoption, takeover
from placement.db.coexistence.takeover import TellProgress
from placement.db.database import Database, Transaction
from placement.db.sequences import LaggingSequence

STEP_BITS = 30
"""How far revisions move: a search can know the revisions that providers had after the backup."""


class Restored(NamedTuple):
    """The work that was done.

    ``no_longer_held``: the uuids of consumers whose holds ended. ``rows``: the number of rows removed or
    inserted.
    """

    sequences: Sequence[LaggingSequence]
    no_longer_held: Sequence[str]
    rows: int
    providers: int


def settle(db: Database, tell_progress: TellProgress) -> Restored:
    """End holds, invalidate tokens, remove rows with broken references, and count all usage again."""
    # This comes first, since later steps can insert rows.
    lagging = db.snapshot(sequences.find_lagging)
    db.write(sequences.set_lagging)
    # A slot that cannot be stepped would stop the later steps.
    rows = invariants.repair(db, invariants.SLOTS)
    # This precedes the removal of expired holds by a worker: the backup was restored for their allocations.
    no_longer_held = [uuid for each in freshness.list_expiries() for uuid in each.end_all(db)]
    db.write(change_rows.void)
    # The order is reversed: members of groups are removed before groups without members.
    rows += sum(invariants.repair(db, each) for each in reversed(invariants.list_of_extensions()))
    providers, step = 0, 1 + secrets.randbits(STEP_BITS)
    for ids in takeover.walk_providers(db, tell_progress):
        db.write(partial(_count, ids=ids, step=step))
        providers += len(ids)
    for _ in takeover.count_owners(db, tell_progress):
        pass
    db.write(scrub_rows.forget)
    return Restored(lagging, no_longer_held, rows, providers)


def _count(tx: Transaction, ids: Collection[int], step: int) -> None:
    provider_rows.lock(tx, (), ids)
    adoption.adopt(tx, ids)
    change_rows.move_far(tx, ids, step)
    writes.finish(tx, Change())
