"""For each group the providers that pass every test (specification 04 sections 5.3 to 5.5 and 5.8).

One function per test, each a mask over provider index. A ``Funnel`` applies them one by one, and
counts in the tally what each removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from placement.search.cloud import LARGEST_AMOUNT, Cloud
from placement.search.index_set import Indexes, Mask
from placement.search.request import CandidateRequest, Group, Names, UnknownClass, UnknownTrait
from placement.search.tally import Funnel, Reason, Stop, Stopped, Tally, Unit

_Demand = tuple[str, Mask]
"""A set of traits of which one is wanted, in words, and the providers that have one."""


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
    ``untested``: who, local and away, of whom each anchor needs one, where that was left to be tested
    tree by tree; the anchors are more than they should be then.
    """

    anchors: Mask
    slots: list[Slot] = field(default_factory=list)
    demands: list[Mask] = field(default_factory=list)
    untested: list[tuple[Mask, Mask | None]] = field(default_factory=list)

    def local_among(self, providers: Indexes) -> Mask:
        """Tell which of these providers may serve some slot from their own tree."""
        masks = (slot.local[providers] for slot in self.slots)
        return reduce(np.logical_or, masks, np.zeros(len(providers), np.bool_))


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


def has_any(cloud: Cloud, traits: Iterable[str]) -> Mask:
    """The provider has at least one of the traits."""
    return _united(cloud, traits, cloud.with_trait)


def in_any(cloud: Cloud, aggregates: Iterable[str]) -> Mask:
    """The provider itself is in at least one of the aggregates."""
    return _united(cloud, aggregates, cloud.in_aggregate)


def in_all(cloud: Cloud, demands: Iterable[frozenset[str]]) -> Mask:
    """meets(A(p), mem): the provider itself is in at least one aggregate of each set."""
    met = np.ones(cloud.size, np.bool_)
    for aggregates in demands:
        met &= in_any(cloud, aggregates)
    return met


def in_tree(cloud: Cloud, provider_uuid: str) -> Mask | None:
    """root(p) = root(in); None if no provider has this uuid."""
    index = cloud.index_of_uuid.get(provider_uuid)
    if index is None:
        return None
    tree: Mask = cloud.roots == cloud.roots[index]
    return tree


def _united(cloud: Cloud, names: Iterable[str], members: Callable[[str], Mask]) -> Mask:
    union = np.zeros(cloud.size, np.bool_)
    for name in names:
        union |= members(name)
    return union


# -- the request ------------------------------------------------------------------------------


def feasible(
    cloud: Cloud,
    request: CandidateRequest,
    tally: Tally,
    known: Names | None,
    has_choice: Callable[[CandidateRequest], bool],
    tree_by_tree: bool,
) -> Feasible:
    """Run all tests in the order of section 5.8.

    With ``tree_by_tree`` it is left to the caller which trees have a choice for each slot: of many trees
    that costs more than all else, and most answers need a few. Then neither ``Nothing`` nor an unknown
    name is sure to be raised.

    Raises ``Nothing`` for an empty answer and ``UnknownTrait`` / ``UnknownClass`` exactly where
    that section says so, for names that no provider has and that are not ``known``; None: all names
    exist. ``has_choice`` tells whether a smaller request has any candidate; it is
    asked only before an unknown name is reported behind an unsuffixed group with trait demands.
    """
    anchors = _anchors(cloud, request, known, tally)
    found = Feasible(anchors.copy())
    for position, group in enumerate(request.groups):
        try:
            _add_group(cloud, group, anchors, found, known, tally, tree_by_tree)
        except (UnknownClass, UnknownTrait):
            _settle_demands(request, position, has_choice, tally)
            raise
    if not found.anchors.any():
        raise _stop(tally, Stop.NO_COMMON_TREE)
    return found


def check_traits(cloud: Cloud, known: Names | None, names: Iterable[str]) -> None:
    """Raise ``UnknownTrait`` for the first name that no provider has and that is not known."""
    if known is not None:
        for name in sorted(names):
            if not cloud.has_trait(name) and name not in known.traits:
                raise UnknownTrait(name)


def check_classes(cloud: Cloud, known: Names | None, names: Iterable[str]) -> None:
    """Raise ``UnknownClass`` for the first name that no provider has and that is not known."""
    if known is not None:
        for name in names:
            if not cloud.has_class(name) and name not in known.classes:
                raise UnknownClass(name)


