"""Claims as they are ordered, chosen and answered: the values that the rooms of claims pass on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from placement import errors
from placement.db.change_rows import Log
from placement.db.database import Access
from placement.db.group_rows import GroupRow, MemberRow
from placement.objects.groups import aggregates_by_root
from placement.objects.replacement import ConsumerChange
from placement.placing.explain import Explanation
from placement.placing.remedies import RelaxableRequest
from placement.placing.turns import TreeOrder
from placement.placing.wishes import GroupState
from placement.search.cloud import Cloud
from placement.search.group_rules import GroupRule, domains_by_member


class Overtaken(errors.ConcurrentUpdate):
    """What was chosen is not so any more. No client reads this: it is chosen again."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One consumer with what it asks for. Equal queries are one object.

    :param generation: the one the client read; None for a new consumer.
    :param query: as it was sent.
    """

    consumer_uuid: str
    generation: int | None
    project: str
    user: str
    type: str
    query: str
    asked: RelaxableRequest
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """Claims that are granted together or not at all.

    :param rules: those that the request names, by group.
    :param hold_s: for how long the consumers are held; None for good.
    :param of_many: they are of several requests, which are placed alone if they have no places together.
    """

    claims: Sequence[Claim]
    rules: Mapping[str, GroupRule]
    strategy: TreeOrder
    hold_s: int | None = None
    of_many: bool = False

    @property
    def depends_on_rows(self) -> bool:
        """Whether what its consumers hold, or the members of groups, must be read before choosing."""
        return bool(self.group_names) or any(claim.generation is not None for claim in self.claims)

    @property
    def is_one_new_consumer(self) -> bool:
        """Whether it is one consumer that is claimed for good, and depends on nothing but the picture."""
        return len(self.claims) == 1 and not (self.hold_s or self.depends_on_rows)

    @property
    def group_names(self) -> list[str]:
        """The groups that some claim is to be a member of, in the order in which they are named first."""
        return list(dict.fromkeys(name for claim in self.claims for name in claim.groups))


class Assigned(NamedTuple):
    """What a consumer is to get: resources by provider, providers by request group, the root of its tree."""

    consumer_uuid: str
    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, Sequence[str]]
    root_provider_uuid: str


class Granted(NamedTuple):
    """What a consumer was given, and the generation that it has by that."""

    consumer_uuid: str
    consumer_generation: int
    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, Sequence[str]]
    root_provider_uuid: str


class Refused(NamedTuple):
    """The claim that could not be placed, and why. ``groups``: those whose rules kept it out of trees."""

    claim: Claim
    number: int
    exact: bool
    groups: tuple[str, ...]
    explanation: Explanation


class Outcome(NamedTuple):
    """What was granted, in the order asked; until when it is held, in milliseconds since the epoch."""

    granted: Sequence[Granted]
    expires_at: int | None


Shape = tuple[int | None, int, frozenset[str], frozenset[str]]
"""Of a provider: the ids of parent and root, traits and aggregates."""


def shape(cloud: Cloud, index: int) -> Shape:
    """Return the shape of a provider."""
    parent = int(cloud.parents[index])
    return (
        int(cloud.ids[parent]) if parent >= 0 else None,
        int(cloud.ids[cloud.roots[index]]),
        frozenset(cloud.traits[index]),
        frozenset(cloud.aggregates[index]),
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """Chosen places, and what they depend on: providers by id, as they were when the log was so.

    ``trees``: of each place, the uuids of the roots that count for groups.
    ``revision``: of the provider, if it is only one. ``begun``: how many groups are new.
    """

    assigned: Sequence[Assigned]
    trees: Sequence[Sequence[str]]
    rules: Mapping[str, GroupRule]
    member_roots: frozenset[str]
    shapes: Mapping[int, Shape]
    log: Log
    revision: int | None
    begun: int


class FoundGroup(NamedTuple):
    """A group as the claims find it. ``roots``: of the trees of all members that stay.

    ``is_new``: no group of this name is stored.
    """

    state: GroupState
    roots: frozenset[str]
    is_new: bool


def found_groups(
    tx: Access,
    order: Order,
    rules: Mapping[str, GroupRule],
    rows: Mapping[str, GroupRow],
    members: Sequence[MemberRow],
) -> dict[str, FoundGroup]:
    """Return the groups with those members that are not claimed for now: those leave and may come back."""
    claimed = {claim.consumer_uuid for claim in order.claims}
    stay: dict[int, list[MemberRow]] = {}
    for member in members:
        if member.consumer_uuid not in claimed:
            stay.setdefault(member.group_id, []).append(member)
    aggregates = aggregates_by_root(tx, rules.values())
    groups = {}
    for name, rule in rules.items():
        mine = stay.get(rows[name].id, []) if name in rows else []
        domains = domains_by_member(rule, mine, aggregates)
        state = GroupState(rule, list(domains.values()), aggregates)
        groups[name] = FoundGroup(
            state, frozenset(member.root_uuid for member in mine), name not in rows
        )
    return groups


def change(claim: Claim, allocations: Mapping[str, Mapping[str, int]]) -> ConsumerChange:
    """Return what a claim that is given these allocations does to its consumer."""
    return ConsumerChange(
        claim.consumer_uuid,
        allocations,
        project=claim.project,
        user=claim.user,
        generation=claim.generation,
        type=claim.type,
    )
