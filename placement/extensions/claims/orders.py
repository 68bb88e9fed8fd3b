"""Claims as they are ordered, and how they end: the values that the rooms of claims pass on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from placement import authorship
from placement.authorship import Author
from placement.objects.replacement import ConsumerChange
from placement.placing.explain import Explanation
from placement.placing.remedies import RelaxableRequest
from placement.placing.turns import TreeOrder
from placement.search.group_rules import GroupRule
from placement.search.request import NameSets


@dataclass(frozen=True, slots=True)
class Claim:
    """One consumer with the request for it. Equal queries are one object.

    :param generation: the one the client read; None for a new consumer.
    :param query: as it was sent; of several the first.
    :param asked: the same, parsed.
    :param queries: all of a claim that names several, the one that is liked best first; none of one with
        ``query``, whose answer names no choice.
    :param author: who asked for it: the thread of another request may write it.
    """

    consumer_uuid: str
    generation: int | None
    project: str
    user: str
    type: str
    query: str
    asked: RelaxableRequest
    groups: tuple[str, ...] = ()
    queries: tuple[RelaxableRequest, ...] = ()
    author: Author = field(default_factory=authorship.current, compare=False)

    @property
    def options(self) -> tuple[RelaxableRequest, ...]:
        """Return the queries, in order of preference."""
        return self.queries or (self.asked,)

    def change_to(self, allocations: Mapping[str, Mapping[str, int]]) -> ConsumerChange:
        """Return what the claim does to its consumer if it is given these allocations."""
        return ConsumerChange(
            self.consumer_uuid,
            allocations,
            project=self.project,
            user=self.user,
            generation=self.generation,
            type=self.type,
            author=self.author,
        )


@dataclass(frozen=True, slots=True)
class Order:
    """Claims that are granted together or not at all.

    :param rules: those that the request names, by group.
    :param hold_s: for how long the consumers are held; None for good.
    :param avoid: traits by which trees are avoided, for the answer: each query says so itself.
    """

    claims: Sequence[Claim]
    rules: Mapping[str, GroupRule]
    strategy: TreeOrder
    hold_s: int | None = None
    avoid: frozenset[str] = frozenset()

    @property
    def has_premises(self) -> bool:
        """Whether what its consumers hold, or the members of groups, must be read before choosing."""
        return bool(self.group_names) or any(claim.generation is not None for claim in self.claims)

    @property
    def is_one_new_consumer(self) -> bool:
        """Whether it is one consumer that is claimed for good, and depends on nothing but the picture."""
        return len(self.claims) == 1 and not (self.hold_s or self.has_premises)

    @property
    def has_alternatives(self) -> bool:
        """Whether some claim names its queries in a list."""
        return any(claim.queries for claim in self.claims)

    @property
    def group_names(self) -> list[str]:
        """The groups that some claim is to be a member of, in the order in which they are named first."""
        return list(dict.fromkeys(name for claim in self.claims for name in claim.groups))

    @property
    def names(self) -> NameSets:
        """All traits and resource classes that the queries mention."""
        queries = {id(asked): asked for claim in self.claims for asked in claim.options}.values()
        return NameSets.of(asked.request for asked in queries)


class Grant(NamedTuple):
    """The place of a consumer, and the generation that the claim gives it."""

    consumer_uuid: str
    consumer_generation: int
    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, Sequence[str]]
    root_provider_uuid: str


class Granted(NamedTuple):
    """All consumers have what they asked for, in the order asked.

    ``expires_at``: until when they are held, in milliseconds since the epoch. ``attempts``: at writing it.
    ``positions``: of the queries that were chosen, one for each grant; None for the first of each.
    ``exact``: it is certain that none before them could be granted.
    """

    grants: Sequence[Grant]
    expires_at: int | None
    attempts: int
    positions: Sequence[int] | None = None
    exact: bool = True


class Unplaced(NamedTuple):
    """The claim that could not be placed, and why. ``groups``: those whose rules kept it out of trees.

    ``explanations``: of each of its queries. ``avoided``: how many trees take nothing new.
    """

    claim: Claim
    number: int
    exact: bool
    groups: tuple[str, ...]
    explanations: Sequence[Explanation]
    avoided: int


class LookAgain(NamedTuple):
    """Nothing was written, and nothing is certain: places are to be chosen again on the present picture.

    ``overtaken``: there were places, and others were faster.
    """

    overtaken: bool
