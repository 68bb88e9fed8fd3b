"""The providers that pass every test, for each group (specification 04 sections 5.3 to 5.5 and 5.8).

The tests are those of :mod:`placement.search.filters`. A ``Funnel`` counts the removals of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

import numpy as np

from placement.search.cloud import Cloud
from placement.search.filters import (
    FILTERS,
    ROOT_FILTERS,
    TRAIT,
    Asker,
    Filter,
    Scope,
    conditions,
    fits,
    words,
)
from placement.search.index_set import Indexes, Mask
from placement.search.request import (
    CandidateRequest,
    Group,
    NameSets,
    UnknownClassName,
    UnknownTraitName,
)
from placement.search.tally import Funnel, Reason, Stop, Stopped, Tally, Unit
from placement.search.work import Work


class Nothing(Exception):
    """The answer is empty, and nothing after this point is checked (section 5.8)."""


@dataclass(slots=True)
class Slot:
    """One choice to make: a granular group, or one class of the unsuffixed group.

    ``local``: the providers that may serve in their own tree. ``away``: the sharing providers that may
    serve at other anchors, None if there are none.
    """

    suffix: str
    amounts: Mapping[str, int]
    local: Mask
    away: Mask | None


@dataclass(slots=True)
class Feasible:
    """The slots, the anchors at which each of them has a choice, and the trait demands left.

    ``demands``: the providers that meet each any-of set of the unsuffixed group's ``required``; only a
    combination can show whether the providers of all classes meet them together. ``untested``: pairs of local
    and away providers, of which each anchor needs one, still to be tested tree by tree.
    """

    anchors: Mask
    slots: list[Slot] = field(default_factory=list)
    demands: list[Mask] = field(default_factory=list)
    untested: list[tuple[Mask, Mask | None]] = field(default_factory=list)

    @property
    def away(self) -> Mask | None:
        """The sharing providers that may serve some slot at other anchors, None if there are none."""
        parts = [slot.away for slot in self.slots if slot.away is not None]
        return np.logical_or.reduce(parts) if parts else None

    def helpers(self, cloud: Cloud, anchors: Indexes) -> tuple[Indexes, Indexes]:
        """Return the providers of these trees that may serve some slot there, and each tree's position."""
        providers, counts = cloud.forest.trees(anchors)
        masks = (slot.local[providers] for slot in self.slots)
        useful = reduce(np.logical_or, masks, np.zeros(len(providers), np.bool_))
        return providers[useful], np.repeat(np.arange(len(anchors)), counts)[useful]


# -- the request ------------------------------------------------------------------------------


def find_feasible(
    cloud: Cloud,
    request: CandidateRequest,
    tally: Tally,
    known: NameSets | None,
    has_choice: Callable[[CandidateRequest], bool],
    work: Work,
    tree_by_tree: bool,
) -> Feasible:
    """Run all tests in the order of section 5.8.

    :param known: names that exist although no provider has them; None means that all names exist.
    :param has_choice: returns whether a smaller request has any candidate.
    :param tree_by_tree: the caller tests which trees have a choice for each slot: for all trees that costs
        more than all other tests. ``Nothing`` and errors for unknown names may then be missing.
    :raises Nothing: the answer is empty.
    :raises WorkEnded: the time has ended.
    :raises UnknownName: a name is unknown.
    """
    avoided = cloud.mark_avoided(request.avoid)
    anchors = _anchors(cloud, request, avoided, known, tally)
    found = Feasible(anchors)
    for position, group in enumerate(request.groups):
        work.go_on()
        try:
            _add_group(cloud, group, anchors, avoided, found, known, tally, tree_by_tree)
        except (UnknownClassName, UnknownTraitName):
            _settle_demands(request, position, has_choice, tally)
            raise
    if not found.anchors.any():
        raise _stop(tally, Stop.NO_COMMON_TREE)
    return found


