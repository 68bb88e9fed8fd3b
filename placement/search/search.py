"""The search, from a request to its candidates: filter, group, walk, cut (specification 04 sections 5, 6)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import nlargest
from itertools import chain, islice
from math import gcd
from typing import NamedTuple

import numpy as np

from placement.search.candidate import Candidate, Combination, SearchResult, SizeLimit, takers
from placement.search.cloud import Cloud
from placement.search.columns import LARGEST_AMOUNT
from placement.search.feasible import Feasible, Nothing, find_feasible
from placement.search.index_set import Indexes, Mask
from placement.search.problem import Rules
from placement.search.request import CandidateRequest, NameSets
from placement.search.streams import CombinationMaker, StreamMaker, in_turns, shares
from placement.search.tally import Stop, Stopped, Tally
from placement.search.work import Work, WorkEnded

FIRST = 256
"""The least number of trees that a search reads first."""

GROWTH = 4
"""The growth factor of each further part of the trees."""

MOST_STUCK = 3
"""The number of slots that a search without a result names."""

SPARSE = 16
"""The fraction of trees (one in this many) below which no parts are searched: they are removed at once."""


def search(
    cloud: Cloud,
    request: CandidateRequest,
    known: NameSets | None = None,
    work: Work | None = None,
    explain: bool = False,
    size_limit: SizeLimit | None = None,
    passed: Callable[[str], object] = lambda stage: None,
) -> SearchResult:
    """Return the candidates of the request, at most ``limit``, and at most as many as ``size_limit`` allows.

    The caller holds the cloud's lock until it has rendered the result. ``known``: the names that exist
    although no provider has them, None if all do; ``UnknownTraitName`` and ``UnknownClassName`` are raised
    for other names as section 5.8 says. Randomness (``seed``) means: trees in random order, one candidate of
    each before a second of any, within a tree the choices in random order, and the result shuffled. This
    samples trees evenly, not the set of candidates, and costs no more. ``work``: the remaining budget of the
    request; without it, only placements are bounded. With ``explain`` the tally also names the providers and
    trees that each test removed. ``passed`` is called when a stage, filter or combine, has ended.
    """
    work = work or Work()
    names = request.names
    all_seen = all(map(cloud.has_trait, names.traits)) and all(map(cloud.has_class, names.classes))
    once = partial(_search_once, cloud, request, known, work, size_limit=size_limit, passed=passed)
    # The test of which trees have a choice for each slot costs more than all other tests if there are
    # devices, and almost nothing if there are none. Without that test an unknown name can pass unnoticed.
    if cloud.forest.nested and not explain and all_seen:
        result = once(Tally(), tree_by_tree=True)
        if len(result) or not result.complete:
            return result
    # A count made tree by tree does not explain why there is nothing.
    return once(Tally(explain), tree_by_tree=False)


def _search_once(
    cloud: Cloud,
    request: CandidateRequest,
    known: NameSets | None,
    work: Work,
    tally: Tally,
    *,
    tree_by_tree: bool,
    size_limit: SizeLimit | None,
    passed: Callable[[str], object],
) -> SearchResult:
    begun = work.done
    # A request can search twice, as ``search`` does: the obstacles of the first search are not those of this
    # one.
    work.stuck.clear()
    work.set_aside = 0
    try:
        found = _run_tests(cloud, request, known, work, tally, tree_by_tree)
    except WorkEnded:
        tally.stopped = Stopped(Stop.WORK_LIMIT)
        return SearchResult(tally, complete=False)
    finally:
        passed("filter")
    if found is None:
        return SearchResult(tally)
    result = _select(cloud, request, found, work, tally, size_limit)
    passed("combine")
    result.complete = not work.cut_short and not work.set_aside
    # The requested candidates exist, even if other trees were given up.
    result.complete |= request.limit is not None and len(result) >= request.limit
    result.work = work.done - begun
    if not len(result):
        tally.stopped = Stopped(Stop.NO_COMBINATION if result.complete else Stop.WORK_LIMIT)
        often = nlargest(MOST_STUCK, work.stuck, key=work.stuck.__getitem__)
        # Several slots can be classes of the unsuffixed group.
        result.stuck = tuple(dict.fromkeys(found.slots[slot].suffix for slot in often))
    return result


def _run_tests(
    cloud: Cloud,
    request: CandidateRequest,
    known: NameSets | None,
    work: Work,
    tally: Tally,
    tree_by_tree: bool,
) -> Feasible | None:
    """Run all tests; return None if they leave nothing."""

    def has_choice(smaller: CandidateRequest) -> bool:
        return len(search(cloud, smaller, work=work)) > 0

    try:
        return find_feasible(cloud, request, tally, known, has_choice, work, tree_by_tree)
    except Nothing:
        return None


class Turn(NamedTuple):
    """Anchors in the order of processing, as parallel columns.

    ``single``: the anchor has exactly one candidate, and ``provider`` alone serves it.
    """

    anchor: Indexes
    single: Mask
    provider: Indexes

    def and_then(self, more: Turn) -> Turn:
        """Return these anchors followed by more."""
        return Turn._make(map(np.concatenate, zip(self, more, strict=True)))


class Prospect(NamedTuple):
    """The anchors at which a request may have candidates, before any is combined.

    ``alone``: the combination of a provider that serves a tree alone, None if there is none. ``away``: the
    sharing providers that may serve some slot at other trees, None if there are none. ``visited``: the roots
    that these reach.
    """

    turns: Turn
    alone: Combination | None
    away: Mask | None
    visited: Mask | None


def prospect(
    cloud: Cloud, request: CandidateRequest, known: NameSets | None, work: Work
) -> Prospect | None:
    """Return where a request may have candidates, None if nowhere.

    The errors are those of ``search``, and ``WorkEnded``.
    """
    found = _run_tests(cloud, request, known, work, Tally(), tree_by_tree=False)
    if found is None:
        return None
    parts = _turns(cloud, request, found, rules_of(request, found), None)
    turns = _first_turns(parts, None)
    alone = _by_one_provider(CombinationMaker(found.slots)) if turns.single.any() else None
    return Prospect(turns, alone, found.away, _mark_visited(cloud, found))


def _by_one_provider(maker: CombinationMaker) -> Combination:
    """Return the combination in which one provider serves everything."""
    return maker.combination((0,) * maker.slots)


def rules_of(request: CandidateRequest, found: Feasible) -> Rules:
    """Return the request-wide rules in terms of slots."""
    granular = {s.suffix: number for number, s in enumerate(found.slots) if s.suffix}
    sets = ([granular[suffix] for suffix in sorted(names)] for names in request.same_subtrees)
    return Rules(
        amounts=tuple(slot.amounts for slot in found.slots),
        granular=frozenset(granular.values()),
        isolate=request.isolate,
        # A single provider is always in one subtree.
        subtrees=tuple(tuple(slots) for slots in sets if len(slots) > 1),
        demands=(1 << len(found.demands)) - 1,
        # Before 1.29 the bound counts candidates that the rule then drops (section 6.2): if the rule pruned
        # them before they are counted, an answer would have more than it should.
        one_provider_per_tree=request.one_provider_per_tree and request.bound is None,
    )


def _select(
    cloud: Cloud,
    request: CandidateRequest,
    found: Feasible,
    work: Work,
    tally: Tally,
    size_limit: SizeLimit | None,
) -> SearchResult:
    """Combine: cut at the bound, mix trees (sections 6.2 and 6.4), and cut at the limit."""
    rules = rules_of(request, found)
    # As many anchors suffice if each gives a candidate; if not, ``parts`` has more. A limit counts the
    # candidates that the rule before 1.29 leaves, and that rule can drop any number.
    bounds = [request.bound] if request.one_provider_per_tree else [request.bound, request.limit]
    most = min((bound for bound in bounds if bound is not None), default=None)
    parts = _turns(cloud, request, found, rules, most)
    turns = _first_turns(parts, most)
    maker = CombinationMaker(found.slots)
    # With flat hosts alone, 100,000 candidates are one column, without an object for each.
    if bool(turns.single.all()):
        return _uniform_result(request, turns.provider, maker, tally, size_limit)
    stream_maker = StreamMaker(cloud, found, rules, work, request.seed, maker)
    streams = stream_maker.streams_at(turn.anchor for turn in chain([turns], parts))
    mixed: Iterable[Iterator[Candidate]] = streams
    if request.bound is not None and request.strategy == "depth-first":
        # The strategy decides which candidates survive, not their order: trees are mixed in any case.
        mixed = list(shares(streams, request.bound))
    # The trees that were set aside come last. Otherwise one hard tree would use up the work of the whole
    # request although later trees have candidates.
    candidates = chain(in_turns(mixed), in_turns(stream_maker.take_up_set_aside()))
    survivors: Iterator[Candidate] = islice(candidates, request.bound)
    if request.one_provider_per_tree:
        survivors = (c for c in survivors if _one_provider_per_tree(cloud, c))
    answered = list(
        islice(size_limit.fitting(survivors) if size_limit else survivors, request.limit)
    )
    # Before 1.29 the search continues, to find the providers of the candidates that are cut off (section
    # 6.3). A tree gives few candidates there, since all its allocations come from one provider.
    before_cut = takers(chain(answered, survivors)) if request.one_provider_per_tree else None
    if request.seed is not None:
        random.Random(request.seed).shuffle(answered)  # noqa: S311
    return SearchResult(tally, mixed=answered, before_cut=before_cut)


def _one_provider_per_tree(cloud: Cloud, candidate: Candidate) -> bool:
    """Return whether no two allocations are on different providers of one tree (section 5.7)."""
    taking = candidate.combination.taking
    if len(taking) == 1:
        return True
    roots = {int(cloud.roots[candidate.members[place]]) for place in taking}
    return len(roots) == len(taking)


# -- anchors, and those with one possible answer --------------------------------------------------


def _in_order(
    cloud: Cloud, request: CandidateRequest, found: Feasible, first: int
) -> Iterator[Indexes]:
    """Yield the anchors in the order of processing, in growing parts: the first part usually suffices.

    So no search sorts all trees of the cloud. ``first``: the number of trees read for the first part.
    """
    order = cloud.forest.roots
    if request.seed is not None:
        parts = _shuffle(order, first, np.random.default_rng(request.seed))
    elif request.start is not None:
        # With few anchors in many trees, whole parts of the order would be read for nothing. The first tree
        # is then drawn from the few alone, just as evenly.
        if np.count_nonzero(found.anchors) <= max(first, len(order) // SPARSE):
            order = order[np.sort(cloud.forest.place[np.flatnonzero(found.anchors)])]
        parts = _in_strides(order, first, request.start)
    else:
        parts = (order[places] for places in _spans(len(order), first))
    for part in parts:
        yield part[found.anchors[part]]


def _spans(count: int, size: int) -> Iterator[slice]:
    start = 0
    while start < count:
        yield slice(start, min(start + size, count))
        start, size = start + size, size * GROWTH


def _in_strides(order: Indexes, size: int, start: int) -> Iterator[Indexes]:
    """Yield all anchors cyclically from a start, with a stride that meets each once.

    With a stride of one, a tree after many full trees would be returned more often than others. Measured,
    with room in a tenth of 10,000 trees and a limit of 10: a tree was in 0.84 to 1.14 times as many answers
    as the mean one, and in 0.38 to 2.11 times as many with a stride of one.
    """
    count = len(order)
    stride, begin = divmod(start, count)
    stride = max(stride % count, 1)
    # Only a stride without a common divisor reaches all positions before it repeats one.
    while gcd(stride, count) != 1:
        stride += 1
    for span in _spans(count, size):
        places = np.arange(begin + span.start * stride, begin + span.stop * stride, stride)
        yield order[places % count]


def _shuffle(order: Indexes, size: int, draw: np.random.Generator) -> Iterator[Indexes]:
    """Yield all anchors in random order: draw one by one, and skip repetitions."""
    # Once half is drawn, too many draws would be repetitions, so the rest is permuted at once.
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
    """Yield the anchors in order, part by part, with the ones that a single provider serves."""
    about = _Helpers(cloud, found, rules)
    first = cloud.size if most is None else max(FIRST, 2 * most)
    for anchors in _in_order(cloud, request, found, first):
        yield about.turn(anchors)


def _first_turns(parts: Iterator[Turn], most: int | None) -> Turn:
    """Return at least this many anchors in order, or all if there are fewer."""
    turns = next(parts)
    while most is None or len(turns.anchor) < most:
        more = next(parts, None)
        if more is None:
            break
        turns = turns.and_then(more)
    return turns


class _Helpers:
    """The providers that may serve something, by columns, and the anchors that sharing providers reach."""

    def __init__(self, cloud: Cloud, found: Feasible, rules: Rules) -> None:
        self._cloud, self._found, self._rules = cloud, found, rules
        self._visited = _mark_visited(cloud, found)
        self._takes = any(slot.amounts for slot in found.slots)
        self._choices = [
            (local, None if away is None else cloud.sharing.mark_reached(away))
            for local, away in found.untested
        ]

    def turn(self, anchors: Indexes) -> Turn:
        """Return these anchors in order, without the ones that cannot have a candidate.

        At ``single`` anchors exactly one provider of the tree may serve anything, and no sharing provider.
        (This excludes a provider that other anchors reach: it shares its own aggregates with itself, so its
        own root counts as visited.) Their one combination is checked here, by columns: isolate, and the sums
        of contested classes.
        """
        helpers, rank = self._found.helpers(self._cloud, anchors)
        # If there are several providers, the last one is stored; the value is used only if there is one.
        lone = np.full(len(anchors), -1, np.int32)
        lone[rank] = helpers
        visited = None if self._visited is None else self._visited[anchors]
        single = np.bincount(rank, minlength=len(anchors)) == 1
        if visited is not None:
            single &= ~visited
        # A ``uniform`` result means that each provider has allocations.
        if not self._takes:
            single[:] = False
        kept = ~single | _holds_all(self._cloud, lone, self._rules)
        if not single.all():
            lacking = self._mark_lacking(helpers, rank, len(anchors))
            kept &= ~lacking if visited is None else ~lacking | visited
        for local, reached in self._choices:
            has_choice = np.zeros(len(anchors), np.bool_)
            has_choice[rank[local[helpers]]] = True
            kept &= has_choice if reached is None else has_choice | reached[anchors]
        return Turn(anchors[kept], single[kept], lone[kept])

    def _mark_lacking(self, helpers: Indexes, rank: Indexes, count: int) -> Mask:
        """Mark anchors that lack places or room, all at once.

        The comparisons are those of ``enough_in_all`` and ``enough_places`` of ``combine``, for anchors
        without sharing providers.
        """
        lacking = np.zeros(count, np.bool_)
        rules, slots = self._rules, self._found.slots
        if rules.isolate and len(rules.granular) > 1:
            own = np.logical_or.reduce([slot.local[helpers] for slot in slots if slot.suffix])
            lacking |= np.bincount(rank[own], minlength=count) < len(rules.granular)
        for name, total in rules.contested.items():
            takers = [slot.local[helpers] for slot in slots if name in slot.amounts]
            room = self._cloud.room(name)[helpers] * np.logical_or.reduce(takers)
            # ``bincount`` sums floats, exactly up to 2**53, which is more than four million of the largest
            # rooms.
            room = np.minimum(room, min(total, LARGEST_AMOUNT)).astype(np.float64)
            lacking |= np.bincount(rank, weights=room, minlength=count) < total
        return lacking


def _mark_visited(cloud: Cloud, found: Feasible) -> Mask | None:
    """Mark the roots reached by some eligible sharing provider."""
    return None if found.away is None else cloud.sharing.mark_reached(found.away)


def _holds_all(cloud: Cloud, provider: Indexes, rules: Rules) -> Mask:
    """Mark the anchors whose lone provider can serve all slots together."""
    held = np.ones(len(provider), np.bool_)
    if rules.isolate and len(rules.granular) > 1:
        held[:] = False
    for name, total in rules.contested.items():
        # A larger total exceeds the column's integers; it fits nowhere in either case.
        held &= cloud.room(name)[provider] >= min(total, LARGEST_AMOUNT + 1)
    return held


def _uniform_result(
    request: CandidateRequest,
    providers: Indexes,
    maker: CombinationMaker,
    tally: Tally,
    size_limit: SizeLimit | None,
) -> SearchResult:
    """Return one candidate for each anchor; bound and limit cut a prefix."""
    pattern = _by_one_provider(maker)
    survivors = providers[: request.bound]
    before_cut = np.sort(survivors) if request.one_provider_per_tree else None
    answered = survivors[: request.limit]
    if size_limit:
        answered = answered[: size_limit.fitting_alike(pattern.shape, len(answered))]
    return SearchResult(tally, answered, pattern, before_cut=before_cut)
