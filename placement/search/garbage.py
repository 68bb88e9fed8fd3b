"""A pause of Python's garbage collector, for work that makes many objects."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_collection() -> Iterator[None]:
    """Pause Python's garbage collection while many lasting objects are made.

    With the pause the consumers of 10,000 hosts are read in 0.6 s of processor time, without it in 1.5 s. No
    thread of the process collects garbage meanwhile, so a pause should last about a second, and must never
    wait.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
