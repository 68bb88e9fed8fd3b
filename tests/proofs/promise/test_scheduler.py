"""What the scheduler leaves out is what another of its runs plays."""

import itertools
from collections.abc import Iterator, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.proofs.promise.scheduler import (
    Choice,
    Choose,
    Effect,
    Player,
    Run,
    Turn,
    interleavings,
    is_played_otherwise,
    touch,
)
from tests.support.effort import examples

EFFECTS: tuple[Effect, ...] = ("reads", "writes", "commits")
Parts = Sequence[Sequence[Effect]]
"""What the messages of each player do; none waits for a lock."""


def schedules(parts: Parts, switches: int) -> Iterator[list[int]]:
    """Yield every order in which players go on, with at most so many switches from one that could go on."""
    every = [number for number, part in enumerate(parts) for _ in part]
    for order in sorted(set(itertools.permutations(every))):
        made = sum(
            one != other and one in order[place:]
            for place, (one, other) in enumerate(itertools.pairwise(order), start=1)
        )
        if made <= switches:
            yield list(order)


def meaning(parts: Parts, order: Sequence[int]) -> frozenset[tuple[int, int, int, int]]:
    """Return the pairs of messages whose order matters, the earlier one first."""
    told = []
    for place, player in enumerate(order):
        told.append((player, order[:place].count(player)))
    return frozenset(
        (*one, *other)
        for one, other in itertools.combinations(told, 2)
        if one[0] != other[0] and touch(parts[one[0]][one[1]], parts[other[0]][other[1]])
    )


def played(parts: Parts, choose: Choose, first: int) -> Run:
    """Play without a database, as the conductor does with one."""
    players = [Player(number, None, None) for number in range(len(parts))]  # type: ignore[arg-type]
    turns: list[Turn] = []
    choices: list[Choice] = []
    current = players[first]
    left = [list(part) for part in parts]
    while able := [player for player in players if left[player.number]]:
        switch = current in able
        current = choose(able, current if switch else able[0], len(turns))
        others = tuple(
            each.number
            for each in able
            if each is not current
            and not is_played_otherwise(turns, each.number, left[each.number][0])
        )
        if others and turns:
            choices.append(Choice(len(turns), others, switch))
        effect = left[current.number].pop(0)
        turns.append(Turn(current.number, effect, able=bool(left[current.number])))
    return Run("".join("ABC"[turn.player] for turn in turns), choices, ())


@settings(max_examples=examples(300), deadline=None, database=None)
@given(
    parts=st.lists(st.lists(st.sampled_from(EFFECTS), min_size=1, max_size=4), min_size=2, max_size=2)
    | st.lists(st.lists(st.sampled_from(EFFECTS), min_size=1, max_size=2), min_size=3, max_size=3),
    switches=st.integers(0, 3),
)
def test_nothing_is_left_out_that_no_other_run_plays(parts: Parts, switches: int) -> None:
    """Every order of the messages that touch one another is that of some run; and fewer runs are played."""
    orders = [
        ["ABC".index(letter) for letter in run.schedule]
        for run in interleavings(
            lambda choose, first: played(parts, choose, first), switches, len(parts)
        )
    ]

    every = list(schedules(parts, switches))
    assert {meaning(parts, order) for order in orders} == {meaning(parts, order) for order in every}
    assert len(orders) <= len(every)
