"""Begin and end of a coexistence: at its end all that is derived is computed anew."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from sqlalchemy import func, select

from placement.db import invariants, models, provider_rows, writes
from placement.db.change import Change
from placement.db.coexistence import adoption, state
from placement.db.coexistence.adoption import BATCH
from placement.db.database import Access, Database, Transaction

_ids = models.resource_providers.c.id

TellProgress = Callable[[str, int, int], object]
"""Told what is counted, how many rows of it are, and how many there are."""


def _tell_nobody(what: str, done: int, total: int) -> None:
    pass


def release(db: Database) -> None:
    """Let processes of the old service write again, while this one runs."""
    db.write(state.begin)


def finish(db: Database, tell_progress: TellProgress = _tell_nobody) -> None:
    """Compute everything derived anew while the service runs, and end the coexistence.

    No process of the old service runs any more. Several short transactions; a second call does no harm.
    """
    for _ in count_anew(db, tell_progress):
        pass
    db.write(end)


def end(tx: Transaction) -> bool:
    """End the coexistence: from now on services use the counters and the log, which are right.

    :returns: whether this call has ended it.
    """
    lasted = state.remove_begin(tx)
    # A worker that did not search meanwhile does not know what the other service has deleted.
    writes.finish(tx, Change(is_unnamed=True))
    return lasted


def count_anew(db: Database, tell_progress: TellProgress = _tell_nobody) -> Iterator[None]:
    """Compute everything derived anew, one short transaction for each turn."""
    for ids in walk_providers(db, tell_progress):
        db.write(partial(_adopt, ids=ids))
        yield
    yield from count_owners(db, tell_progress)


def walk_providers(db: Database, tell_progress: TellProgress) -> Iterator[Sequence[int]]:
    """Yield the ids of all providers, batch by batch, to be counted before the next one is asked for."""
    total = db.read(lambda access: int(access.value(select(func.count(_ids))) or 0))
    done = last = 0
    while ids := db.read(partial(_next_ids, after=last)):
        yield ids
        done += len(ids)
        tell_progress("resource providers counted", done, max(done, total))
        last = ids[-1]


def count_owners(db: Database, tell_progress: TellProgress) -> Iterator[None]:
    """Compute the sums of owners anew, one short transaction for each turn."""
    total, done = db.snapshot(invariants.wrong_owner_usages), 0
    for number in invariants.repairs(db, invariants.OWNER_USAGES):
        done += number
        tell_progress("usages of projects counted", done, max(done, total))
        yield


def _next_ids(access: Access, after: int) -> list[int]:
    # No OFFSET is used: providers are created and deleted between the transactions.
    return access.column(select(_ids).where(_ids > after).order_by(_ids).limit(BATCH))


def _adopt(tx: Transaction, ids: Collection[int]) -> None:
    provider_rows.lock(tx, (), ids)
    adoption.adopt(tx, ids)
    writes.finish(tx, Change())
