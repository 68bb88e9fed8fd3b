"""The places chosen for an order on a cloud, with everything on which the choice depends."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placement.db.change_rows import Changed, Log
from placement.extensions.claims.orders import Order
from placement.extensions.claims.premises import FoundGroup, Premises
from placement.objects.picture import Look
from placement.placing.alternatives import Positions, choose_first, list_serving, require_names
from placement.placing.choose import choose
from placement.placing.wishes import ChosenPlace, GroupState, NoPlace, Wish
from placement.search.cloud import Cloud
from placement.search.group_rules import GroupRule
from placement.search.index_set import Indexes
from placement.search.work import Work

# The system is the source of randomness: forked workers would share any other state and choose the same
# hosts.
DRAW = random.SystemRandom()


class Assigned(NamedTuple):
    """The place of a consumer: resources by provider, providers by request group, the root of its tree."""

    consumer_uuid: str
    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, Sequence[str]]
    root_provider_uuid: str


class SteadyPart(NamedTuple):
    """The part of a provider that claims do not change. ``parent`` and ``root`` are ids."""

    parent: int | None
    root: int
    traits: frozenset[str]
    aggregates: frozenset[str]

    @classmethod
    def from_cloud(cls, cloud: Cloud, index: int) -> "SteadyPart":
        """Return the steady part of a provider of a cloud."""
        parent = int(cloud.parents[index])
        return cls(
            int(cloud.ids[parent]) if parent >= 0 else None,
            int(cloud.ids[cloud.roots[index]]),
            frozenset(cloud.traits[index]),
            frozenset(cloud.aggregates[index]),
        )


class RefusedPreferences(NamedTuple):
    """The providers on which the refusal of the queries before the chosen one depends, for a single claim.

    ``serving``: ids of the providers that could serve one of these queries. ``groups``: the groups as they
    were found.
    """

    serving: Indexes
    groups: Mapping[str, GroupState]

    def may_fit_after(self, changed: Changed) -> bool:
        """Return whether one of the queries may have a candidate after these changes."""
        # The set of serving providers stays valid as long as only inventories and usage change.
        return bool(changed.whole) or bool(np.isin(list(changed.stock), self.serving).any())

    def was_of(self, groups: Mapping[str, FoundGroup]) -> bool:
        """Return whether the groups are unchanged: a member that left may have excluded an earlier query."""
        # If a member leaves between reading the members and reading the log, there still was a state in which
        # everything holds: the one in which the members were read.
        return {name: group.state for name, group in groups.items()} == self.groups


@dataclass(frozen=True, slots=True)
class Chosen:
    """Chosen places, with the conditions for writing them.

    ``trees``: for each place, the uuids of the roots that count for groups. ``rules``: the rules of the
    groups. ``member_roots``: the roots of the trees of all members that stay. ``begun``: the number of new
    groups. ``providers``: by id, the providers of all trees that take part, as they were at the state of the
    log. ``revision``: the revision of the one provider on which the choice depends; None if it depends on
    more. ``positions`` and ``exact``: see :class:`placement.extensions.claims.orders.Granted`.
    ``passed_over``: None if no query has to stay refused.
    """

    assigned: Sequence[Assigned]
    trees: Sequence[Sequence[str]]
    rules: Mapping[str, GroupRule]
    member_roots: frozenset[str]
    begun: int
    providers: Mapping[int, SteadyPart]
    log: Log
    revision: int | None
    positions: Positions | None = None
    exact: bool = True
    passed_over: RefusedPreferences | None = None

    @classmethod
    def from_places(
        cls,
        order: Order,
        premises: Premises,
        places: Sequence[ChosenPlace],
        cloud: Cloud,
        log: Log,
        positions: Positions | None = None,
        exact: bool = True,
        passed_over: RefusedPreferences | None = None,
    ) -> "Chosen":
        """Return the places by ids and uuids, which stay valid without the cloud."""
        member_roots = frozenset[str]().union(*(group.roots for group in premises.groups.values()))
        providers = _steady_parts(cloud, places, member_roots)
        # The revision of that one provider then covers everything on which the choice depends; the rest needs
        # no check under locks.
        revision = None
        if len(providers) == 1 and not (order.hold_s or order.has_premises or passed_over):
            revision = int(cloud.revisions[places[0].root])
        return cls(
            [
                Assigned(
                    claim.consumer_uuid,
                    {str(cloud.uuids[index]): held for index, held in place.allocations.items()},
                    {
                        suffix: [str(cloud.uuids[index]) for index in indexes]
                        for suffix, indexes in place.mappings.items()
                    },
                    str(cloud.uuids[place.root]),
                )
                for claim, place in zip(order.claims, places, strict=True)
            ],
            [[str(cloud.uuids[root]) for root in place.trees] for place in places],
            {name: group.state.rule for name, group in premises.groups.items()},
            member_roots,
            sum(group.is_new for group in premises.groups.values()),
            providers,
            log,
            revision,
            positions,
            exact,
            passed_over,
        )


def choose_places(
    look: Look, order: Order, premises: Premises, work: Work, *, in_one_order: bool = False
) -> Chosen | NoPlace:
    """Choose places for all claims of an order on the picture.

    :param in_one_order: see :func:`placement.placing.choose.choose`; only the first query of each claim is
        tried.
    :raises UnknownTraitName, UnknownClassName: a name is unknown, as in a search.
    :raises WorkEnded: the time has ended before any of several queries was granted.
    """
    cloud = look.cloud
    if premises.held:
        # The consumers can use their present allocations again, and may stay where they are.
        cloud = cloud.snapshot()
        for row in premises.held:
            index = cloud.index_of.get(row.provider_id)
            if index is not None:
                cloud.use(index, {row.class_name: -row.used})
    states = {name: group.state for name, group in premises.groups.items()}

    def place(positions: Positions, work: Work) -> Sequence[ChosenPlace] | NoPlace:
        # If there are fewer positions than claims, the first claims have them.
        wishes = [
            Wish(claim.options[position].request, claim.groups)
            for claim, position in zip(order.claims, positions, strict=False)
        ]
        return choose(
            cloud, look.known, wishes, states, order.strategy, work, DRAW, in_one_order=in_one_order
        )

    first = [0] * len(order.claims)
    if order.has_alternatives:
        listed = {id(asked): asked for claim in order.claims for asked in claim.queries}
        require_names(cloud, look.known, (asked.request for asked in listed.values()))
    if in_one_order or not order.has_alternatives:
        places = place(first, work)
        if isinstance(places, NoPlace):
            return places
        return Chosen.from_places(order, premises, places, cloud, look.log)
    numbers = [len(claim.options) for claim in order.claims]
    found = choose_first(place, numbers, _find_twins(order), work)
    if isinstance(found, NoPlace):
        return found
    passed_over = None
    if len(order.claims) == 1 and found.positions[0]:
        earlier = order.claims[0].queries[: found.positions[0]]
        serving = list_serving(cloud, [asked.request for asked in earlier])
        passed_over = RefusedPreferences(serving, states)
    return Chosen.from_places(
        order, premises, found.places, cloud, look.log, found.positions, found.exact, passed_over
    )


def _find_twins(order: Order) -> list[int | None]:
    """Return for each claim the last earlier claim with the same query."""
    last: dict[object, int] = {}
    twins = []
    for number, claim in enumerate(order.claims):
        key = (tuple(map(id, claim.options)), claim.groups)
        twins.append(last.get(key))
        last[key] = number
    return twins


def _steady_parts(
    cloud: Cloud, places: Sequence[ChosenPlace], member_roots: frozenset[str]
) -> dict[int, SteadyPart]:
    """Return the steady parts of the providers of all trees that take part.

    Providers without allocations count too: a trait of the root or an aggregate of a sibling can decide
    whether a tree is allowed, and the places of a group's members decide who can join.
    """
    indexes = {place.root for place in places}
    for place in places:
        indexes.update(place.allocations, *place.mappings.values())
    indexes.update(cloud.index_of_uuid.get(root, -1) for root in member_roots)
    roots = {int(cloud.roots[index]) for index in indexes if index >= 0}
    return {
        int(cloud.ids[index]): SteadyPart.from_cloud(cloud, index)
        for root in roots
        for index in cloud.forest.tree(root).tolist()
    }
