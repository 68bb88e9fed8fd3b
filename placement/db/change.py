"""The values that a write hands to :func:`placement.db.writes.finish`, and who else learns of them. Pure."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from placement.authorship import Author

if TYPE_CHECKING:
    from placement.db.database import Transaction
    from placement.db.owner_usage_rows import Account

Steps = Mapping[int, Collection[tuple[int, int]]]
"""Ids of providers with the generations that were read, by the number of steps of their generation."""


@dataclass(frozen=True, slots=True)
class ConsumerOutcome:
    """A consumer as a write leaves it. An owner, a type or allocations of None stay as they were.

    ``generation``: after the write. ``held``: amounts by class, by provider uuid; a consumer that holds
    nothing is removed.
    """

    author: Author
    generation: int = 0
    project: str | None = None
    user: str | None = None
    type: str | None = None
    held: Mapping[str, Mapping[str, int]] | None = None


@dataclass(frozen=True, slots=True)
class Departure:
    """Providers that have left a tree: they were deleted, or moved to another one."""

    provider_ids: Collection[int]
    root_uuid: str


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of one write.

    :param stepped: providers whose generation and revision go up.
    :param touched: ids of providers of which the revision alone goes up: searches read them again.
    :param usage_only: nothing of the stepped and the touched has changed but what is used of them.
    :param written: ids of providers whose rows were written with their new revision already.
    :param left: providers that are not in their tree any more; their rows, too, are written already.
    :param renamed_classes: ids of resource classes: each provider that has inventory of one is read again.
    :param is_unnamed: the log cannot say what has changed, so searches compare all providers.
    :param counters: ids of inventory records, and by how much their usage goes up.
    :param owner_usages: by how much the sums of owners go up.
    :param consumers: by uuid; each was taken by :func:`placement.db.writes.take`.
    """

    stepped: Steps = field(default_factory=dict)
    touched: Collection[int] = ()
    usage_only: bool = False
    written: Collection[int] = ()
    left: Departure | None = None
    renamed_classes: Collection[int] = ()
    is_unnamed: bool = False
    counters: Collection[tuple[int, int]] = ()
    owner_usages: "Mapping[Account, int]" = field(default_factory=dict)
    consumers: Mapping[str, ConsumerOutcome] = field(default_factory=dict)


class WriteWatcher(Protocol):
    """An observer of writes that needs what was there before."""

    def take(
        self,
        tx: "Transaction",
        providers: Collection[str],
        consumers: Collection[str],
        new_consumers: Collection[str],
    ) -> Callable[[Change], object]:
        """Read what a write is about to change, and return the function that is called when it is done.

        Both run inside the transaction. Arguments as for :func:`placement.db.writes.take`.
        """
