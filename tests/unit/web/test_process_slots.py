"""Numbers for the processes of a server, by which they share files (specification 07 section 6)."""

import os
from collections.abc import Callable
from pathlib import Path

from placement.web.process_slots import ProcessSlots


def in_child(work: Callable[[], int]) -> int:
    """Return the small number that a forked child of this process comes to."""
    child = os.fork()
    if child == 0:
        os._exit(work())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_living_processes_have_different_numbers(tmp_path: Path) -> None:
    """A forked child does not share its parent's; the next child takes that of the dead one."""
    taken: list[int] = []
    slots = ProcessSlots(tmp_path / "made", taken.append)

    assert slots.mine() == slots.mine() == 0
    assert in_child(slots.mine) == 1
    assert in_child(slots.mine) == 1
    assert slots.mine() == 0
    assert taken == [0]


def test_numbers_of_the_dead_are_known(tmp_path: Path) -> None:
    """However they ended; looking gives no living process's number away, the own one included."""
    slots = ProcessSlots(tmp_path, lambda number: None)
    slots.mine()
    assert slots.abandoned() == []

    in_child(slots.mine)

    assert slots.abandoned() == [1]
    assert in_child(slots.mine) == 1, "0 is still taken"