def check_traits(cloud: Cloud, known: NameSets | None, names: Iterable[str]) -> None:
    """Raise ``UnknownTraitName`` for the first name that no provider has and that is not known."""
    if known is not None:
        for name in sorted(names):
            if not cloud.has_trait(name) and name not in known.traits:
                raise UnknownTraitName(name)


def check_classes(cloud: Cloud, known: NameSets | None, names: Iterable[str]) -> None:
    """Raise ``UnknownClassName`` for the first name that no provider has and that is not known."""
    if known is not None:
        for name in names:
            if not cloud.has_class(name) and name not in known.classes:
                raise UnknownClassName(name)


def _check_names(
    cloud: Cloud, known: NameSets | None, table: Iterable[Filter[Asker]], asker: Asker
) -> None:
    """Raise ``UnknownTraitName`` for the first trait that does not exist, filter by filter."""
    for each in table:
        asked = each.asked(asker) if each.attribute is TRAIT else ()
        if asked:
            check_traits(cloud, known, frozenset().union(*asked))


def _anchors(
    cloud: Cloud,
    request: CandidateRequest,
    avoided: Mask | None,
    known: NameSets | None,
    tally: Tally,
) -> Mask:
    """Return the roots that root_required admits (section 5.3), without avoided trees."""
    _check_names(cloud, known, ROOT_FILTERS, request)
    roots, count = cloud.forest.is_root, len(cloud.forest.roots)
    if request.anchor is not None:
        only = np.zeros(cloud.size, np.bool_)
        only[cloud.index_of_uuid[request.anchor]] = True
        roots, count = roots & only, 1
    anchors = Funnel(tally, None, Unit.TREES, roots, count)
    for each, names in conditions(ROOT_FILTERS, request):
        anchors.keep(each.reason, words(names), each.test(cloud, names))
    if not anchors and (request.root_required or request.root_forbidden):
        raise _stop(tally, Stop.NO_ROOT)
    if avoided is not None:
        anchors.keep(Reason.AVOIDED, None, ~avoided)
    return anchors.mask


def _add_group(
    cloud: Cloud,
    group: Group,
    anchors: Mask,
    avoided: Mask | None,
    found: Feasible,
    known: NameSets | None,
    tally: Tally,
    tree_by_tree: bool,
) -> None:
    """Add the slots of one group, and drop the anchors at which it has no choice."""
    check_classes(cloud, known, group.amounts)
    tests = _tests(cloud, group)
    stops = [test.stop for test in tests if test.stop and not test.passed.any()]
    # The order is that of section 5.8: if the aggregates have no member, the answer is empty even if a
    # trait's name is unknown; if the tree does not exist, that name is an error first.
    if Stop.NO_MEMBER in stops:
        raise _stop(tally, Stop.NO_MEMBER, group)
    _check_names(cloud, known, FILTERS, group)
    if stops:
        raise _stop(tally, stops[0], group)
    capable = _find_capable(cloud, group, avoided, tests, tally)
    # The test starts from all anchors, not from the anchors left by earlier groups: each group's steps show
    # what it lacks by itself, and one more step how many trees it loses because of the others.
    trees = Funnel(tally, group.suffix, Unit.TREES, anchors)
    demands: list[_Test] = []
    if group.suffix:
        slots = [_make_granular_slot(cloud, group, avoided, tests, capable, tally)]
    else:
        slots = _make_unsuffixed_slots(cloud, group, tests, capable, trees)
        # One provider serves a single class, and was tested for the conditions like any other (``_OF_ONE``).
        demands = [test for test in tests if test.scope is Scope.SOME and len(capable) > 1]
    if tree_by_tree:
        found.untested += [(slot.local, slot.away) for slot in slots]
        found.untested += [_union(slots, demand.passed) for demand in demands]
    else:
        _keep_trees(cloud, group, trees, slots, demands, tally)
    if found.slots:
        trees.keep(Reason.OTHER_GROUPS, None, found.anchors)
    found.anchors = trees.mask
    found.slots += slots
    found.demands += [demand.passed for demand in demands]


