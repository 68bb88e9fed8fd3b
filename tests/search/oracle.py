"""Brute force straight from specification 04 sections 5.1 to 5.7: enumerate, check, collect.

A world is a dict of ``ProviderRecord`` by id. Nothing here is shared with the engine but the shapes
of question and provider.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations, product

from placement.search.records import ProviderRecord
from placement.search.request import CandidateRequest, Group

World = dict[int, ProviderRecord]
Candidate = tuple[frozenset[tuple[int, str, int]], frozenset[tuple[str, frozenset[int]]]]
"""Allocations (provider, class, amount) and mappings."""

SHARES = "MISC_SHARES_VIA_AGGREGATE"


class Oracle:
    """The definitions over one world, named as there."""

    def __init__(self, records: Iterable[ProviderRecord]) -> None:
        self.world: World = {r.provider_id: r for r in records}

    # 5.1
    def ancestors(self, p: int) -> list[int]:
        """anc(p): p, its parent, and so on up to its root."""
        line, above = [], self.world[p].parent_id
        line.append(p)
        while above is not None:
            line.append(above)
            above = self.world[above].parent_id
        return line

    def root(self, p: int) -> int:
        """root(p)"""
        return self.ancestors(p)[-1]

    def fits(self, p: int, name: str, n: int) -> bool:
        """fits(p, c, n)"""
        inv = self.world[p].inventories.get(name)
        if inv is None:
            return False
        terms = inv.record
        cap = (terms.total - terms.reserved) * terms.allocation_ratio
        in_units = terms.min_unit <= n <= terms.max_unit and n % terms.step_size == 0
        return inv.used + n <= cap and in_units

    def holds(self, p: int, name: str, n: int) -> bool:
        """holds(p, c, n)"""
        inv = self.world[p].inventories[name]
        terms = inv.record
        icap = int((terms.total - terms.reserved) * terms.allocation_ratio)
        return inv.used + n <= icap and n <= terms.max_unit

    # 5.2
    def anchors(self, p: int) -> set[int]:
        """The roots from which p is reached."""
        found = {self.root(p)}
        if SHARES in self.world[p].traits:
            mine = self.world[p].aggregates
            found |= {self.root(q) for q, r in self.world.items() if r.aggregates & mine}
        return found

    def reach(self, a: int) -> list[int]:
        """reach(a)"""
        return [p for p in self.world if a in self.anchors(p)]

    def tree_of(self, uuid: str) -> int | None:
        """The root of the provider of this uuid."""
        for p, record in self.world.items():
            if record.uuid == uuid:
                return self.root(p)
        return None

    # 5.4
    def choices(self, g: Group, a: int) -> list[int]:
        """E(g, a) of a suffixed group."""
        if not g.amounts and not g.required and not g.member_of:
            return []
        found = []
        for p in self.reach(a):
            r = self.world[p]
            if not all(self.fits(p, c, n) for c, n in g.amounts.items()):
                continue
            if not meets(r.traits, g.required) or g.forbidden & r.traits:
                continue
            if not meets(r.aggregates, g.member_of) or g.forbidden_aggregates & r.aggregates:
                continue
            if g.amounts and g.in_tree is not None and self.root(p) != self.tree_of(g.in_tree):
                continue
            found.append(p)
        return found

    # 5.5
    def functions(self, g: Group, a: int) -> Iterator[dict[str, int]]:
        """F(a): each serving provider by class."""
        at_anchor = self.world[a].aggregates
        options: list[list[int]] = []
        for c, n in g.amounts.items():
            options.append([])
            for p in self.reach(a):
                own = self.world[p].aggregates
                local = self.root(p) == a
                if not self.fits(p, c, n):
                    continue
                if g.in_tree is not None and not (local and self.tree_of(g.in_tree) == a):
                    continue
                if not (meets(own, g.member_of) or (local and meets(at_anchor, g.member_of))):
                    continue
                if g.forbidden_aggregates & own or g.forbidden_aggregates & at_anchor:
                    continue
                options[-1].append(p)
        for f in product(*options):
            traits = frozenset().union(*(self.world[p].traits for p in f))
            if meets(traits, g.required) and not g.forbidden & traits:
                yield dict(zip(g.amounts, f, strict=True))

    # 5.6
    def same_subtree(self, chosen: Collection[int]) -> bool:
        """One of them is above all others."""
        return any(all(q in self.ancestors(p) for p in chosen) for q in chosen)

    def combinations(self, request: CandidateRequest, a: int) -> Iterator[Candidate]:
        """All that rules 1 to 5 let pass at this anchor."""
        groups = [g for g in request.groups if g.suffix]
        unsuffixed = next((g for g in request.groups if not g.suffix), None)
        functions = list(self.functions(unsuffixed, a)) if unsuffixed else [{}]
        amounts = unsuffixed.amounts if unsuffixed else {}
        for picks in product(*(self.choices(g, a) for g in groups)):
            serves = dict(zip((g.suffix for g in groups), picks, strict=True))
            if request.isolate and any(p == q for p, q in combinations(picks, 2)):
                continue
            if not all(self.same_subtree({serves[s] for s in x}) for x in request.same_subtrees):
                continue
            for f in functions:
                sums: dict[tuple[int, str], int] = {}
                for g in groups:
                    for c, n in g.amounts.items():
                        sums[serves[g.suffix], c] = sums.get((serves[g.suffix], c), 0) + n
                for c, p in f.items():
                    sums[p, c] = sums.get((p, c), 0) + amounts[c]
                if all(self.holds(p, c, n) for (p, c), n in sums.items()):
                    mappings = {s: frozenset([p]) for s, p in serves.items()}
                    if unsuffixed:
                        mappings[""] = frozenset(f.values())
                    yield frozenset((p, c, n) for (p, c), n in sums.items()), freeze(mappings)

    # 5.3, 5.7
    def candidates(self, request: CandidateRequest) -> set[Candidate]:
        """Return the set of (allocations, mappings), both frozen, of provider ids."""
        return set(self.anchored(request))

    def anchored(self, request: CandidateRequest) -> dict[Candidate, set[int]]:
        """Return the candidates with the roots at which each is found."""
        named = [g.in_tree for g in request.groups if g.in_tree is not None]
        if any(self.tree_of(uuid) is None for uuid in named):
            return {}
        found: dict[Candidate, set[int]] = {}
        for a, record in self.world.items():
            if record.parent_id is not None or not request.root_required <= record.traits:
                continue
            if not request.root_forbidden & record.traits:
                for candidate in self.combinations(request, a):
                    found.setdefault(candidate, set()).add(a)
        if request.one_provider_per_tree:
            found = {c: roots for c, roots in found.items() if self.spread(c)}
        return found

    def spread(self, candidate: Candidate) -> bool:
        """No two providers of its allocations are of one tree."""
        providers = {p for p, _, _ in candidate[0]}
        return len({self.root(p) for p in providers}) == len(providers)

    # 4.3
    def summarised(
        self,
        candidates: Iterable[Candidate],
        before_cut: Iterable[Candidate],
        whole_trees: bool,
    ) -> set[int]:
        """Return the ids of the providers that the summaries of ``candidates`` show."""
        trees = {self.root(p) for allocations, _ in candidates for p, _, _ in allocations}
        if whole_trees:
            return {p for p in self.world if self.root(p) in trees}
        used = {p for allocations, _ in before_cut for p, _, _ in allocations}
        return {p for p in used if self.root(p) in trees}


def meets(have: frozenset[str], demands: Iterable[frozenset[str]]) -> bool:
    """meets(X, D): each set of D has a member in X."""
    return all(d & have for d in demands)


def freeze(
    mappings: Mapping[str, frozenset[int]],
) -> frozenset[tuple[str, frozenset[int]]]:
    """Return the mappings as something that a set can hold."""
    return frozenset(mappings.items())
