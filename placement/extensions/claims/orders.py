"""Orders of claims and their outcomes: the values that the modules of claims pass to each other."""

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

    :param generation: the generation that the client read; None for a new consumer.
    :param query: the query as sent; the first of several.
    :param asked: the parsed query.
    :param queries: all queries of a claim with several, best first; empty for a claim with ``query``, whose
        answer names no choice.
    :param author: the author of the claim, since the thread of another request may write it.
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
        """Return the change of the consumer if the claim gets these allocations."""
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

    :param rules: the rules that the request names, by group.
    :param hold_s: the duration of the holds; None claims for good.
    :param avoid: the traits by which trees are avoided, for the answer only, since each query has them too.
    """

    claims: Sequence[Claim]
    rules: Mapping[str, GroupRule]
    strategy: TreeOrder
    hold_s: int | None = None
    avoid: frozenset[str] = frozenset()

    @property
    def has_premises(self) -> bool:
        """Whether holdings of consumers or members of groups must be read before choosing."""
        return bool(self.group_names) or any(claim.generation is not None for claim in self.claims)

    @property
    def is_one_new_consumer(self) -> bool:
        """Whether the order is one new consumer, claimed for good, that depends only on the picture."""
        return len(self.claims) == 1 and not (self.hold_s or self.has_premises)

    @property
    def has_alternatives(self) -> bool:
        """Whether any claim names its queries in a list."""
        return any(claim.queries for claim in self.claims)

    @property
    def group_names(self) -> list[str]:
        """The groups that the claims join, in the order of their first mention."""
        return list(dict.fromkeys(name for claim in self.claims for name in claim.groups))

    @property
    def names(self) -> NameSets:
        """All traits and resource classes that the queries mention."""
        queries = {id(asked): asked for claim in self.claims for asked in claim.options}.values()
        return NameSets.in_requests(asked.request for asked in queries)


class Grant(NamedTuple):
    """The place of a consumer, and the generation that the claim gives it."""

    consumer_uuid: str
    consumer_generation: int
    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, Sequence[str]]
    root_provider_uuid: str


class Granted(NamedTuple):
    """The grants of all consumers, in the order of the request.

    ``expires_at``: the end of the holds, in milliseconds since the epoch. ``attempts``: the number of
    attempts to write. ``positions``: the positions of the chosen queries, one for each grant; None if each is
    the first. ``exact``: it is certain that no earlier query could be granted.
    """

    grants: Sequence[Grant]
    expires_at: int | None
    attempts: int
    positions: Sequence[int] | None = None
    exact: bool = True


class Unplaced(NamedTuple):
    """The claim that could not be placed, and why. ``groups``: the groups whose rules excluded trees.

    ``explanations``: the explanations of its queries. ``avoided``: the number of avoided trees.
    """

    claim: Claim
    number: int
    exact: bool
    groups: tuple[str, ...]
    explanations: Sequence[Explanation]
    avoided: int


class LookAgain(NamedTuple):
    """Nothing was written and nothing is certain: places must be chosen again on the present picture.

    ``overtaken``: places were found, but other claims were faster.
    """

    overtaken: bool