class _Test(NamedTuple):
    """One step of a group: the conditions of a filter, or one of them, and the providers that pass."""

    reason: Reason
    scope: Scope
    stop: Stop | None
    subject: str | None
    passed: Mask


def _tests(cloud: Cloud, group: Group) -> list[_Test]:
    """Return the tests of a group's conditions other than amounts, in the order of the filters."""
    tests: list[_Test] = []
    for each in FILTERS:
        asked = each.asked(group)
        if not asked:
            continue
        kind = each.reason, each.scope, each.stop
        if each.one_by_one:
            tests += [_Test(*kind, words(names), each.test(cloud, names)) for names in asked]
        else:
            # A provider without each of the names has none of them.
            parts = asked if each.wanted else [frozenset().union(*asked)]
            met = (each.test(cloud, names) for names in parts)
            tests.append(_Test(*kind, None, reduce(np.logical_and, met)))
    return tests


def _find_capable(
    cloud: Cloud, group: Group, avoided: Mask | None, tests: list[_Test], tally: Tally
) -> dict[str, Funnel]:
    """Return by class the providers (of the wanted tree) that fit the amount; each class has some."""
    capable: dict[str, Funnel] = {}
    of_tree = [test for test in tests if test.scope is Scope.TREE]
    for name, amount in group.amounts.items():
        funnel = Funnel(tally, group.suffix, Unit.PROVIDERS, cloud.forest.alive, len(cloud))
        fitting = fits(cloud, name, amount)
        funnel.keep(
            Reason.CAPACITY, name, fitting if group.among is None else fitting & group.among
        )
        if avoided is not None:
            funnel.keep(Reason.AVOIDED, name, ~avoided)
        for test in of_tree:
            funnel.keep(test.reason, name, test.passed)
        if not funnel:
            raise _stop(tally, Stop.NO_CAPACITY, group, name)
        capable[name] = funnel
    return capable


def _make_granular_slot(
    cloud: Cloud,
    group: Group,
    avoided: Mask | None,
    tests: list[_Test],
    capable: Mapping[str, Funnel],
    tally: Tally,
) -> Slot:
    """Return E(g, .) of section 5.4."""
    if capable:
        passed, *others = capable.values()
    else:
        # This is a group for ``same_subtree``: it takes nothing, so no class limits it, not even to existing
        # providers; and without any condition it would match all of them (section 5.4: none).
        alive = cloud.forest.alive
        passed, others = Funnel(tally, group.suffix, Unit.PROVIDERS, alive, len(cloud)), []
        if avoided is not None:
            passed.keep(Reason.AVOIDED, None, ~avoided)
        if not group.required and not group.member_of:
            passed.keep(Reason.NO_DEMAND, None, np.zeros(cloud.size, np.bool_))
            return Slot(group.suffix, {}, passed.mask, None)
    for name, other in zip(list(capable)[1:], others, strict=True):
        passed.keep(Reason.ALL_CLASSES, name, other.mask)
    for test in tests:
        if test.scope is not Scope.TREE:
            passed.keep(test.reason, test.subject, test.passed)
    return Slot(group.suffix, group.amounts, passed.mask, _keep_sharing(cloud, passed.mask))


def _make_unsuffixed_slots(
    cloud: Cloud,
    group: Group,
    tests: list[_Test],
    capable: Mapping[str, Funnel],
    trees: Funnel,
) -> list[Slot]:
    """Return one slot per class, and drop the trees whose root fails (section 5.5)."""
    scopes = _OF_EACH if len(capable) > 1 else _OF_ONE
    each = [test for scope in scopes for test in tests if test.scope is scope]
    or_root = [test for test in tests if test.scope is Scope.EACH_OR_ROOT]
    of_tree = any(test.scope is Scope.TREE for test in tests)
    slots = []
    for name, passed in capable.items():
        for test in each:
            passed.keep(test.reason, test.subject or name, test.passed)
        # Away providers are tested before local ones: a sharing provider of another tree must meet the
        # condition itself, since its own root does not help it there.
        away = None if of_tree else _keep_sharing(cloud, passed.mask)
        for test in or_root:
            away = None if away is None else away & test.passed
            met = test.passed
            of_root = met[cloud.roots] if cloud.forest.nested else met
            passed.keep(test.reason, test.subject or name, met | of_root)
        slots.append(Slot("", {name: group.amounts[name]}, passed.mask, away))
    for test in each:
        if test.scope is Scope.EACH_AND_ROOT:
            trees.keep(test.reason, test.subject, test.passed)
    return slots


