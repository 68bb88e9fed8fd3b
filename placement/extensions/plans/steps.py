"""Plans as clients carry them out: by uuids, with generations and whole allocations (10 section 2.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placement.extensions.plans.ledger import Resident
from placement.extensions.plans.planning.values import MoveStep, Step
from placement.extensions.plans.wanted import (
    ConsumerNow,
    Held,
    MoveShown,
    PlaceShown,
    RemovalShown,
    StepShown,
)
from placement.placing.wishes import ChosenPlace
from placement.search.cloud import Cloud


def show_steps(cloud: Cloud, holders: Sequence[Resident], steps: Sequence[Step]) -> list[StepShown]:
    """Return the steps in their order.

    :param holders: the consumers as read, by the numbers in the steps.
    """
    state = _State(cloud, holders, {}, {})
    return [state.take(step) for step in steps]


def show_place(cloud: Cloud, place: ChosenPlace) -> PlaceShown:
    """Return a place by uuids."""
    mappings = {
        suffix: [str(cloud.uuids[index]) for index in indexes]
        for suffix, indexes in place.mappings.items()
    }
    return PlaceShown(show_held(cloud, place.allocations), mappings, str(cloud.uuids[place.root]))


def show_held(cloud: Cloud, held: Mapping[int, Mapping[str, int]]) -> Held:
    """Return amounts by uuid of the provider."""
    return {str(cloud.uuids[index]): dict(amounts) for index, amounts in held.items()}


@dataclass(slots=True)
class _State:
    """The changed consumers by number: their holdings, and how many of their steps were applied."""

    cloud: Cloud
    holders: Sequence[Resident]
    held: dict[int, dict[int, Mapping[str, int]]]
    taken: dict[int, int]

    def take(self, step: Step) -> StepShown:
        """Apply a step."""
        number = step.occupant
        holder, before = self.holders[number], self.held.get(number)
        before = dict(holder.held) if before is None else before
        # Each write of a consumer moves its generation by one.
        consumer = ConsumerNow(holder.uuid, holder.generation + self.taken.get(number, 0))
        self.taken[number] = self.taken.get(number, 0) + 1
        if not isinstance(step, MoveStep):
            self.held[number] = {}
            return RemovalShown(consumer, holder.owner, show_held(self.cloud, before))
        # The order is that of the groups of the mappings.
        leaves = {index: before[index] for index in step.goes}
        after = {index: dict(held) for index, held in before.items() if index not in leaves}
        for index, amounts in step.place.allocations.items():
            # The consumer may already have resources in that tree.
            mine = after.setdefault(index, {})
            for name, amount in amounts.items():
                mine[name] = mine.get(name, 0) + amount
        self.held[number] = {**after}
        mappings = {f"_{n}": (target,) for n, target in enumerate(step.goes.values(), 1)}
        return MoveShown(
            consumer,
            holder.owner,
            show_held(self.cloud, leaves),
            show_held(self.cloud, after),
            show_place(self.cloud, step.place._replace(mappings=mappings)),
        )