def _anchors(cloud: Cloud, request: CandidateRequest, known: Names | None, tally: Tally) -> Mask:
    """Return the roots that root_required admits (section 5.3)."""
    check_traits(cloud, known, request.root_required)
    check_traits(cloud, known, request.root_forbidden)
    roots, count = cloud.forest.is_root, len(cloud.forest.roots)
    if request.anchor is not None:
        only = np.zeros(cloud.size, np.bool_)
        only[cloud.index_of_uuid[request.anchor]] = True
        roots, count = roots & only, 1
    anchors = Funnel(tally, None, Unit.TREES, roots, count)
    for trait in sorted(request.root_required):
        anchors.keep(Reason.ROOT_REQUIRED, trait, cloud.with_trait(trait))
    for trait in sorted(request.root_forbidden):
        anchors.keep(Reason.ROOT_FORBIDDEN, trait, ~cloud.with_trait(trait))
    if not anchors and (request.root_required or request.root_forbidden):
        raise _stop(tally, Stop.NO_ROOT)
    return anchors.mask


def _add_group(
    cloud: Cloud,
    group: Group,
    anchors: Mask,
    found: Feasible,
    known: Names | None,
    tally: Tally,
    tree_by_tree: bool,
) -> None:
    """Add the slots of one group, and drop the anchors at which it has no choice."""
    check_classes(cloud, known, group.amounts)
    members = None
    if group.member_of:
        members = in_all(cloud, group.member_of)
        if not members.any():
            raise _stop(tally, Stop.NO_MEMBER, group)
    check_traits(cloud, known, frozenset().union(*group.required))
    check_traits(cloud, known, group.forbidden)
    tree = None
    if group.in_tree is not None:
        tree = in_tree(cloud, group.in_tree)
        if tree is None:
            raise _stop(tally, Stop.NO_TREE, group)
    about = _About(cloud, group, members, tree, tally)
    capable = _capable(about)
    trees = Funnel(tally, group.suffix, Unit.TREES, anchors)
    demands: list[_Demand] = []
    if group.suffix:
        slots = [_granular(about, capable)]
    else:
        slots, demands = _unsuffixed(about, capable, trees)
    if tree_by_tree:
        found.untested += [(slot.local, slot.away) for slot in slots]
        found.untested += [_union(slots, demand) for _, demand in demands]
    else:
        _keep_trees(about, trees, slots, demands)
    if found.slots:
        trees.keep(Reason.OTHER_GROUPS, None, found.anchors)
    found.anchors = trees.mask
    found.slots += slots
    found.demands += [mask for _, mask in demands]


@dataclass(slots=True)
class _About:
    """One group, with the masks of who is in the wanted aggregates and in the wanted tree."""

    cloud: Cloud
    group: Group
    members: Mask | None
    tree: Mask | None
    tally: Tally

    def providers(self, mask: Mask, count: int | None = None) -> Funnel:
        """Begin to count providers."""
        return Funnel(self.tally, self.group.suffix, Unit.PROVIDERS, mask, count)

    def lacking(self) -> Mask | None:
        """Return who has none of the forbidden traits; None if there are none."""
        if not self.group.forbidden:
            return None
        return ~has_any(self.cloud, self.group.forbidden)

    def outside(self) -> Mask | None:
        """Return who is in none of the unwanted aggregates; None if there are none."""
        if not self.group.forbidden_aggregates:
            return None
        return ~in_any(self.cloud, self.group.forbidden_aggregates)

    def wanted(self) -> list[_Demand]:
        """Return each any-of set of required traits in words, and who meets it."""
        sets = self.group.required
        return [(" or ".join(sorted(names)), has_any(self.cloud, names)) for names in sets]


def _capable(about: _About) -> dict[str, Funnel]:
    """Return by class the providers (of the in_tree tree) that fit the amount; none may lack."""
    capable: dict[str, Funnel] = {}
    everybody = about.cloud.forest.alive
    for name, amount in about.group.amounts.items():
        funnel = about.providers(everybody, len(about.cloud))
        funnel.keep(Reason.CAPACITY, name, fits(about.cloud, name, amount))
        if about.tree is not None:
            funnel.keep(Reason.IN_TREE, name, about.tree)
        if not funnel:
            raise _stop(about.tally, Stop.NO_CAPACITY, about.group, name)
        capable[name] = funnel
    return capable


