"""The one gate of planning: every step of every plan passes it (specification 10 section 2.4). Pure.

However a plan is found, each of its steps is checked here: during the search, and once more, from the state
that was read, before the plan is returned. No search decides by itself what is allowed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import starmap

from placement.extensions.plans.planning.scene import Share, sum_slots
from placement.extensions.plans.planning.state import State
from placement.extensions.plans.planning.values import MoveStep, Step
from placement.placing.reach import PartMove
from placement.placing.wishes import ChosenPlace


class StepRefused(Exception):
    """A step of a plan breaks a rule, so the search that found the plan has a bug."""

    def __init__(self, number: int, rule: str) -> None:
        super().__init__(f"step {number} breaks the rule {rule!r}")
        self.number, self.rule = number, rule


def may_go(state: State, share: Share, place: ChosenPlace) -> bool:
    """Return whether a step may move a share to a place now."""
    return find_broken(state, share, place) is None


def find_broken(state: State, share: Share, place: ChosenPlace) -> str | None:
    """Return the first rule that a share's move to a place would break now, None if the move is allowed."""
    for name, is_kept in RULES.items():
        if not is_kept(state, share, place):
            return name
    return None


def may_be_removed(state: State, occupant: int) -> bool:
    """Return whether an occupant may be removed from all its places now."""
    is_here = any(state.place_of(share) for share in state.scene.shares_of(occupant))
    return is_here and state.scene.occupants[occupant].may_remove


def replay(state: State, steps: Iterable[Step]) -> None:
    """Apply all steps of a plan, and check each.

    :param state: the state that was read.
    :raises StepRefused: a step breaks a rule
    """
    for number, step in enumerate(steps, 1):
        if isinstance(step, MoveStep):
            share = state.find_share(step)
            rule = "source" if share is None else find_broken(state, share, step.place)
        else:
            rule = None if may_be_removed(state, step.occupant) else "permission"
        if rule is not None:
            raise StepRefused(number, rule)
        state.take(step)


# -- rules ---------------------------------------------------------------------------------------


def _is_permitted(state: State, share: Share, _: ChosenPlace) -> bool:
    """A consumer stays if it is excepted, held, or of a type that may not be moved."""
    return state.scene.occupants[share.occupant].may_move


def _is_another_tree(state: State, share: Share, place: ChosenPlace) -> bool:
    """A move must go to another tree. A share that has joined another part of its consumer stays."""
    here = state.place_of(share)
    if here is None or place.root == here.root:
        return False
    roots = {other.root for other in _list_others(state, share)}
    elsewhere = state.scene.occupants[share.occupant].elsewhere
    return here.root not in roots.union(int(state.scene.cloud.roots[i]) for i in elsewhere)


def _is_open(state: State, _: Share, place: ChosenPlace) -> bool:
    """Avoided trees, and trees that the plan empties, do not take anything from any step."""
    return place.root not in state.scene.closed


def _stays_in_one_piece(state: State, share: Share, place: ChosenPlace) -> bool:
    """The parts on one provider move to one provider, even if an earlier step brought them together."""
    here = state.place_of(share)
    assert here is not None
    goes: dict[int, int] = {}
    return all(
        goes.setdefault(source, target) == target
        for name, (source,) in here.mappings.items()
        for target in place.mappings[name]
    )


def _stays_in_reach(state: State, share: Share, place: ChosenPlace) -> bool:
    """After every step the host of a consumer must reach its shared storage."""
    reach = state.scene.reach
    if not reach.shares:
        return True
    here = state.place_of(share)
    assert here is not None
    move = PartMove([*here.allocations], [*place.allocations])
    others = (index for other in _list_others(state, share) for index in other.allocations)
    return reach.admits([move], [*others, *state.scene.occupants[share.occupant].elsewhere])


def _has_room(state: State, _: Share, place: ChosenPlace) -> bool:
    """The destination must have room while the source is still held."""
    slots = sum_slots(place.allocations)
    return all(state.free(slot) >= amount for slot, amount in slots.items())


def _can_be_held(state: State, _: Share, place: ChosenPlace) -> bool:
    """All held destinations must have room at once, while nothing has left yet."""
    scene = state.scene
    return not scene.limits.all_at_once or all(
        scene.free(slot) - state.taken[slot] >= amount
        for slot, amount in sum_slots(place.allocations).items()
    )


def _has_right_units(state: State, share: Share, place: ChosenPlace) -> bool:
    """A step writes everything that the consumer has, including what stays, so units apply to all of it."""
    scene = state.scene
    sums = Counter(sum_slots(place.allocations))
    if not all(starmap(scene.admits, sums.items())):
        return False
    for other in _list_others(state, share):
        sums.update(sum_slots(other.allocations))
    sums.update(scene.sum_elsewhere(share.occupant))
    return all(starmap(scene.admits, sums.items()))


def _keeps_groups(state: State, share: Share, place: ChosenPlace) -> bool:
    """No step may raise the excess of a group."""
    return state.keeps_groups(share, place)


def _list_others(state: State, share: Share) -> list[ChosenPlace]:
    """Return the present places of the other parts of a share's consumer."""
    shares = state.scene.shares_of(share.occupant)
    places = [state.place_of(each) for each in shares if each is not share]
    return [place for place in places if place is not None]


RULES: Mapping[str, Callable[[State, Share, ChosenPlace], bool]] = {
    "permission": _is_permitted,
    "tree": _is_another_tree,
    "closed": _is_open,
    "piece": _stays_in_one_piece,
    "room": _has_room,
    "reach": _stays_in_reach,
    "held": _can_be_held,
    "units": _has_right_units,
    "groups": _keeps_groups,
}
"""The rules that each move must keep, by name; the cheapest to judge come first."""
