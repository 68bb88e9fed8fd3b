"""All ways to give each claim a candidate, by brute force, and the order of the strategies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tests.extensions.claims.claims_orders import NotAllowed, Order, Rule, parsed, require
from tests.search.oracle import SHARES, Candidate

if TYPE_CHECKING:
    from tests.extensions.claims.claims_model import Claims

MOST_ORDERED = 3
"""Of so many claims it is checked whether their places are in the order of the strategy."""

ROUNDED = 1e-9


class Search:
    """All ways to give each claim a candidate.

    ``ways``: how many places were tried; ``found``: what fits.
    """

    def __init__(self, state: Claims, order: Order) -> None:
        self.state, self.order = state, order
        self.claimed = {claim.uuid for claim in order.claims}
        self.oracle = state.oracle(self.claimed)
        self.numbers = state.ids()
        self.uuids = {number: uuid for uuid, number in self.numbers.items()}
        found = {claim.query: self.oracle.anchored(parsed(claim.query)) for claim in order.claims}
        self.candidates = [found[claim.query] for claim in order.claims]
        self.rules = {
            name: state.groups[name].rule if name in state.groups else Rule.given(order.rules[name])
            for name in order.names
        }
        self.before = {
            name: list(state.member_domains(name, self.claimed).values())
            if name in state.groups
            else []
            for name in order.names
        }
        self.ways = 0
        self.found: list[Candidate] | None = None

    def choice(self, number: int, told: Mapping[str, Any]) -> Candidate:
        """Return the candidate that an answer tells."""
        numbers = self.numbers
        try:
            allocations = frozenset(
                (numbers[uuid], name, amount)
                for uuid, held in told["allocations"].items()
                for name, amount in held["resources"].items()
            )
            mappings = frozenset(
                (suffix, frozenset(numbers[uuid] for uuid in uuids))
                for suffix, uuids in told["mappings"].items()
            )
        except KeyError as unknown:
            raise NotAllowed("a provider that does not exist", unknown) from None
        chosen = allocations, mappings
        require(chosen in self.candidates[number], "a candidate of", self.order.claims[number])
        root = numbers[told["root_provider_uuid"]]
        require(root in self.candidates[number][chosen], "found at this root")
        return chosen

    def fit(self, choices: Sequence[Candidate]) -> bool:
        """Whether there is room for all of them."""
        wanted = Counter[tuple[int, str]]()
        for allocations, _ in choices:
            for provider, name, amount in allocations:
                wanted[provider, name] += amount
        inventories = {key: self.oracle.world[key[0]].inventories[key[1]] for key in wanted}
        return all(
            inventories[key].used + amount <= int(inventories[key].record.capacity)
            for key, amount in wanted.items()
        )

    def keep(self, placed: Mapping[int, Candidate]) -> bool:
        """Whether the rules of all groups are kept with these claims at these places."""
        for name, rule in self.rules.items():
            members = [
                self.state.domains(rule, {self.uuids[provider] for provider, *_ in allocations})
                for number, (allocations, _) in placed.items()
                if name in self.order.claims[number].groups
            ]
            if not rule.kept([*self.before[name], *members]):
                return False
        return True

    def assignment(self) -> list[Candidate] | None:
        """Return places for all claims; None if there are none."""
        if self.keep({}):
            self.found = self._after([])
        return self.found

    def _after(self, chosen: list[Candidate]) -> list[Candidate] | None:
        if len(chosen) == len(self.candidates):
            return chosen
        for candidate in self.candidates[len(chosen)]:
            self.ways += 1
            more = [*chosen, candidate]
            if self.fit(more) and self.keep(dict(enumerate(more))) and (found := self._after(more)):
                return found
        return None

    # The strategies

    def require_order(self, roots: Sequence[str], choices: Sequence[Candidate]) -> None:
        """Sections 2 and 3.1: one after another goes to the first tree, unless some order of them fails."""
        shared = any(SHARES in record.traits for record in self.oracle.world.values())
        if len(choices) > MOST_ORDERED or (shared and self.rules):
            return
        told = [self.numbers[root] for root in roots]
        reached = self._in_order(told, choices, {})
        require(reached or self._may_fail({}), self.order.strategy, told, choices)

    def _in_order(
        self, roots: Sequence[int], choices: Sequence[Candidate], placed: dict[int, Candidate]
    ) -> bool:
        """Whether the claims that are left can be placed so, one after another."""
        if len(placed) == len(choices):
            return True
        return any(
            self._key(number, roots[number], placed) <= self._best(number, placed) + ROUNDED
            and self._in_order(roots, choices, placed | {number: choices[number]})
            for number in range(len(choices))
            if number not in placed
        )

    def _may_fail(self, placed: dict[int, Candidate]) -> bool:
        """Whether placing one after another in some order finds no place for one."""
        for number in range(len(self.candidates)):
            if number in placed:
                continue
            possible = self._possible(number, placed)
            best = self._best(number, placed)
            if not possible or any(
                self._may_fail(placed | {number: candidate})
                for candidate, roots in possible.items()
                if min(self._key(number, root, placed) for root in roots) <= best + ROUNDED
            ):
                return True
        return False

    def _possible(self, number: int, placed: Mapping[int, Candidate]) -> dict[Candidate, set[int]]:
        """Return the candidates of a claim that fit beside what is placed, with their roots."""
        return {
            candidate: roots
            for candidate, roots in self.candidates[number].items()
            if self.fit([*placed.values(), candidate]) and self.keep({**placed, number: candidate})
        }

    def _best(self, number: int, placed: Mapping[int, Candidate]) -> float:
        """Return what the first tree is ordered by. Of what is found at several roots the last one counts."""
        keys = [
            max(self._key(number, root, placed) for root in roots)
            for roots in self._possible(number, placed).values()
        ]
        return min(keys, default=math.inf)

    def _key(self, number: int, root: int, placed: Mapping[int, Candidate]) -> float:
        """Return the used part of the fullest class of a tree that the claim asks for; negative to pack."""
        taken = Counter[tuple[int, str]]()
        for allocations, _ in placed.values():
            for provider, name, amount in allocations:
                taken[provider, name] += amount
        parts = [0.0]
        for name in parsed(self.order.claims[number].query).names.classes:
            stocks = [
                (record.inventories[name], taken[provider, name])
                for provider, record in self.oracle.world.items()
                if self.oracle.root(provider) == root and name in record.inventories
            ]
            capacity = sum(int(stock.record.capacity) for stock, _ in stocks)
            if capacity > 0:
                parts.append(sum(stock.used + more for stock, more in stocks) / capacity)
        return -max(parts) if self.order.strategy == "pack" else max(parts)
