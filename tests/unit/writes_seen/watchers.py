"""The watcher of the example."""

from collections.abc import Callable, Collection

from oslo_config import cfg

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
        return self._count

    def _count(self, change: Change) -> None:
        self.finished += 1


COUNTER = WriteCounter()


def list_watchers(conf: cfg.ConfigOpts) -> tuple[WriteCounter, ...]:
    """Return the counter if the option asks for it."""
    return (COUNTER,) if conf.insight.count_writes else ()
