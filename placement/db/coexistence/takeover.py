"""Begin and end of a coexistence: at the end all derived values are computed again."""

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
"""A callback that takes the name of the count, the rows done and the total."""


def _tell_nobody(what: str, done: int, total: int) -> None:
    pass


def release(db: Database) -> None:
    """Allow processes of the old service to write again while this service runs."""
    db.write(state.begin)


def finish(db: Database, tell_progress: TellProgress = _tell_nobody) -> None:
    """Compute all derived values again while the service runs, and end the coexistence.

    Call this when no process of the old service runs any more. Several short transactions; a second call is
    harmless.
    """
    for _ in count_anew(db, tell_progress):
        pass
    db.write(end)


def end(tx: Transaction) -> bool:
    """End the coexistence: from now on services use the counters and the log, which are right.

    :returns: whether this call has ended the coexistence.
    """
    lasted = state.remove_begin(tx)
    # A worker that did not search meanwhile does not know which providers the other service has deleted.
    writes.finish(tx, Change(is_unnamed=True))
    return lasted


def count_anew(db: Database, tell_progress: TellProgress = _tell_nobody) -> Iterator[None]:
    """Compute all derived values again, one short transaction per iteration."""
    for ids in walk_providers(db, tell_progress):
        db.write(partial(_adopt, ids=ids))
        yield
    yield from count_owners(db, tell_progress)


def walk_providers(db: Database, tell_progress: TellProgress) -> Iterator[Sequence[int]]:
    """Yield the ids of all providers in batches; the caller counts a batch before it asks for the next."""
    total = db.read(lambda access: int(access.value(select(func.count(_ids))) or 0))
    done = last = 0
    while ids := db.read(partial(_next_ids, after=last)):
        yield ids
        done += len(ids)
        tell_progress("resource providers counted", done, max(done, total))
        last = ids[-1]


def count_owners(db: Database, tell_progress: TellProgress) -> Iterator[None]:
    """Compute the sums of owners again, one short transaction per iteration."""
    total, done = db.snapshot(invariants.wrong_owner_usages), 0
    for number in invariants.repairs(db, invariants.OWNER_USAGES):
        done += number
        tell_progress("usages of projects counted", done, max(done, total))
        yield


def _next_ids(access: Access, after: int) -> list[int]:
    # OFFSET would skip rows: providers are created and deleted between the transactions.
    return access.column(select(_ids).where(_ids > after).order_by(_ids).limit(BATCH))


def _adopt(tx: Transaction, ids: Collection[int]) -> None:
    provider_rows.lock(tx, (), ids)
    adoption.adopt(tx, ids)
    writes.finish(tx, Change())
