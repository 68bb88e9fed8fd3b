"""The watcher of the example."""

from collections.abc import Callable, Collection
from functools import partial

from oslo_config import cfg
from placement.extensions.writes_seen.invariants import PLACES
from sqlalchemy import delete

from placement.db.change import Change
from placement.db.database import Transaction


class WriteCounter:
    """Counts the writes that this process has finished, also those that are undone after that."""

    finished = 0

    def take(
        self,
        tx: Transaction,
        providers: Collection[str],
        consumers: Collection[str],
        new_consumers: Collection[str],
    ) -> Callable[[Change], object]:
        """Count when the write is done."""
        return partial(self._count, tx)

    def _count(self, tx: Transaction, change: Change) -> None:
        self.finished += 1
        for uuid, consumer in change.consumers.items():
            # None: its allocations are the same as before.
            if consumer.held is not None:
                tx.change(delete(PLACES).where(PLACES.c.consumer_uuid == uuid))
                tx.insert(PLACES, [{"consumer_uuid": uuid, "number": len(consumer.held)}])


COUNTER = WriteCounter()


def list_watchers(conf: cfg.ConfigOpts) -> tuple[WriteCounter, ...]:
    """Return the counter if the option asks for it."""
    return (COUNTER,) if conf.insight.count_writes else ()