_OF_EACH = (Scope.EACH, Scope.EACH_AND_ROOT)
_OF_ONE = (*_OF_EACH, Scope.SOME)
"""The scopes that are one test if one provider serves the group, which then is both each and any provider."""


def _keep_trees(
    cloud: Cloud,
    group: Group,
    trees: Funnel,
    slots: list[Slot],
    demands: list[_Test],
    tally: Tally,
) -> None:
    """Keep the trees at which each slot has a choice, and each demand is met by a choice."""
    # Slots of one group are one step: a tree lacks a choice for the group, for any of its classes.
    choices = [_roots_with(cloud, slot.local, slot.away) for slot in slots]
    trees.keep(Reason.NO_CHOICE, None, reduce(np.logical_and, choices))
    for demand in demands:
        met = _roots_with(cloud, *_union(slots, demand.passed))
        trees.keep(demand.reason, demand.subject, met)
    if not trees:
        raise _stop(tally, Stop.NO_CHOICE, group)


def _keep_sharing(cloud: Cloud, mask: Mask) -> Mask | None:
    """Return the sharing providers in the mask, None if there are none."""
    # The value is None, not an empty mask: most clouds share nothing, and a caller then skips a pass over all
    # providers, or a look-up for each anchor.
    sharing = cloud.sharing
    shared = len(sharing.sharers) and mask[sharing.sharers].any()
    return mask & sharing.mask if shared else None


def _union(slots: list[Slot], demand: Mask) -> tuple[Mask, Mask | None]:
    """Return the local and the away providers that can serve some class and meet the demand."""
    local = np.logical_or.reduce([slot.local for slot in slots]) & demand
    parts = [slot.away for slot in slots if slot.away is not None]
    return local, (np.logical_or.reduce(parts) & demand if parts else None)


def in_reach(cloud: Cloud, passed: Mask) -> Mask:
    """Mark the roots with a provider that passed, in their tree or among their sharing providers."""
    return _roots_with(cloud, passed, _keep_sharing(cloud, passed))


def _roots_with(cloud: Cloud, local: Mask, away: Mask | None) -> Mask:
    """Mark the roots that have a local provider in their tree, or reach an away provider."""
    if cloud.forest.nested:
        roots = np.zeros(cloud.size, np.bool_)
        roots[cloud.roots[local]] = True
    else:
        roots = local
    if away is not None and away.any():
        roots = roots | cloud.sharing.mark_reached(away)
    return roots


def _settle_demands(
    request: CandidateRequest,
    position: int,
    has_choice: Callable[[CandidateRequest], bool],
    tally: Tally,
) -> None:
    """Make sure that F(a) of section 5.5 is not empty before an unknown name is reported.

    Masks show that each trait demand alone can be met; a small search shows whether all can be met at once.
    """
    # Only the groups before the one with the unknown name count: later groups are not checked.
    for group in request.groups[:position]:
        if not group.suffix and group.required and len(group.amounts) > 1:
            alone = CandidateRequest(
                (group,),
                root_required=request.root_required,
                root_forbidden=request.root_forbidden,
                limit=1,
                avoid=request.avoid,
            )
            if not has_choice(alone):
                raise _stop(tally, Stop.NO_CHOICE, group) from None


def _stop(
    tally: Tally, why: Stop, group: Group | None = None, subject: str | None = None
) -> Nothing:
    tally.stopped = Stopped(why, None if group is None else group.suffix, subject)
    return Nothing(str(tally.stopped))
