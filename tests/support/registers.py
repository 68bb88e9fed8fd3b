"""What each answer says of one provider or one consumer, as effects for the checker.

A provider is None while there is none, else its generation, its inventory as pairs of class and total,
and its traits. A consumer is None, or its generation and what it holds: triples of provider, class and
amount.
"""

from collections.abc import Collection, Hashable, Mapping
from typing import Any

from tests.support.checker import Effect

ANY = object()
"""No generation was sent."""

NEW: Hashable = (0, frozenset(), frozenset())
"""A provider that was just made."""


def _generation(state: Any) -> int | None:
    return None if state is None else state[0]


# Of both


def seen(shown: Hashable) -> Effect:
    """It was shown as this."""
    return lambda state: [state] if state == shown else []


def seen_at(generation: int) -> Effect:
    """It was shown with this generation."""
    return lambda state: [state] if _generation(state) == generation else []


def refused(sent: int | None) -> Effect:
    """The generation that was sent was not the present one."""
    return lambda state: [state] if _generation(state) != sent else []


def absent() -> Effect:
    """It was not there."""
    return seen(None)


def present() -> Effect:
    """It was there and stayed."""
    return lambda state: [] if state is None else [state]


def removed() -> Effect:
    """It was there and is gone."""
    return lambda state: [] if state is None else [None]


# Of consumers


def wrote(sent: Any, held: frozenset[Any]) -> Effect:
    """Its allocations were replaced; ``sent``: the generation, None for a new consumer, or ``ANY``."""

    def effect(state: Any) -> list[Any]:
        if sent is not ANY and _generation(state) != sent:
            return []
        after = generation_after(_generation(state), held)
        return [None if after is None else (after, held)]

    return effect


def generation_after(generation: int | None, held: Collection[Any]) -> int | None:
    """Return the generation of a consumer after a write; None: there is none."""
    return (generation or 0) + 1 if held else None


def triples(held: Mapping[str, Mapping[str, int]]) -> frozenset[tuple[str, str, int]]:
    """Return what a consumer holds as triples of provider, class and amount."""
    return frozenset(
        (name, kind, amount) for name, amounts in held.items() for kind, amount in amounts.items()
    )


# Of providers


def created() -> Effect:
    """It was made."""
    return lambda state: [NEW] if state is None else []


def shown(generation: int, stock: frozenset[Any]) -> Effect:
    """Its inventory was shown."""
    return lambda state: [state] if state is not None and state[:2] == (generation, stock) else []


def stepped(*steps: int) -> Effect:
    """A request that concerns it moved its generation by one of these numbers of steps."""

    def effect(state: Any) -> list[Any]:
        return [] if state is None else [(state[0] + step, *state[1:]) for step in steps]

    return effect


def characterised(sent: int, traits: frozenset[str], answered: int | None) -> Effect:
    """Its traits were replaced; the same ones again are no step (specification 02 section 13, 4)."""

    def effect(state: Any) -> list[Any]:
        if state is None or state[0] != sent:
            return []
        after = sent + (traits != state[2])
        return [(after, state[1], traits)] if answered in (None, after) else []

    return effect


def aggregated(sent: int, answered: int | None) -> Effect:
    """Its aggregates were replaced, which is a step always."""

    def effect(state: Any) -> list[Any]:
        if state is None or state[0] != sent or answered not in (None, sent + 1):
            return []
        return [(sent + 1, *state[1:])]

    return effect


def stocked(
    sent: int, stock: frozenset[Any], answered: int | None, steps: tuple[int, ...] = (1,)
) -> Effect:
    """All its inventories were replaced, by a PUT or as a part of a reshape."""

    def effect(state: Any) -> list[Any]:
        if state is None or state[0] != sent or answered not in (None, sent + 1):
            return []
        return [(sent + step, stock, state[2]) for step in steps]

    return effect


def added(name: str, total: int, answered: int | None) -> Effect:
    """It got a record of a class that it had none of."""

    def effect(state: Any) -> list[Any]:
        if state is None or name in dict(state[1]) or answered not in (None, state[0] + 1):
            return []
        return [(state[0] + 1, state[1] | {(name, total)}, state[2])]

    return effect


def had(name: str) -> Effect:
    """There was a record of the class."""
    return lambda state: [state] if state is not None and name in dict(state[1]) else []


def lacked(name: str) -> Effect:
    """There was no record of the class, or no provider."""
    return lambda state: [state] if state is None or name not in dict(state[1]) else []


def lost(name: str) -> Effect:
    """Its record of a class was deleted."""

    def effect(state: Any) -> list[Any]:
        if state is None or name not in dict(state[1]):
            return []
        left = frozenset(each for each in state[1] if each[0] != name)
        return [(state[0] + 1, left, state[2])]

    return effect


def emptied() -> Effect:
    """All its records were deleted, or there were none, which is a step too."""
    return lambda state: [] if state is None else [(state[0] + 1, frozenset(), state[2])]
