"""What each answer says of one provider or one consumer, as effects for the checker.

A provider or a consumer is None while there is none. ``tests/support/whole.py`` judges all of them together.
"""

from collections.abc import Collection, Hashable, Mapping
from typing import Any, NamedTuple

from tests.support.checker import Effect

ANY = object()
"""No generation was sent."""

Hold = tuple[float, float]
"""When a hold ends, by the clock of operations: not before the one, and it is over at the other."""


class Provider(NamedTuple):
    """A provider. ``stock``: pairs of class and total."""

    generation: int
    stock: frozenset[tuple[str, int]] = frozenset()
    traits: frozenset[str] = frozenset()


class Consumer(NamedTuple):
    """A consumer. ``held``: triples of provider, class and amount; ``grouped``: it is in the group."""

    generation: int
    held: frozenset[tuple[str, str, int]]
    hold: Hold | None = None
    grouped: bool = False


NEW = Provider(0)
"""A provider that was just made."""


def _generation(state: Any) -> int | None:
    return None if state is None else state[0]


# Of both


def seen(shown: Hashable) -> Effect:
    """It was shown as this: nothing, or its generation and what it has."""
    return lambda state: [state] if (state and state[:2]) == shown else []


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
        return [_consumer(state, held, None, state is not None and state.grouped)]

    return effect


def _consumer(
    state: Any, held: frozenset[Any], hold: Hold | None, grouped: bool
) -> Consumer | None:
    after = generation_after(_generation(state), held)
    return None if after is None else Consumer(after, held, hold, grouped)


def claimed(
    sent: int | None, held: frozenset[Any], hold: Hold | None = None, grouped: bool = False
) -> Effect:
    """The service chose this for it."""
    return lambda state: (
        [_consumer(state, held, hold, grouped)] if _generation(state) == sent else []
    )


def confirmed(sent: Any, answered: int | None) -> Effect:
    """Its hold was ended, and what it holds stays; ``sent``: the generation, or ``ANY``."""

    def effect(state: Any) -> list[Any]:
        if state is None or state.hold is None or sent not in (ANY, state.generation):
            return []
        after = state._replace(generation=state.generation + 1, hold=None)
        return [after] if answered in (None, after.generation) else []

    return effect


def ended(hold: Hold) -> Effect:
    """Its hold was over, and somebody needed the room."""
    return lambda state: [None] if state is not None and state.hold == hold else []


def shown_held(generation: int | None) -> Effect:
    """It was shown among those that are held, with this generation; None: it was not."""

    def effect(state: Any) -> list[Any]:
        held = None if state is None or state.hold is None else state.generation
        return [state] if held == generation else []

    return effect


def shown_grouped(generation: int | None) -> Effect:
    """It was shown as a member of the group, with this generation; None: it was not."""

    def effect(state: Any) -> list[Any]:
        member = state.generation if state is not None and state.grouped else None
        return [state] if member == generation else []

    return effect


def shown_on(provider: str, generation: int | None, amounts: Mapping[str, int]) -> Effect:
    """The provider was shown with what it has of it; None: with nothing."""
    shown = (generation, frozenset(amounts.items()))

    def effect(state: Any) -> list[Any]:
        held = () if state is None else state.held
        there = frozenset((kind, amount) for name, kind, amount in held if name == provider)
        return [state] if (state.generation if there else None, there) == shown else []

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


def _stepped(state: Provider, steps: int = 1, **changed: Any) -> Provider:
    return state._replace(generation=state.generation + steps, **changed)


def created() -> Effect:
    """It was made."""
    return lambda state: [NEW] if state is None else []


def shown(generation: int, stock: frozenset[Any]) -> Effect:
    """Its inventory was shown."""
    return lambda state: [state] if state is not None and state[:2] == (generation, stock) else []


def stepped(*steps: int) -> Effect:
    """A request that concerns it moved its generation by one of these numbers of steps."""

    def effect(state: Any) -> list[Any]:
        return [] if state is None else [_stepped(state, step) for step in steps]

    return effect


def characterised(sent: int, traits: frozenset[str], answered: int | None) -> Effect:
    """Its traits were replaced; the same ones again are no step (specification 02 section 13, 4)."""

    def effect(state: Any) -> list[Any]:
        if state is None or state[0] != sent:
            return []
        after = sent + (traits != state[2])
        return [_stepped(state, after - sent, traits=traits)] if answered in (None, after) else []

    return effect


def aggregated(sent: int, answered: int | None) -> Effect:
    """Its aggregates were replaced, which is a step always."""

    def effect(state: Any) -> list[Any]:
        if state is None or state[0] != sent or answered not in (None, sent + 1):
            return []
        return [_stepped(state)]

    return effect


def stocked(
    sent: int, stock: frozenset[Any], answered: int | None, steps: tuple[int, ...] = (1,)
) -> Effect:
    """All its inventories were replaced, by a PUT or as a part of a reshape."""

    def effect(state: Any) -> list[Any]:
        if state is None or state[0] != sent or answered not in (None, sent + 1):
            return []
        return [_stepped(state, step, stock=stock) for step in steps]

    return effect


def added(name: str, total: int, answered: int | None) -> Effect:
    """It got a record of a class that it had none of."""

    def effect(state: Any) -> list[Any]:
        if state is None or name in dict(state[1]) or answered not in (None, state[0] + 1):
            return []
        return [_stepped(state, stock=state.stock | {(name, total)})]

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
        return [_stepped(state, stock=frozenset(each for each in state.stock if each[0] != name))]

    return effect


def emptied() -> Effect:
    """All its records were deleted, or there were none, which is a step too."""
    return lambda state: [] if state is None else [_stepped(state, stock=frozenset())]
