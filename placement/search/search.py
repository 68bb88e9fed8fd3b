"""From a request to its candidates: filter, group, walk, cut (specification 04 sections 5 and 6)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from placement.search.candidate import Candidate, Combination, SearchResult, Shape
from placement.search.cloud import LARGEST_AMOUNT, Cloud
from placement.search.feasible import Feasible, Nothing, feasible
from placement.search.index_set import Indexes, Mask
from placement.search.problem import Rules, Work
from placement.search.request import CandidateRequest, Names
from placement.search.room import Room
from placement.search.streams import StreamMaker
from placement.search.tally import Stop, Stopped, Tally
from placement.search.walk import Turn, Walk

WORK_LIMIT = 2_000_000
"""Placements tried for one request before it gives up: some seconds."""

PATIENCE_SHARE = 20
"""One kind of tree may spend this part of the limit without finding anything."""


def search(
    cloud: Cloud,
    request: CandidateRequest,
    known: Names | None = None,
    work_limit: int = WORK_LIMIT,
    explain: bool = False,
    room: Room | None = None,
    passed: Callable[[str], object] = lambda stage: None,
) -> SearchResult:
    """Return the candidates of the request, at most ``limit``, and no more than there is room for.

    The caller holds the cloud's lock until it has rendered the result. ``known``: the names that
    exist although no provider has them, None if all do; ``UnknownTrait`` and ``UnknownClass`` are
    raised for others where section 5.8 says. Randomness (``seed``) means: trees in random order, one
    candidate of each before a second of any, within a tree the choices in random order, and the
    result shuffled. It samples trees evenly, not the set of candidates, and costs no more.
    With ``explain`` the tally also says which providers and trees each test removed. ``passed`` is
    told when a stage, filter or combine, has ended.
    """
    tally = Tally(explain)

    def has_choice(smaller: CandidateRequest) -> bool:
        return len(search(cloud, smaller, work_limit=work_limit)) > 0

    try:
        found = feasible(cloud, request, tally, known, has_choice)
    except Nothing:
        return SearchResult(tally)
    finally:
        passed("filter")
    work = Work(work_limit, patience=work_limit // PATIENCE_SHARE)
    result = _select(cloud, request, found, work, tally, room)
    passed("combine")
    result.complete, result.work = not work.cut_short, work.done
    if not len(result):
        tally.stopped = Stopped(Stop.NO_COMBINATION if result.complete else Stop.WORK_LIMIT)
    return result


class Prospect(NamedTuple):
    """The anchors at which a request may have candidates, before any is combined.

    ``pattern``: what the lone provider of a single anchor takes. ``away``: the sharing providers that
    may serve some slot at other trees, None if there are none. ``visited``: the roots they reach.
    """

    turns: Turn
    pattern: Combination
    away: Mask | None
    visited: Mask | None


def prospect(
    cloud: Cloud, request: CandidateRequest, known: Names | None = None
) -> Prospect | None:
    """Return where a request may have candidates, None if nowhere. Raises as ``search`` does."""

    def has_choice(smaller: CandidateRequest) -> bool:
        return len(search(cloud, smaller)) > 0

    try:
        found = feasible(cloud, request, Tally(), known, has_choice)
    except Nothing:
        return None
    away = [slot.away for slot in found.slots if slot.away is not None]
    return Prospect(
        _turns(cloud, request, found, rules_of(request, found)),
        _uniform_pattern(found),
        np.logical_or.reduce(away) if away else None,
        _visited(cloud, found),
    )


def rules_of(request: CandidateRequest, found: Feasible) -> Rules:
    """Return the request-wide rules in terms of slots.

    Before 1.29 the bound counts candidates that the rule then drops (section 6.2), so only
    without a bound may it prune.
    """
    granular = {s.suffix: number for number, s in enumerate(found.slots) if s.suffix}
    sets = ([granular[suffix] for suffix in sorted(names)] for names in request.same_subtrees)
    return Rules(
        amounts=tuple(slot.amounts for slot in found.slots),
        granular=frozenset(granular.values()),
        isolate=request.isolate,
        subtrees=tuple(tuple(slots) for slots in sets if len(slots) > 1),
        demands=(1 << len(found.demands)) - 1,
        one_provider_per_tree=request.one_provider_per_tree and request.bound is None,
    )


def _select(
    cloud: Cloud,
    request: CandidateRequest,
    found: Feasible,
    work: Work,
    tally: Tally,
    room: Room | None,
) -> SearchResult:
    rules = rules_of(request, found)
    turns = _turns(cloud, request, found, rules)
    pattern = _uniform_pattern(found)
    if bool(turns.single.all()):
        return _uniform_result(request, turns.provider, pattern, tally, room)
    maker = StreamMaker(cloud, found, rules, work, request.seed)
    walk = Walk(turns, maker, pattern, request.limit)
    survivors = _survivors(request, walk)
    if request.one_provider_per_tree:
        survivors = (c for c in survivors if _one_provider_per_tree(cloud, c))
        return _cut_and_remember(request, survivors, tally, room)
    return SearchResult(tally, mixed=_cut(request, survivors, room))


def _survivors(request: CandidateRequest, walk: Walk) -> Iterator[Candidate]:
    """Return what the bound leaves, trees mixed (sections 6.2 and 6.4)."""
    if request.bound is None:
        return walk.mixed()
    if request.strategy == "breadth-first":
        return islice(walk.mixed(), request.bound)
    return walk.depth_first(request.bound)


def _cut(
    request: CandidateRequest, survivors: Iterator[Candidate], room: Room | None
) -> list[Candidate]:
    mixed = list(islice(room.fitting(survivors) if room else survivors, request.limit))
    if request.seed is not None:
        random.Random(request.seed).shuffle(mixed)  # noqa: S311
    return mixed


def _cut_and_remember(
    request: CandidateRequest, survivors: Iterator[Candidate], tally: Tally, room: Room | None
) -> SearchResult:
    """Cut, but go on to see which providers take part in what is cut off (section 6.3).

    Before 1.29 a tree gives few candidates: all that it takes in comes from one provider.
    """
    mixed = list(islice(room.fitting(survivors) if room else survivors, request.limit))
    used = {c.members[place] for c in mixed for place in c.combination.taking}
    for candidate in survivors:
        used.update(candidate.members[place] for place in candidate.combination.taking)
    mixed = _cut(request, iter(mixed), None)
    return SearchResult(tally, mixed=mixed, before_cut=np.array(sorted(used), np.int32))


def _one_provider_per_tree(cloud: Cloud, candidate: Candidate) -> bool:
    """Tell whether the allocations name no two providers of one tree (section 5.7)."""
    taking = candidate.combination.taking
    if len(taking) == 1:
        return True
    roots = {int(cloud.roots[candidate.members[place]]) for place in taking}
    return len(roots) == len(taking)


# -- anchors with one possible answer -----------------------------------------------------------


def _turns(cloud: Cloud, request: CandidateRequest, found: Feasible, rules: Rules) -> Turn:
    """Return the anchors in order, and for which of them one provider serves everything.

    ``single`` anchors: exactly one provider of their tree may serve anything, no sharing provider
    comes in question. (Nor is it one that other anchors reach: that one shares its own aggregates
    with itself, so its own root counts as visited.) Their one combination is checked here, by
    columns: isolate, and the sums of contested classes.
    """
    anchors = found.anchors
    lone = np.full(cloud.size, -1, np.int32)
    helpers = np.flatnonzero(np.logical_or.reduce([slot.local for slot in found.slots]))
    helper_roots = cloud.roots[helpers]
    lone[helper_roots] = helpers
    single = anchors.copy()
    if cloud.forest.nested:
        single &= np.bincount(helper_roots, minlength=cloud.size) == 1
    visited = _visited(cloud, found)
    if visited is not None:
        single &= ~visited
    if not any(slot.amounts for slot in found.slots):
        single[:] = False
    anchors = anchors & ~(single & ~_holds_all(cloud, lone, rules))
    anchors = _enough(cloud, found, rules, anchors, single, visited)
    order = cloud.forest.roots
    order = order[anchors[order]]
    if request.seed is not None:
        order = np.random.default_rng(request.seed).permutation(order)
    return Turn(order, single[order], lone[order])


def _visited(cloud: Cloud, found: Feasible) -> Mask | None:
    """Mark the roots reached by some eligible sharing provider."""
    away = [slot.away for slot in found.slots if slot.away is not None]
    return cloud.sharing.reached(np.logical_or.reduce(away)) if away else None


def _holds_all(cloud: Cloud, provider: Indexes, rules: Rules) -> Mask:
    """Tell for which anchors their lone provider can serve all slots together."""
    held = np.ones(len(provider), np.bool_)
    if rules.isolate and len(rules.granular) > 1:
        held[:] = False
    for name, total in rules.contested.items():
        held &= cloud.room(name)[provider] >= min(total, LARGEST_AMOUNT + 1)
    return held


def _enough(
    cloud: Cloud,
    found: Feasible,
    rules: Rules,
    anchors: Mask,
    single: Mask,
    visited: Mask | None,
) -> Mask:
    """Drop anchors that lack places or room, all at once.

    The same comparisons as ``enough_in_all`` and ``enough_places`` of ``combine``, for anchors
    that no sharing provider visits.
    """
    if not (anchors & ~single).any() or not (rules.contested or rules.isolate):
        return anchors
    lacking = np.zeros(cloud.size, np.bool_)
    if rules.isolate and len(rules.granular) > 1:
        own = np.flatnonzero(np.logical_or.reduce([s.local for s in found.slots if s.suffix]))
        lacking |= np.bincount(cloud.roots[own], minlength=cloud.size) < len(rules.granular)
    for name, total in rules.contested.items():
        takers = [s.local for s in found.slots if name in s.amounts]
        own = np.flatnonzero(np.logical_or.reduce(takers))
        room = np.minimum(cloud.room(name)[own], min(total, LARGEST_AMOUNT)).astype(np.float64)
        supply = np.bincount(cloud.roots[own], weights=room, minlength=cloud.size)
        lacking |= supply < total
    if visited is not None:
        lacking &= ~visited
    return anchors & ~lacking


def _uniform_pattern(found: Feasible) -> Combination:
    sums: dict[str, int] = {}
    for slot in found.slots:
        for name, amount in slot.amounts.items():
            sums[name] = sums.get(name, 0) + amount
    suffixes = dict.fromkeys(slot.suffix for slot in found.slots)
    shape = Shape((sums,), tuple((suffix, 1) for suffix in suffixes))
    return Combination(shape, (0,), (0,) * len(suffixes))


def _uniform_result(
    request: CandidateRequest,
    providers: Indexes,
    pattern: Combination,
    tally: Tally,
    room: Room | None,
) -> SearchResult:
    """Each anchor gives one candidate: bound and limit are prefixes."""
    survivors = providers[: request.bound]
    before_cut = np.sort(survivors) if request.one_provider_per_tree else None
    answered = survivors[: request.limit]
    if room:
        answered = answered[: room.fitting_alike(pattern.shape, len(answered))]
    return SearchResult(tally, answered, pattern, before_cut=before_cut)
