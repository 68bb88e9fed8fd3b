"""Consumers: what a request says about one, and the generation that protects it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from placement import errors
from placement.db.ledger_rows import AllocationRow, ConsumerRow, Reading


class ConsumerConflict(errors.ConcurrentUpdate):
    """The consumer's generation is not the one the client sent (specification 03 section 7.2).

    Clients decide by these words that repeating the request is of no use: no other error has them.
    """

    reason = "consumer_generation"
    retry = errors.Retry.AFTER_READING
    text = "consumer generation conflict - expected {expected} but got {given}"
    expected: int | str
    given: int | None


class _Unprotected(Enum):
    ANY = "any"


ANY_GENERATION: Final = _Unprotected.ANY
"""Sent by no client: below 1.28 requests carry no generation and overwrite whatever is there."""

SentGeneration = int | _Unprotected | None

Resources = Mapping[str, int]
"""Amounts by resource class name."""


@dataclass(frozen=True, slots=True)
class ConsumerChange:
    """The new and whole set of allocations of one consumer; an empty one removes the consumer.

    :param allocations: resources by provider uuid, in document order.
    :param generation: the one the client read; None if it expects no consumer.
    :param type: None leaves the type as it is (below 1.38).
    """

    uuid: str
    allocations: Mapping[str, Resources]
    project: str
    user: str
    generation: SentGeneration = ANY_GENERATION
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer before the write: its record, if it has one, and its allocations.

    Older software left allocations without a record and records without allocations
    (specification 03 section 10); both are consumers here.
    """

    record: ConsumerRow | None
    held: tuple[AllocationRow, ...]

    @classmethod
    def of(cls, uuid: str, reading: Reading) -> "Consumer":
        """Return the consumer as it was read."""
        return cls(reading.consumers.get(uuid), tuple(reading.allocations.get(uuid, ())))

    def require(self, change: ConsumerChange) -> None:
        """Check that the consumer is of the generation the client sent.

        :raises ConsumerConflict: 409
        """
        given = change.generation
        if given is ANY_GENERATION:
            return
        if self.record is None:
            if given is not None:
                raise ConsumerConflict(expected="null", given=given)
        elif given is None:
            # No listing shows a record without allocations, so nobody can know its generation.
            if self.held:
                raise ConsumerConflict(expected=self.record.generation, given=None)
        elif given != self.record.generation:
            raise ConsumerConflict(expected=self.record.generation, given=given)
