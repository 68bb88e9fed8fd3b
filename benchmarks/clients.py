"""Closed-loop clients: each a process that sends, waits for the answer, and sends again."""

import gc
import math
import multiprocessing
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection as Pipe
from multiprocessing.synchronize import Barrier, Event
from threading import BrokenBarrierError
from typing import Any

from benchmarks.connection import Answer, Connection
from benchmarks.target import Target, cpu_seconds

FORK = multiprocessing.get_context("fork")
NO_ANSWER = 0
PATIENCE_S = 900.0
UNTIL_DONE = -1
# However slow, so that the first operation alone never makes a median.
LEAST = 5

Operation = Callable[[int], Answer]
"""Does operation number n (0, 1, 2 …) of one client and returns its last answer.

Raises StopIteration when nothing is left to do.
"""

Maker = Callable[[Connection, int], Operation]
"""Makes the operation of client number c on that client's own connection."""


@dataclass
class Record:
    """What one client saw: seconds of each operation by status, and its own CPU time.

    The first client also looks at the CPU time of the server's processes before and after.
    """

    times: dict[int, array] = field(default_factory=dict)
    cpu_s: float = 0.0
    server_cpu_s: float | None = None
    answer_bytes: int = 0
    started: float = 0.0
    ended: float = 0.0

    def add(self, status: int, seconds: float) -> None:
        """Note one operation."""
        self.times.setdefault(status, array("d")).append(seconds)


@dataclass(frozen=True)
class Measurement:
    """A scenario on one target: milliseconds over the operations that succeeded.

    ``slowest_client_ms`` is the largest of the clients' medians. ``statuses`` counts answers by status, 0
    meaning none came. CPU is per operation; the server's
    is None when its processes are not ours to see, and has a grain of 10 ms over the whole run.
    """

    clients: int
    operations: int
    seconds: float
    median_ms: float
    p99_ms: float
    mean_ms: float
    per_second: float
    statuses: dict[str, int]
    failures: int
    answer_bytes: int
    client_cpu_ms: float
    server_cpu_ms: float | None = None
    longest_ms: float = float("nan")
    slowest_client_ms: float = float("nan")

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)


def run(
    target: Target,
    make: Maker,
    *,
    clients: int = 1,
    seconds: float = 3.0,
    operations: int | None = None,
    accepted: tuple[int, ...] = (200, 201, 204),
) -> Measurement:
    """Let the clients work for so long, or each for so many operations, and sum up.

    ``operations=UNTIL_DONE`` lets them work until each has nothing left to do.

    One client runs in this process, several in forked ones that start together.
    """
    if clients == 1:
        records = [_work(target, make, 0, seconds, operations)]
    else:
        records = _fork(target, make, clients, seconds, operations)
    return summary(records, accepted)


def summary(records: list[Record], accepted: tuple[int, ...]) -> Measurement:
    """Join the records of the clients into one measurement."""
    good = sorted(
        seconds
        for record in records
        for status in accepted
        for seconds in record.times.get(status, ())
    )
    statuses: Counter[int] = Counter()
    for record in records:
        statuses.update({status: len(times) for status, times in record.times.items()})
    total = sum(statuses.values())
    server_cpu_s = records[0].server_cpu_s
    span = max(r.ended for r in records) - min(r.started for r in records)
    return Measurement(
        clients=len(records),
        operations=total,
        seconds=span,
        median_ms=1e3 * percentile(good, 0.5),
        p99_ms=1e3 * percentile(good, 0.99),
        mean_ms=1e3 * sum(good) / max(1, len(good)),
        per_second=len(good) / span if span else 0.0,
        statuses={str(status): count for status, count in sorted(statuses.items())},
        failures=total - len(good),
        answer_bytes=max(record.answer_bytes for record in records),
        client_cpu_ms=1e3 * sum(r.cpu_s for r in records) / max(1, total),
        server_cpu_ms=None if server_cpu_s is None else 1e3 * server_cpu_s / max(1, total),
        longest_ms=1e3 * percentile(good, 1.0),
        slowest_client_ms=1e3 * max(_median(record, accepted) for record in records),
    )


def _median(record: Record, accepted: tuple[int, ...]) -> float:
    times = sorted(seconds for status in accepted for seconds in record.times.get(status, ()))
    return percentile(times, 0.5)


