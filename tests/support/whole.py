"""What each answer says of all providers and consumers of a history together.

A request is one operation on everything that it names: nobody sees a half of it, and what it promises of
capacity and groups holds of all. So the whole is one object too, whose operations are those of the single
ones (``registers.py``) with rules between them. A hold that ends is an operation that nobody sent.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.checker import Effect
from tests.support.registers import Consumer, Provider

Cloud = Mapping[str, Any]
"""Providers and consumers by uuid, None where there is none."""

Effects = Mapping[str, Effect]
"""By uuid of the provider or consumer."""

Rule = Callable[[Cloud, Cloud], bool]
"""Whether an answer fits what all were before it and are after it."""


@dataclass(frozen=True)
class Told:
    """What an answer says: in which ways the request may have gone, and what held in any."""

    ways: Sequence[Effects]
    rules: Sequence[Rule] = ()

    @property
    def says_something(self) -> bool:
        """Whether it excludes anything."""
        return any(self.ways) or bool(self.rules)

    @property
    def each(self) -> Effects:
        """What it says of single objects."""
        names = {name for way in self.ways for name in way}
        return {name: _any_of([way.get(name, _untouched) for way in self.ways]) for name in names}

    @property
    def together(self) -> Effect:
        """What it says of the whole, which is a tuple of pairs."""
        return self._of_all

    def _of_all(self, state: Any) -> Iterator[Any]:
        before = dict(state)
        for way in self.ways:
            for afters in itertools.product(*(way[name](before[name]) for name in way)):
                after = before | dict(zip(way, afters, strict=True))
                if _is_sound(before, after) and all(rule(before, after) for rule in self.rules):
                    yield tuple(after.items())


def start(names: Iterable[str]) -> tuple[tuple[str, None], ...]:
    """Return the whole before anything was there."""
    return tuple((name, None) for name in names)


def _untouched(state: Any) -> Iterable[Any]:
    return [state]


def _any_of(effects: Sequence[Effect]) -> Effect:
    return lambda state: itertools.chain.from_iterable(effect(state) for effect in effects)


# What is in use


def _used(cloud: Cloud) -> Counter[tuple[str, str]]:
    used: Counter[tuple[str, str]] = Counter()
    for state in cloud.values():
        for name, kind, amount in state.held if isinstance(state, Consumer) else ():
            used[name, kind] += amount
    return used


def _total(cloud: Cloud, provider: str, kind: str) -> int | None:
    state = cloud.get(provider)
    return None if state is None else dict(state.stock).get(kind)


def _is_sound(before: Cloud, after: Cloud) -> bool:
    """Nothing is held without inventory, and nothing grows beyond capacity (PROMISE 1)."""
    old = _used(before)
    return all(
        (total := _total(after, *pair)) is not None and amount <= max(total, old[pair])
        for pair, amount in _used(after).items()
    )


def _without_over(cloud: Cloud, at: float) -> dict[str, Any]:
    """Return what counts for a request that was sent then: no hold that is over."""
    return {
        name: None
        if isinstance(state, Consumer) and state.hold is not None and state.hold[1] <= at
        else state
        for name, state in cloud.items()
    }


def _with(cloud: Cloud, held: Mapping[str, frozenset[Any]]) -> dict[str, Any]:
    return {**cloud, **{name: Consumer(1, has) for name, has in held.items()}}


# Rules of writes


def moved(held: Mapping[str, frozenset[Any]], reshaped: str | None = None) -> Rule:
    """Of the providers that are not named, those move of which an emptied consumer had something."""
    named = {reshaped, *(name for has in held.values() for name, _, _ in has)}
    emptied = [name for name, has in held.items() if not has]

    def rule(before: Cloud, after: Cloud) -> bool:
        left = {name for each in emptied if before[each] for name, _, _ in before[each].held}
        return all(
            (before[name] != after[name]) == (name in left)
            for name, state in before.items()
            if isinstance(state, Provider) and name not in named
        )

    return rule


def in_time(consumers: Collection[str], at: float) -> Rule:
    """What was confirmed was not over when that was sent."""
    return lambda before, _: all(
        before[name].hold is not None and at <= before[name].hold[1] for name in consumers
    )


def keeps_apart(_: Cloud, after: Cloud) -> bool:
    """No two members of the group are on one provider."""
    members = [state for state in after.values() if isinstance(state, Consumer) and state.grouped]
    places = [name for state in members for name in {each for each, _, _ in state.held}]
    return len(set(places)) == len(places)


# Rules of refusals, which nothing that is over is an excuse for


def other_generation(sent: Mapping[str, Any], at: float) -> Rule:
    """Some consumer was not of the generation that was sent."""

    def rule(before: Cloud, _: Cloud) -> bool:
        present = _without_over(before, at)
        return any(
            generation != (None if present[name] is None else present[name].generation)
            for name, generation in sent.items()
        )

    return rule


def not_confirmable(sent: Mapping[str, Any], at: float, *, generation: bool) -> Rule:
    """Some consumer was of another generation than the one sent, or else not held."""

    def refused(state: Consumer | None, given: Any) -> bool:
        if generation:
            return state is not None and state.generation != given
        return state is None or state.hold is None or state.hold[0] <= at

    return lambda before, _: any(refused(before[name], given) for name, given in sent.items())


def too_much(held: Mapping[str, frozenset[Any]], at: float) -> Rule:
    """There was no room for this, or no inventory."""

    def rule(before: Cloud, _: Cloud) -> bool:
        present = _without_over(before, at)
        return not _is_sound(present, _with(present, held))

    return rule


def in_use(provider: str, kinds: Collection[str], at: float) -> Rule:
    """Somebody held something of one of these classes."""

    def rule(before: Cloud, _: Cloud) -> bool:
        used = _used(_without_over(before, at))
        return any(used[provider, kind] for kind in kinds)

    return rule


@dataclass(frozen=True)
class Ask:
    """What a claim asks for: all of it of one provider."""

    consumer: str
    amounts: Mapping[str, int]
    grouped: bool = False

    def on(self, provider: str) -> frozenset[tuple[str, str, int]]:
        """Return what the consumer holds if it is placed there."""
        return frozenset((provider, kind, amount) for kind, amount in self.amounts.items())


def no_place(asked: Sequence[Ask], at: float = -math.inf) -> Rule:
    """There was no assignment at all, with all that the consumers held before free.

    :param at: when it was asked for, by when holds that were over are no excuse.
    """

    def rule(before: Cloud, _: Cloud) -> bool:
        free = _without_over(before, at) | {ask.consumer: None for ask in asked}
        providers = [name for name, state in free.items() if isinstance(state, Provider)]
        return not any(
            _is_sound(free, after) and (keeps_apart(free, after) or not any_grouped)
            for places in itertools.product(providers, repeat=len(asked))
            for after in [_placed(free, asked, places)]
        )

    any_grouped = any(ask.grouped for ask in asked)
    return rule


def _placed(cloud: Cloud, asked: Sequence[Ask], places: Sequence[str]) -> dict[str, Any]:
    made = {
        ask.consumer: Consumer(1, ask.on(place), None, ask.grouped)
        for ask, place in zip(asked, places, strict=True)
    }
    return {**cloud, **made}
