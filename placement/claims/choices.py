"""Places that are chosen for an order on a cloud, with all that the choice depends on."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from placement.claims.orders import Order
from placement.claims.premises import Premises
from placement.db.change_rows import Log
from placement.objects.picture import Look
from placement.placing.choose import choose
from placement.placing.wishes import ChosenPlace, NoPlace, Wish
from placement.search.cloud import Cloud
from placement.search.group_rules import GroupRule
from placement.search.work import Work

# Of the system: workers that were forked would share the state of any other, and go for the same hosts.
DRAW = random.SystemRandom()


class Assigned(NamedTuple):
    """What a consumer is to get: resources by provider, providers by request group, the root of its tree."""

    consumer_uuid: str
    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, Sequence[str]]
    root_provider_uuid: str


class SteadyPart(NamedTuple):
    """What claims do not change of a provider. ``parent`` and ``root`` are ids."""

    parent: int | None
    root: int
    traits: frozenset[str]
    aggregates: frozenset[str]

    @classmethod
    def of(cls, cloud: Cloud, index: int) -> "SteadyPart":
        """Return that of a provider of a cloud."""
        parent = int(cloud.parents[index])
        return cls(
            int(cloud.ids[parent]) if parent >= 0 else None,
            int(cloud.ids[cloud.roots[index]]),
            frozenset(cloud.traits[index]),
            frozenset(cloud.aggregates[index]),
        )


@dataclass(frozen=True, slots=True)
class Chosen:
    """Chosen places, and what they depend on when they are written.

    ``trees``: of each place, the uuids of the roots that count for groups. ``rules``: of the groups.
    ``member_roots``: of the trees of all members that stay. ``begun``: how many groups are new.
    ``providers``: by id, of all trees that take part, as they were when the log was so. ``revision``: of the
    one provider, where the choice depends on nothing else; None otherwise.
    """

    assigned: Sequence[Assigned]
    trees: Sequence[Sequence[str]]
    rules: Mapping[str, GroupRule]
    member_roots: frozenset[str]
    begun: int
    providers: Mapping[int, SteadyPart]
    log: Log
    revision: int | None

    @classmethod
    def of(
        cls, order: Order, premises: Premises, places: Sequence[ChosenPlace], cloud: Cloud, log: Log
    ) -> "Chosen":
        """Return the places of a cloud by ids and uuids, which outlast it."""
        member_roots = frozenset[str]().union(*(group.roots for group in premises.groups.values()))
        providers = _steady_parts(cloud, places, member_roots)
        # That of one provider then says all that the choice depends on: no lock is needed to check the rest.
        revision = None
        if len(providers) == 1 and not (order.hold_s or order.has_premises):
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
        )


def choose_places(
    look: Look, order: Order, premises: Premises, work: Work, *, in_one_order: bool = False
) -> Chosen | NoPlace:
    """Choose places for all claims of an order on the picture.

    :param in_one_order: see :func:`placement.placing.choose.choose`.
    :raises UnknownTraitName, UnknownClassName: as the search does.
    """
    cloud = look.cloud
    if premises.held:
        # What the consumers hold now is theirs to use again: they may stay where they are.
        cloud = cloud.snapshot()
        for row in premises.held:
            index = cloud.index_of.get(row.provider_id)
            if index is not None:
                cloud.use(index, {row.class_name: -row.used})
    wishes = [Wish(claim.asked.request, claim.groups) for claim in order.claims]
    groups = {name: group.state for name, group in premises.groups.items()}
    places = choose(
        cloud, look.known, wishes, groups, order.strategy, work, DRAW, in_one_order=in_one_order
    )
    if isinstance(places, NoPlace):
        return places
    return Chosen.of(order, premises, places, cloud, look.log)


def _steady_parts(
    cloud: Cloud, places: Sequence[ChosenPlace], member_roots: frozenset[str]
) -> dict[int, SteadyPart]:
    """Return the providers of all trees that take part.

    Those without allocations count too: a trait of the root, or an aggregate of a sibling, may be what has
    let a tree in, and where the members of a group are decides who may join them.
    """
    indexes = {place.root for place in places}
    for place in places:
        indexes.update(place.allocations, *place.mappings.values())
    indexes.update(cloud.index_of_uuid.get(root, -1) for root in member_roots)
    roots = {int(cloud.roots[index]) for index in indexes if index >= 0}
    return {
        int(cloud.ids[index]): SteadyPart.of(cloud, index)
        for root in roots
        for index in cloud.forest.tree(root).tolist()
    }
