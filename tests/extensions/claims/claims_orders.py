"""What requests of specification 09 ask, and what must be so of an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from itertools import product
from typing import Any

from placement.search.request import CandidateRequest
from tests.search.builders import parse

Domains = frozenset[str]


class NotAllowed(AssertionError):
    """The chapter does not allow this answer."""


def require(condition: object, *why: object) -> None:
    """Say what the chapter does not allow.

    :raises NotAllowed:
    """
    if not condition:
        raise NotAllowed(*why)


def milliseconds(moment: str) -> int:
    """Return a time of an answer in milliseconds since the epoch."""
    return round(1000 * datetime.fromisoformat(moment).timestamp())


@cache
def parsed(query: str) -> CandidateRequest:
    """Return the question of a claim's query."""
    return parse(query, (1, 39))


@dataclass(frozen=True)
class Rule:
    """The rule of a group; ``of``: the aggregates that are domains, none where trees are."""

    rule: str
    at_most: int = 1
    of: frozenset[str] = frozenset()

    @classmethod
    def given(cls, body: Mapping[str, Any]) -> Rule:
        """Return the rule that a request gives."""
        return cls(body["rule"], body.get("at_most", 1), frozenset(body.get("of", ())))

    def kept(self, members: Sequence[Domains]) -> bool:
        """Whether members in these domains keep it."""
        counts = Counter(domain for domains in members for domain in domains)
        most = max(counts.values(), default=0)
        return most <= self.at_most if self.rule == "apart" else most == len(members)


@dataclass(frozen=True)
class Claim:
    """What a request claims for one consumer. ``queries``: instead of ``query``, the best liked first."""

    uuid: str
    generation: int | None
    query: str
    groups: tuple[str, ...] = ()
    project: str = "red"
    user: str = "ann"
    type: str = "INSTANCE"
    queries: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """The queries of which it gets one."""
        return self.queries or (self.query,)

    def body(self) -> dict[str, Any]:
        """Return its JSON."""
        return {
            "consumer_uuid": self.uuid,
            "consumer_generation": self.generation,
            "project_id": self.project,
            "user_id": self.user,
            "consumer_type": self.type,
            **({"queries": list(self.queries)} if self.queries else {"query": self.query}),
            "groups": list(self.groups),
        }


@dataclass(frozen=True)
class Order:
    """What one request claims; ``rules`` as it gives them."""

    claims: tuple[Claim, ...]
    strategy: str = "any"
    hold_s: int | None = None
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """Return its JSON."""
        held = {} if self.hold_s is None else {"hold_s": self.hold_s}
        claims = [claim.body() for claim in self.claims]
        return {"strategy": self.strategy, "groups": self.rules, "claims": claims, **held}

    def at(self, positions: Sequence[int]) -> Order:
        """Return the order in which each claim names one of its queries alone."""
        claims = (
            replace(claim, query=claim.options[position], queries=())
            for claim, position in zip(self.claims, positions, strict=True)
        )
        return replace(self, claims=tuple(claims))

    @property
    def positions(self) -> Iterator[tuple[int, ...]]:
        """All positions of queries, first that which is liked best (section 3.1)."""
        return product(*(range(len(claim.options)) for claim in self.claims))

    @property
    def names(self) -> list[str]:
        """The groups that some claim names."""
        return sorted({name for claim in self.claims for name in claim.groups})


def subsets(items: Collection[str]) -> Iterator[frozenset[str]]:
    """Yield all subsets, the smallest first."""
    found = [frozenset[str]()]
    for item in sorted(items):
        found += [each | {item} for each in found]
    yield from sorted(found, key=len)