def percentile(ordered: list[float], part: float) -> float:
    """Return the value below which that part of the sorted values lies; NaN when there are none."""
    if not ordered:
        return float("nan")
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def _work(
    target: Target,
    make: Maker,
    client: int,
    seconds: float,
    operations: int | None,
    start: Callable[[], Any] = lambda: None,
    pace_s: float = 0.0,
    stopped: Callable[[], bool] = lambda: False,
) -> Record:
    """Be one client: open the connection, wait for the start, work until the end."""
    with target.connect() as connection:
        connection.exchange("GET", "/")
        return _timed(
            target, make(connection, client), client, seconds, operations, start, pace_s, stopped
        )


def _timed(
    target: Target,
    operation: Operation,
    client: int,
    seconds: float,
    operations: int | None,
    start: Callable[[], Any],
    pace_s: float,
    stopped: Callable[[], bool],
) -> Record:
    record = Record()
    gc.disable()
    try:
        start()
        watched = client == 0 and bool(target.pids)
        before = cpu_seconds(target) if watched else 0.0
        _loop(operation, record, seconds, operations, pace_s, stopped)
        if watched:
            record.server_cpu_s = cpu_seconds(target) - before
    finally:
        gc.enable()
    return record


def _loop(
    operation: Operation,
    record: Record,
    seconds: float,
    operations: int | None,
    pace_s: float,
    stopped: Callable[[], bool],
) -> None:
    clock, cpu = time.perf_counter, time.process_time()
    now = record.started = due = clock()
    end = now + (math.inf if operations is not None else seconds)
    number = 0
    while (now < end or number < LEAST) and number != operations and not stopped():
        if pace_s:
            due = max(due + pace_s, now - 10 * pace_s)
            time.sleep(max(0.0, due - now))
        before = clock()
        try:
            answer = operation(number)
        except StopIteration:
            break
        except OSError:
            record.add(NO_ANSWER, clock() - before)
        else:
            record.add(answer.status, clock() - before)
            record.answer_bytes = len(answer.body)
        now = clock()
        number += 1
    record.ended = clock()
    record.cpu_s = time.process_time() - cpu


def _fork(
    target: Target, make: Maker, clients: int, seconds: float, operations: int | None
) -> list[Record]:
    barrier = FORK.Barrier(clients)
    pipes = []
    for client in range(clients):
        here, there = FORK.Pipe(duplex=False)
        process = FORK.Process(
            target=_child, args=(there, target, make, client, seconds, operations, barrier)
        )
        process.start()
        there.close()
        pipes.append((process, here))
    return _records(pipes)


def _records(children: list[tuple[Any, Pipe]]) -> list[Record]:
    outcomes = [_harvest(process, pipe) for process, pipe in children]
    errors = [one for one in outcomes if isinstance(one, BaseException)]
    if errors:
        # A broken barrier only tells that another client did not come to it.
        raise min(errors, key=lambda one: isinstance(one, BrokenBarrierError))
    return outcomes


def _harvest(process: Any, pipe: Pipe) -> Any:
    try:
        return pipe.recv()
    except EOFError:
        return RuntimeError("a client process died")
    finally:
        process.join()


def _child(
    pipe: Pipe,
    target: Target,
    make: Maker,
    client: int,
    seconds: float,
    operations: int | None,
    barrier: Barrier | None = None,
    pace_s: float = 0.0,
    stop: Event | None = None,
) -> None:
    start = barrier.wait if barrier else lambda: None
    stopped = stop.is_set if stop else lambda: False
    try:
        pipe.send(_work(target, make, client, seconds, operations, start, pace_s, stopped))
    except BaseException as error:
        if barrier:
            barrier.abort()
        pipe.send(error)


@contextmanager
def beside(
    target: Target, make: Maker, per_second: float, clients: int = 2
) -> Iterator[list[Measurement]]:
    """Keep a steady load going while the body runs; its measurement is in the list afterwards."""
    stop = FORK.Event()
    ready = FORK.Barrier(clients + 1)
    children = []
    for client in range(clients):
        here, there = FORK.Pipe(duplex=False)
        pace_s = clients / per_second
        process = FORK.Process(
            target=_child,
            args=(there, target, make, client, PATIENCE_S, None, ready, pace_s, stop),
        )
        process.start()
        there.close()
        children.append((process, here))
    found: list[Measurement] = []
    try:
        ready.wait(PATIENCE_S)
        yield found
    finally:
        stop.set()
        found.append(summary(_records(children), (200, 204)))
