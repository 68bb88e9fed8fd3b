"""From a request to its candidates: filter, group, walk, cut (specification 04 sections 5 and 6)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
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

FIRST = 256
"""Trees that a search looks at first, at least, for what it answers."""

GROWTH = 4
"""How much larger each further part of the trees is than the one before it."""


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
    once = partial(_search_once, cloud, request, known, work_limit, room=room, passed=passed)
    if cloud.forest.nested and not explain and _all_seen(cloud, request):
        result = once(Tally(), tree_by_tree=True)
        if len(result) or not result.complete:
            return result
    # What was counted tree by tree does not say why there is nothing.
    return once(Tally(explain), tree_by_tree=False)


def _all_seen(cloud: Cloud, request: CandidateRequest) -> bool:
    """Tell whether some provider has each name, so that none can be unknown."""
    names = request.names
    return all(map(cloud.has_trait, names.traits)) and all(map(cloud.has_class, names.classes))


def _search_once(
    cloud: Cloud,
    request: CandidateRequest,
    known: Names | None,
    work_limit: int,
    tally: Tally,
    *,
    tree_by_tree: bool,
    room: Room | None,
    passed: Callable[[str], object],
) -> SearchResult:
    def has_choice(smaller: CandidateRequest) -> bool:
        return len(search(cloud, smaller, work_limit=work_limit)) > 0

    try:
        found = feasible(cloud, request, tally, known, has_choice, tree_by_tree)
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
        found = feasible(cloud, request, Tally(), known, has_choice, tree_by_tree=False)
    except Nothing:
        return None
    away = [slot.away for slot in found.slots if slot.away is not None]
    return Prospect(
        _first_turns(_turns(cloud, request, found, rules_of(request, found), None), None),
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
    pattern = _uniform_pattern(found)
    most = _most_anchors(request)
    parts = _turns(cloud, request, found, rules, most)
    turns = _first_turns(parts, most)
    if bool(turns.single.all()):
        return _uniform_result(request, turns.provider, pattern, tally, room)
    maker = StreamMaker(cloud, found, rules, work, request.seed)
    walk = Walk(chain([turns], parts), maker, pattern, request.limit)
    survivors = _survivors(request, walk)
    if request.one_provider_per_tree:
        survivors = (c for c in survivors if _one_provider_per_tree(cloud, c))
        return _cut_and_remember(request, survivors, tally, room)
    return SearchResult(tally, mixed=_cut(request, survivors, room))


def _most_anchors(request: CandidateRequest) -> int | None:
    """Return how many anchors suffice if each gives one candidate, None if all are wanted."""
    bounds = [request.bound] if request.one_provider_per_tree else [request.bound, request.limit]
    return min((bound for bound in bounds if bound is not None), default=None)


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


# -- anchors, and those with one possible answer --------------------------------------------------


def _in_order(
    cloud: Cloud, request: CandidateRequest, found: Feasible, first: int
) -> Iterator[Indexes]:
    """Yield the anchors in the order of their turns, in parts that grow: the first is mostly enough.

    So that no search puts all trees of the cloud in order. ``first``: trees looked at for the first part.
    """
    order = cloud.forest.roots
    if request.seed is None:
        parts = _parted(order, first)
    else:
        parts = _shuffled(order, first, np.random.default_rng(request.seed))
    for part in parts:
        yield part[found.anchors[part]]


def _parted(order: Indexes, size: int) -> Iterator[Indexes]:
    start = 0
    while start < len(order):
        yield order[start : start + size]
        start, size = start + size, size * GROWTH


def _shuffled(order: Indexes, size: int, draw: np.random.Generator) -> Iterator[Indexes]:
    """Yield all of them in random order: drawn one by one, those drawn before passed over."""
    left = np.ones(len(order), np.bool_)
    while size < len(order) // 2:
        drawn = draw.integers(len(order), size=size)
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
        drawn = drawn[left[drawn]]
        left[drawn] = False
        yield order[drawn]
        size *= GROWTH
    yield draw.permutation(order[left])


def _turns(
    cloud: Cloud, request: CandidateRequest, found: Feasible, rules: Rules, most: int | None
) -> Iterator[Turn]:
    """Yield the anchors in order, part by part, and for which of them one provider serves everything."""
    about = _Helpers(cloud, found, rules)
    first = cloud.size if most is None else max(FIRST, 2 * most)
    for anchors in _in_order(cloud, request, found, first):
        yield about.turn(anchors)


def _first_turns(parts: Iterator[Turn], most: int | None) -> Turn:
    """Return the turns of so many anchors at least, of all if there are fewer."""
    turns = next(parts)
    while most is None or len(turns.anchor) < most:
        more = next(parts, None)
        if more is None:
            break
        turns = turns.and_then(more)
    return turns


class _Helpers:
    """Who may serve something from the own tree, as columns over the providers, and who visits whom."""

    def __init__(self, cloud: Cloud, found: Feasible, rules: Rules) -> None:
        self._cloud, self._found, self._rules = cloud, found, rules
        self._visited = _visited(cloud, found)
        self._takes = any(slot.amounts for slot in found.slots)
        self._choices = [
            (local, None if away is None else cloud.sharing.reached(away))
            for local, away in found.untested
        ]

    def turn(self, anchors: Indexes) -> Turn:
        """Return the turns of these anchors; those that cannot have a candidate are dropped.

        ``single`` anchors: exactly one provider of their tree may serve anything, no sharing provider
        comes in question. (Nor is it one that other anchors reach: that one shares its own aggregates
        with itself, so its own root counts as visited.) Their one combination is checked here, by
        columns: isolate, and the sums of contested classes.
        """
        helpers, rank = self._helpers(anchors)
        lone = np.full(len(anchors), -1, np.int32)
        lone[rank] = helpers
        visited = None if self._visited is None else self._visited[anchors]
        single = np.bincount(rank, minlength=len(anchors)) == 1
        if visited is not None:
            single &= ~visited
        if not self._takes:
            single[:] = False
        kept = ~single | _holds_all(self._cloud, lone, self._rules)
        if not single.all():
            lacking = self._lacking(helpers, rank, len(anchors))
            kept &= ~lacking if visited is None else ~lacking | visited
        for local, reached in self._choices:
            has_choice = np.zeros(len(anchors), np.bool_)
            has_choice[rank[local[helpers]]] = True
            kept &= has_choice if reached is None else has_choice | reached[anchors]
        return Turn(anchors[kept], single[kept], lone[kept])

    def _helpers(self, anchors: Indexes) -> tuple[Indexes, Indexes]:
        """Return who may serve something in the trees of these anchors, and the anchor's place."""
        members, counts = self._cloud.forest.trees(anchors)
        rank = np.repeat(np.arange(len(anchors)), counts)
        useful = self._found.local_among(members)
        return members[useful], rank[useful]

    def _lacking(self, helpers: Indexes, rank: Indexes, count: int) -> Mask:
        """Mark anchors that lack places or room, all at once.

        The same comparisons as ``enough_in_all`` and ``enough_places`` of ``combine``, for anchors
        that no sharing provider visits.
        """
        lacking = np.zeros(count, np.bool_)
        rules, slots = self._rules, self._found.slots
        if rules.isolate and len(rules.granular) > 1:
            own = np.logical_or.reduce([slot.local[helpers] for slot in slots if slot.suffix])
            lacking |= np.bincount(rank[own], minlength=count) < len(rules.granular)
        for name, total in rules.contested.items():
            takers = [slot.local[helpers] for slot in slots if name in slot.amounts]
            room = self._cloud.room(name)[helpers] * np.logical_or.reduce(takers)
            room = np.minimum(room, min(total, LARGEST_AMOUNT)).astype(np.float64)
            lacking |= np.bincount(rank, weights=room, minlength=count) < total
        return lacking


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
