"""Could one order of the operations, each at some moment while it ran, explain every answer?

The algorithm is Wing and Gong's ("Testing and Verifying Concurrent Objects", 1993) with Lowe's memory of
the configurations that were tried ("Testing for linearizability", 2017), applied to each object by itself
(Horn and Kroening, "Faster linearizability checking via P-compositionality", 2015), as in Knossos and
Porcupine: depth first, next is any operation that began before every pending one of the others had ended.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

Effect = Callable[[Hashable], Iterable[Hashable]]
"""What the object may be afterwards; nothing where the answer does not fit what it was."""

CONFIGURATIONS = 2_000_000
"""When to give up: histories with so many have too many operations of unknown outcome."""


@dataclass(frozen=True)
class Operation:
    """One operation on one object.

    ``called``, ``returned``: by one clock. ``returned`` is infinite where no answer came: the operation may
    have taken effect at any time since, or never.
    """

    called: float
    returned: float
    effect: Effect
    text: str


class NotLinearizable(AssertionError):
    """No order of the operations explains the answers."""


class Undecided(Exception):
    """There are too many orders to try."""


def check(operations: Iterable[Operation], initial: Hashable) -> int:
    """Check the history of one object, which began as ``initial``; return how many configurations.

    :raises NotLinearizable: it names what stands where every order ends.
    :raises Undecided: after ``CONFIGURATIONS``.
    """
    ordered = sorted(operations, key=lambda each: each.called)
    history = [each for each in ordered if each.returned != math.inf]
    # Apart from the others, which are looked through from the first that is not done: these may never be.
    lost = [each for each in ordered if each.returned == math.inf]
    # (operations before ``base`` are all done, those done from there on as bits, those that were lost and
    # took place as bits, what the object is)
    start = (0, 0, 0, initial)
    tried = {start}
    open_ = [start]
    furthest = start
    while open_:
        base, done, happened, state = here = open_.pop()
        if base == len(history):
            return len(tried)
        furthest = max(furthest, here, key=lambda each: (each[0], each[1].bit_count()))
        places = _next(history, base, done)
        horizon = min(history[place].returned for place in places)
        # The first to return goes last onto the stack, and is tried first; what is lost is tried last.
        following = [
            (base, done, happened | 1 << place, after)
            for place, each in enumerate(lost)
            if each.called <= horizon and not happened >> place & 1
            for after in each.effect(state)
        ]
        following += [
            (*_advanced(base, done | 1 << (place - base)), happened, after)
            for place in sorted(places, key=lambda i: -history[i].returned)
            for after in history[place].effect(state)
        ]
        open_ += [each for each in following if each not in tried]
        tried.update(following)
        if len(tried) > CONFIGURATIONS:
            raise Undecided(f"{len(tried)} configurations of {len(ordered)} operations")
    raise NotLinearizable(_described(history, lost, *furthest))


def _next(history: Sequence[Operation], base: int, done: int) -> list[int]:
    """Return the operations that began before any other that is not done had returned."""
    found, horizon = [], math.inf
    for place in range(base, len(history)):
        if history[place].called > horizon:
            break
        if not done >> (place - base) & 1:
            found.append(place)
            horizon = min(horizon, history[place].returned)
    return [place for place in found if history[place].called <= horizon]


def _advanced(base: int, done: int) -> tuple[int, int]:
    """Move the base past everything that is done."""
    finished = (~done & (done + 1)).bit_length() - 1
    return base + finished, done >> finished


def _described(
    history: Sequence[Operation],
    lost: Sequence[Operation],
    base: int,
    done: int,
    happened: int,
    state: Hashable,
) -> str:
    count = base + done.bit_count() + happened.bit_count()
    lines = [f"after {count} of {len(history) + len(lost)} operations it is {state!r}; next:"]
    lines += [f"  {history[i].text}" for i in _next(history, base, done)]
    lines += ["before that:", *(f"  {each.text}" for each in history[max(0, base - 8) : base])]
    return "\n".join(lines)
