"""For each group the providers that pass every test (contract 04, sections 5.3 to 5.5 and 5.8).

One function per test, each a mask over provider index. A test that removes providers notes its
reason in the tally.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from placement.search.cloud import LARGEST_AMOUNT, Cloud
from placement.search.index_set import Mask
from placement.search.request import CandidateRequest, Group, UnknownClass, UnknownTrait
from placement.search.tally import Tally

Exists = Callable[[str], bool]


class Nothing(Exception):
    """The answer is empty, and nothing after this point is looked at (section 5.8)."""


@dataclass(slots=True)
class Slot:
    """One choice to make: a granular group, or one class of the unsuffixed group.

    ``local``: providers eligible from the anchor of their own tree. ``away``: sharing providers
    eligible from other anchors, None if there are none.
    """

    suffix: str
    amounts: Mapping[str, int]
    local: Mask
    away: Mask | None


@dataclass(slots=True)
class Feasible:
    """The slots, the anchors at which each of them has a choice, and the trait demands left.

    ``demands``: per any-of set of the unsuffixed group's ``required`` the providers that meet it;
    to be met by the providers of all its classes together, so only a combination can tell.
    """

    anchors: Mask
    slots: list[Slot] = field(default_factory=list)
    demands: list[Mask] = field(default_factory=list)


# -- the tests --------------------------------------------------------------------------------


def fits(cloud: Cloud, name: str, amount: int) -> Mask:
    """fits(p, c, n) of section 5.1; an amount beyond any capacity fits nowhere."""
    column = cloud.classes.get(name)
    if column is None or not 0 < amount <= LARGEST_AMOUNT:
        return np.zeros(cloud.size, np.bool_)
    passed: Mask = column.room[: cloud.size] >= amount
    if column.units:
        providers, minimum, step = column.unit_columns()
        passed[providers[(minimum > amount) | (amount % step != 0)]] = False
    return passed


def has_traits(cloud: Cloud, demands: Iterable[frozenset[str]]) -> Mask:
    """meets(T(p), req): of each set of traits the provider has at least one."""
    return _meets(cloud, demands, cloud.with_trait)


def lacks_traits(cloud: Cloud, forbidden: Iterable[str]) -> Mask:
    """The provider has none of the forbidden traits."""
    return _avoids(cloud, forbidden, cloud.with_trait)


def in_aggregates(cloud: Cloud, demands: Iterable[frozenset[str]]) -> Mask:
    """meets(A(p), mem): the provider itself is in at least one aggregate of each set."""
    return _meets(cloud, demands, cloud.in_aggregate)


def outside_aggregates(cloud: Cloud, unwanted: Iterable[str]) -> Mask:
    """The provider itself is in none of the unwanted aggregates."""
    return _avoids(cloud, unwanted, cloud.in_aggregate)


def in_tree(cloud: Cloud, provider_uuid: str) -> Mask | None:
    """root(p) = root(in); None if no provider has this uuid."""
    index = cloud.index_of_uuid.get(provider_uuid)
    if index is None:
        return None
    tree: Mask = cloud.roots == cloud.roots[index]
    return tree


def _meets(cloud: Cloud, demands: Iterable[frozenset[str]], members: Callable[[str], Mask]) -> Mask:
    met = np.ones(cloud.size, np.bool_)
    for names in demands:
        any_of = np.zeros(cloud.size, np.bool_)
        for name in names:
            any_of |= members(name)
        met &= any_of
    return met


def _avoids(cloud: Cloud, names: Iterable[str], members: Callable[[str], Mask]) -> Mask:
    avoided = np.ones(cloud.size, np.bool_)
    for name in names:
        avoided &= ~members(name)
    return avoided


# -- the request ------------------------------------------------------------------------------


def feasible(
    cloud: Cloud,
    request: CandidateRequest,
    tally: Tally,
    trait_exists: Exists,
    class_exists: Exists,
    has_choice: Callable[[CandidateRequest], bool],
) -> Feasible:
    """Run all tests in the order of section 5.8.

    Raises ``Nothing`` for an empty answer and ``UnknownTrait`` / ``UnknownClass`` exactly where
    that section says so. ``has_choice`` tells whether a smaller request has any candidate; it is
    asked only before an unknown name is reported behind an unsuffixed group with trait demands.
    """
    names = Names(cloud, trait_exists, class_exists)
    anchors = _anchors(cloud, request, names, tally)
    found = Feasible(anchors.copy())
    for position, group in enumerate(request.groups):
        try:
            _add_group(cloud, group, anchors, found, names, tally)
        except (UnknownClass, UnknownTrait):
            _settle_demands(request, position, has_choice, tally)
            raise
    if not found.anchors.any():
        raise _stop(tally, "no tree has a choice for every group")
    return found


@dataclass(frozen=True, slots=True)
class Names:
    """Which names exist: those of the cloud, and those that the callbacks know."""

    cloud: Cloud
    trait_exists: Exists
    class_exists: Exists

    def check_traits(self, wanted: Iterable[str], forbidden: Iterable[str]) -> None:
        """Raise ``UnknownTrait`` for the first unknown name, wanted ones first."""
        for name in (*sorted(wanted), *sorted(forbidden)):
            if not self.cloud.has_trait(name) and not self.trait_exists(name):
                raise UnknownTrait(name)

    def check_classes(self, classes: Iterable[str]) -> None:
        """Raise ``UnknownClass`` for the first unknown name."""
        for name in classes:
            if not self.cloud.has_class(name) and not self.class_exists(name):
                raise UnknownClass(name)


def _anchors(cloud: Cloud, request: CandidateRequest, names: Names, tally: Tally) -> Mask:
    """Return the roots that root_required admits (section 5.3)."""
    names.check_traits(request.root_required, request.root_forbidden)
    is_root = cloud.forest.is_root
    if not (request.root_required or request.root_forbidden):
        return is_root
    anchors = is_root & has_traits(cloud, [frozenset([t]) for t in request.root_required])
    anchors &= lacks_traits(cloud, request.root_forbidden)
    left = int(np.count_nonzero(anchors))
    tally.note(None, "root_required (trees)", len(cloud.forest.roots), left)
    if not left:
        raise _stop(tally, "no root qualifies")
    return anchors


def _add_group(
    cloud: Cloud, group: Group, anchors: Mask, found: Feasible, names: Names, tally: Tally
) -> None:
    """Add the slots of one group, and drop the anchors at which it has no choice."""
    names.check_classes(group.amounts)
    members = None
    if group.member_of:
        members = in_aggregates(cloud, group.member_of)
        if not members.any():
            raise _stop(tally, f"group '{group.suffix}': no provider is in the wanted aggregates")
    names.check_traits({t for names_ in group.required for t in names_}, group.forbidden)
    tree = None
    if group.in_tree is not None:
        tree = in_tree(cloud, group.in_tree)
        if tree is None:
            raise _stop(tally, f"group '{group.suffix}': in_tree names no provider")
    capable = _capable(cloud, group, tree, tally)
    if group.suffix:
        slots = [_granular(cloud, group, capable, members, tree, tally)]
        own: Mask = anchors
        demands: list[Mask] = []
    else:
        slots, own, demands = _unsuffixed(cloud, group, capable, members, anchors, tally)
    for slot in slots:
        own = own & _roots_with(cloud, slot.local, slot.away)
    for wanted, demand in zip(group.required, demands, strict=False):
        before = int(np.count_nonzero(own))
        own = own & _roots_with(cloud, *_union(slots, demand))
        reason = f"required traits: {' or '.join(sorted(wanted))} (trees)"
        tally.note(group.suffix, reason, before, int(np.count_nonzero(own)))
    before = int(np.count_nonzero(found.anchors))
    if not own.any():
        tally.note(group.suffix, "no choice (trees)", before, 0)
        raise _stop(tally, f"group '{group.suffix}': no tree has a choice")
    found.anchors &= own
    tally.note(group.suffix, "no choice (trees)", before, int(np.count_nonzero(found.anchors)))
    found.slots += slots
    found.demands += demands


def _capable(cloud: Cloud, group: Group, tree: Mask | None, tally: Tally) -> dict[str, Mask]:
    """Return by class the providers (of the in_tree tree) that fit the amount; none may lack."""
    capable = {}
    for name, amount in group.amounts.items():
        mask = fits(cloud, name, amount)
        left = int(np.count_nonzero(mask))
        tally.note(group.suffix, f"capacity of {name}", len(cloud), left)
        if tree is not None:
            mask &= tree
            before, left = left, int(np.count_nonzero(mask))
            tally.note(group.suffix, f"in_tree for {name}", before, left)
        if not left:
            raise _stop(tally, f"group '{group.suffix}': no provider fits {name}")
        capable[name] = mask
    return capable


def _granular(
    cloud: Cloud,
    group: Group,
    capable: Mapping[str, Mask],
    members: Mask | None,
    tree: Mask | None,
    tally: Tally,
) -> Slot:
    """Return E(g, .) of section 5.4."""
    passed: Mask = cloud.roots >= 0
    left = len(cloud)
    if not group.amounts and not group.required and not group.member_of:
        tally.note(group.suffix, "no positive demand and no resources", left, 0)
        return Slot(group.suffix, {}, np.zeros(cloud.size, np.bool_), None)
    tests: list[tuple[str, Mask | None]] = [
        *((f"all classes: {name}", mask) for name, mask in capable.items()),
        ("required traits", has_traits(cloud, group.required) if group.required else None),
        ("forbidden traits", lacks_traits(cloud, group.forbidden) if group.forbidden else None),
        ("member_of", members),
        ("member_of, unwanted", _outside(cloud, group)),
    ]
    for reason, mask in tests:
        if mask is not None:
            passed &= mask
            before, left = left, int(np.count_nonzero(passed))
            tally.note(group.suffix, reason, before, left)
    return Slot(group.suffix, group.amounts, passed, _shared(cloud, passed))


def _unsuffixed(
    cloud: Cloud,
    group: Group,
    capable: Mapping[str, Mask],
    members: Mask | None,
    anchors: Mask,
    tally: Tally,
) -> tuple[list[Slot], Mask, list[Mask]]:
    """Return one slot per class, the anchors left, and the trait demands (section 5.5)."""
    outside = _outside(cloud, group)
    lacking = lacks_traits(cloud, group.forbidden) if group.forbidden else None
    wanted = [has_traits(cloud, [names]) for names in group.required]
    alone = wanted if len(group.amounts) == 1 else []
    roots = cloud.roots
    slots = []
    for name, mask in capable.items():
        left = int(np.count_nonzero(mask))
        tests = [("forbidden traits", lacking), ("member_of, unwanted", outside)]
        tests += [("required traits", demand) for demand in alone]
        for reason, test in tests:
            if test is not None:
                mask = mask & test
                before, left = left, int(np.count_nonzero(mask))
                tally.note("", f"{reason} for {name}", before, left)
        away = None if group.in_tree is not None else _shared(cloud, mask)
        if members is not None:
            mask = mask & (members | members[roots])
            away = None if away is None else away & members
            tally.note("", f"member_of for {name}", left, int(np.count_nonzero(mask)))
        slots.append(Slot("", {name: group.amounts[name]}, mask, away))
    if outside is not None:
        anchors = anchors & outside
    return slots, anchors, ([] if alone else wanted)


def _outside(cloud: Cloud, group: Group) -> Mask | None:
    if not group.forbidden_aggregates:
        return None
    return outside_aggregates(cloud, group.forbidden_aggregates)


def _shared(cloud: Cloud, mask: Mask) -> Mask | None:
    """Return the sharing providers among those of the mask, None if there are none."""
    shared = mask & cloud.sharing.mask
    return shared if shared.any() else None


def _union(slots: list[Slot], demand: Mask) -> tuple[Mask, Mask | None]:
    """Return who, local and away, can serve some class and meets the demand as well."""
    local = np.logical_or.reduce([slot.local for slot in slots]) & demand
    parts = [slot.away for slot in slots if slot.away is not None]
    return local, (np.logical_or.reduce(parts) & demand if parts else None)


def _roots_with(cloud: Cloud, local: Mask, away: Mask | None) -> Mask:
    """Mark the roots whose tree, or whose sharing providers, have someone of the masks."""
    if cloud.forest.nested:
        roots = np.zeros(cloud.size, np.bool_)
        roots[cloud.roots[local]] = True
    else:
        roots = local
    if away is not None and away.any():
        roots = roots | cloud.sharing.reached(away)
    return roots


def _settle_demands(
    request: CandidateRequest,
    position: int,
    has_choice: Callable[[CandidateRequest], bool],
    tally: Tally,
) -> None:
    """Before an unknown name is reported, make sure that F(a) of section 5.5 is not empty.

    The masks only say that each trait demand alone can be met; whether one f meets them all takes
    a small search, worth it only here, where it decides between an error and an empty answer.
    """
    for group in request.groups[:position]:
        if not group.suffix and group.required and len(group.amounts) > 1:
            alone = CandidateRequest(
                (group,),
                root_required=request.root_required,
                root_forbidden=request.root_forbidden,
                limit=1,
            )
            if not has_choice(alone):
                raise _stop(tally, "group '': no tree has a choice") from None


def _stop(tally: Tally, why: str) -> Nothing:
    tally.stop = why
    return Nothing(why)
