"""Numbers that the processes of a server add up in files: what prometheus-client calls multiprocess mode.

The files are the library's, and it sums them up. Its own classes make fourteen calls to observe something
once, and ask twice whether the process was forked; a third of what metrics cost a small request. Here it is
one call, and who counts asks once for each request.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from prometheus_client.mmap_dict import MmapedDict, mmap_key

from placement.web.process_slots import ProcessSlots

DOUBLE = 8
"""Bytes of a number; next to it is a second one, its time, which only gauges have."""


class SharedValue:
    """A number in a file of this process. Its names are those that the library calls."""

    __slots__ = ("at", "file", "key", "lock", "numbers")

    def __init__(self, lock: threading.Lock, file: str, key: str) -> None:
        self.lock = lock
        self.file = file
        self.key = key

    def place(self, numbers: "memoryview[float]", at: int) -> None:
        """Say where the number and its time are."""
        self.numbers = numbers
        self.at = at

    def inc(self, amount: float) -> None:
        """Add to the number."""
        with self.lock:
            self.numbers[self.at] += amount

    def set(self, value: float, timestamp: float | None = None) -> None:
        """Make it this number, at this time in seconds since 1970."""
        with self.lock:
            self.numbers[self.at] = value
            self.numbers[self.at + 1] = timestamp or 0.0

    def get(self) -> float:
        """Return the number."""
        return self.numbers[self.at]

    def get_exemplar(self) -> None:
        """There are none."""


class SharedHistogram:
    """One of the library's histograms, with the values of its labels."""

    __slots__ = ("_bounds", "_buckets", "_lock", "_sum")

    def __init__(self, histogram: Any) -> None:
        self._sum: SharedValue = histogram._sum
        self._buckets: list[SharedValue] = histogram._buckets
        self._bounds: list[float] = histogram._upper_bounds
        self._lock = self._sum.lock

    def observe(self, amount: float) -> None:
        """Add to the sum, and one to the bucket."""
        total, bucket = self._sum, self._buckets[bisect_left(self._bounds, amount)]
        with self._lock:
            total.numbers[total.at] += amount
            bucket.numbers[bucket.at] += 1


class SharedValues:
    """The numbers of this process in ``directory``.

    :param taken: told each number that this process takes there, before it opens files.
    """

    def __init__(self, directory: Path, taken: Callable[[int], object]) -> None:
        self.slots = ProcessSlots(directory, taken)
        self._directory = directory
        self._lock = threading.Lock()
        self._files: dict[str, MmapedDict] = {}
        self._values: list[SharedValue] = []

    def make(
        self,
        kind: str,
        metric: str,
        name: str,
        labels: Sequence[str],
        label_values: Sequence[str],
        text: str,
        multiprocess_mode: str = "",
        **_: Any,
    ) -> SharedValue:
        """Return a number, at what it was if a process that is no more left it; the library calls it."""
        file = f"{kind}_{multiprocess_mode}" if kind == "gauge" else kind
        key = mmap_key(metric, name, list(labels), list(label_values), text)
        value = SharedValue(self._lock, file, key)
        with self._lock:
            self._place(value)
            self._values.append(value)
        return value

    def reopen(self) -> None:
        """Move to files of this process, which is a child of the one that opened those it has.

        Servers fork before they serve, and uWSGI does not tell Python.
        """
        with self._lock:
            self.close()
            for value in self._values:
                self._place(value)

    def close(self) -> None:
        """Close the files of this process; numbers that were made there stay what they are."""
        for file in self._files.values():
            # The library would end the mapping as well, where numbers still are.
            file._f.close()
        self._files = {}

    def _place(self, value: SharedValue) -> None:
        file = self._files.get(value.file)
        if file is None:
            name = f"{value.file}_{self.slots.mine()}.db"
            file = self._files[value.file] = MmapedDict(str(self._directory / name))
        file.read_value(value.key)
        # Aligned by the library. What is written here is there at once, whole: others read meanwhile.
        value.place(memoryview(file._m).cast("d"), file._positions[value.key] // DOUBLE)
