"""Threads that ask a service several questions at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def asking_threads(number: int) -> Iterator[ThreadPoolExecutor]:
    """Yield a pool whose questions are answered when the block ends; an error drops the remaining ones.

    Ctrl-C does not wait for answers: the service may not answer at all.
    """
    pool = ThreadPoolExecutor(number)
    waits = True
    try:
        yield pool
    except KeyboardInterrupt:
        waits = False
        raise
    finally:
        pool.shutdown(wait=waits, cancel_futures=True)