def _granular(about: _About, capable: Mapping[str, Funnel]) -> Slot:
    """Return E(g, .) of section 5.4."""
    cloud, group = about.cloud, about.group
    if capable:
        passed, *others = capable.values()
    else:
        passed, others = about.providers(cloud.forest.alive, len(cloud)), []
        if not group.required and not group.member_of:
            passed.keep(Reason.NO_DEMAND, None, np.zeros(cloud.size, np.bool_))
            return Slot(group.suffix, {}, passed.mask, None)
    for name, other in zip(list(capable)[1:], others, strict=True):
        passed.keep(Reason.ALL_CLASSES, name, other.mask)
    for words, demand in about.wanted():
        passed.keep(Reason.REQUIRED_TRAITS, words, demand)
    for reason, test in (
        (Reason.FORBIDDEN_TRAITS, about.lacking()),
        (Reason.MEMBER_OF, about.members),
        (Reason.NOT_MEMBER_OF, about.outside()),
    ):
        if test is not None:
            passed.keep(reason, None, test)
    return Slot(group.suffix, group.amounts, passed.mask, _shared(cloud, passed.mask))


def _unsuffixed(
    about: _About, capable: Mapping[str, Funnel], trees: Funnel
) -> tuple[list[Slot], list[_Demand]]:
    """Return one slot per class, and the trait demands that they meet together (section 5.5)."""
    cloud, members = about.cloud, about.members
    lacking, outside, wanted = about.lacking(), about.outside(), about.wanted()
    alone = wanted if len(capable) == 1 else []
    slots = []
    for name, passed in capable.items():
        if lacking is not None:
            passed.keep(Reason.FORBIDDEN_TRAITS, name, lacking)
        if outside is not None:
            passed.keep(Reason.NOT_MEMBER_OF, name, outside)
        for words, demand in alone:
            passed.keep(Reason.REQUIRED_TRAITS, words, demand)
        away = None if about.tree is not None else _shared(cloud, passed.mask)
        if members is not None:
            away = None if away is None else away & members
            spoken_for = members | members[cloud.roots] if cloud.forest.nested else members
            passed.keep(Reason.MEMBER_OF, name, spoken_for)
        slots.append(Slot("", {name: about.group.amounts[name]}, passed.mask, away))
    if outside is not None:
        trees.keep(Reason.NOT_MEMBER_OF, None, outside)
    return slots, ([] if alone else wanted)


def _keep_trees(about: _About, trees: Funnel, slots: list[Slot], demands: list[_Demand]) -> None:
    """Keep the trees at which each slot has a choice, and some choice meets each demand."""
    cloud = about.cloud
    choices = [_roots_with(cloud, slot.local, slot.away) for slot in slots]
    trees.keep(Reason.NO_CHOICE, None, reduce(np.logical_and, choices))
    for words, demand in demands:
        met = _roots_with(cloud, *_union(slots, demand))
        trees.keep(Reason.REQUIRED_TRAITS, words, met)
    if not trees:
        raise _stop(about.tally, Stop.NO_CHOICE, about.group)


def _shared(cloud: Cloud, mask: Mask) -> Mask | None:
    """Return the sharing providers among those of the mask, None if there are none."""
    sharing = cloud.sharing
    return mask & sharing.mask if mask[sharing.sharers].any() else None


def _union(slots: list[Slot], demand: Mask) -> tuple[Mask, Mask | None]:
    """Return who, local and away, can serve some class and meets the demand as well."""
    local = np.logical_or.reduce([slot.local for slot in slots]) & demand
    parts = [slot.away for slot in slots if slot.away is not None]
    return local, (np.logical_or.reduce(parts) & demand if parts else None)


def in_reach(cloud: Cloud, passed: Mask) -> Mask:
    """Mark the roots in whose tree, or among whose sharing providers, somebody passed."""
    return _roots_with(cloud, passed, _shared(cloud, passed))


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
                raise _stop(tally, Stop.NO_CHOICE, group) from None


def _stop(
    tally: Tally, why: Stop, group: Group | None = None, subject: str | None = None
) -> Nothing:
    tally.stopped = Stopped(why, None if group is None else group.suffix, subject)
    return Nothing(str(tally.stopped))
