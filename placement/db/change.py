"""The values that a write passes to :func:`placement.db.writes.finish`, and observers of them. Pure."""

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
    """A consumer as a write leaves it. An owner, a type or allocations of None mean unchanged.

    ``generation``: the generation after the write. ``held``: amounts by class, by provider uuid; a consumer
    that holds nothing is removed.
    """

    author: Author
    generation: int = 0
    project: str | None = None
    user: str | None = None
    type: str | None = None
    held: Mapping[str, Mapping[str, int]] | None = None


@dataclass(frozen=True, slots=True)
class Departure:
    """Providers that have left a tree, because they were deleted or moved to another tree."""

    provider_ids: Collection[int]
    root_uuid: str


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of one write.

    :param stepped: providers whose generation and revision go up.
    :param touched: ids of providers of which the revision alone goes up: searches read them again.
    :param usage_only: only the usage of the stepped and touched providers has changed.
    :param written: ids of providers whose rows were written with their new revision already.
    :param left: providers that have left their tree; their rows, too, are written already.
    :param renamed_classes: ids of resource classes; searches read each provider with inventory of one again.
    :param is_unnamed: the log cannot say what has changed, so searches compare all providers.
    :param counters: ids of inventory records, and by how much their usage goes up.
    :param owner_usages: the amounts by which the sums of owners go up.
    :param consumers: the consumers by uuid; each was taken by :func:`placement.db.writes.take`.
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
    """An observer of writes that needs the state before them."""

    def take(
        self,
        tx: "Transaction",
        providers: Collection[str],
        consumers: Collection[str],
        new_consumers: Collection[str],
    ) -> Callable[[Change], object]:
        """Read the rows that a write is about to change, and return a function to call when it is done.

        Both run inside the transaction. The arguments are those of :func:`placement.db.writes.take`.
        """
