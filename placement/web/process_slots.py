"""A small number for each living process of a server, for files that outlive the process."""

import fcntl
import itertools
import os
from collections.abc import Callable
from pathlib import Path


class ProcessSlots:
    """Numbers from 0 in one directory; two living processes never have the same.

    A number is a lock on a file, which the kernel gives back when the process ends, however it ends. So
    whoever comes next continues the files of a dead process: there are never more than processes at once,
    counters never fall, and nobody has to guess from a process id whether its owner still lives.

    :param taken: told each number that this process takes.
    """

    def __init__(self, directory: Path, taken: Callable[[int], object]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._taken = taken
        self._number = -1
        self._owner = -1

    def mine(self) -> int:
        """Return the number of this process; after a fork the child takes one of its own."""
        # Asked, since uWSGI forks without telling Python.
        if self._owner != os.getpid():
            self._number = self._take()
            self._owner = os.getpid()
        return self._number

    def abandoned(self) -> list[int]:
        """Return the numbers that nobody has at the moment."""
        return [
            number
            for number in map(int, (path.stem for path in self._directory.glob("*.lock")))
            # Closing the own file would give the own lock back.
            if number != self.mine() and not self._is_locked(number)
        ]

    def _take(self) -> int:
        for number in itertools.count():
            file = self._locked(number)
            if file is not None:
                # Never closed: the lock lasts for as long as the process does.
                self._taken(number)
                return number
        raise AssertionError("numbers never end")

    def _is_locked(self, number: int) -> bool:
        file = self._locked(number)
        if file is not None:
            os.close(file)
        return file is None

    def _locked(self, number: int) -> int | None:
        """Lock the number without waiting; return its open file, None if somebody else has it.

        A lock of fcntl: a forked child does not inherit it.
        """
        file = os.open(
            self._directory / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return None
        return file
