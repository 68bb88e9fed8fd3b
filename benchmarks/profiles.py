"""Where the time goes: samples of the serving processes while a scenario runs, summed by function.

Uses py-spy, which looks into running processes from outside (it may need root). Only the thread that
holds the interpreter lock counts: what Python does. Waiting for the database or the disk does not, unless
``waits`` asks for all threads that serve a request.
"""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.target import Target, processes

RATE_HZ = 400
SHOWN = 45
DRIVERS = ("sqlalchemy/engine/default.py", "psycopg2/", "pymysql/", "MySQLdb/")
LAYERS = (
    ("waiting for the turn", ("placement/objects/batcher.py",)),
    ("driver and database", ("placement/db/transport.py", *DRIVERS)),
    ("pool of connections", ("sqlalchemy/pool/",)),
    ("JSON and schema", ("placement/web/validation.py", "placement/web/judge.py", "json/", "jsonschema/")),
    ("choice", ("placement/placing/", "placement/search/", "placement/extensions/claims/choices.py")),
    ("picture", ("placement/objects/picture.py", "placement/objects/cloud", "placement/db/cloud_rows.py")),
    ("text of statements", ("placement/db/statements.py", "sqlalchemy/")),
    ("rules of the write", ("placement/db/", "placement/objects/", "placement/extensions/")),
    ("HTTP, WebOb, middleware", ("placement/", "webob/", "routes/", "oslo_", "microversion_parse/")),
)
"""The layers of a request with the beginnings of their files; the innermost frame that matches counts."""

PY_SPY = Path(sys.executable).parent / "py-spy"


@dataclass(frozen=True)
class Line:
    """One function: its share of all samples alone, and with everything it calls, in percent."""

    function: str
    own: float
    total: float


@contextmanager
def sampled(
    target: Target, seconds: float, raw: Path, *, waits: bool = False
) -> Iterator[None]:
    """Sample the target's worker that works most while the body runs; write collapsed stacks.

    :param waits: sample all threads, also those that wait.
    """
    process = max(processes(target), key=lambda one: sum(one.cpu_times()[:2]), default=None)
    if process is None:
        yield
        return
    sampler = subprocess.Popen(
        [
            str(PY_SPY if PY_SPY.exists() else "py-spy"),
            *(
                "record",
                "--pid",
                str(process.pid),
                "--rate",
                str(RATE_HZ),
                "--format",
                "raw",
                "--idle" if waits else "--gil",
            ),
            *("--duration", str(max(1, round(seconds))), "--nonblocking", "--output", str(raw)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        yield
    finally:
        _, error = sampler.communicate()
    if sampler.returncode:
        raise RuntimeError(f"py-spy: {error.decode(errors='replace')[-500:]}")


def summed(raw: Path) -> tuple[int, list[Line]]:
    """Return the number of samples and the functions by their total share."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    samples = 0
    for line in raw.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        if not stack or not count.isdecimal():
            continue  # names of generated functions contain line breaks
        frames = [_shortened(frame) for frame in stack.split(";")]
        samples += int(count)
        own[frames[-1]] += int(count)
        for frame in set(frames):
            total[frame] += int(count)
    lines = [
        Line(name, 100 * own[name] / samples, 100 * part / samples)
        for name, part in total.most_common()
    ]
    return samples, lines


def by_layer(raw: Path) -> dict[str, float]:
    """Return the share of each layer in the samples of requests, in percent."""
    counts: Counter[str] = Counter()
    for line in raw.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        # Other threads watch the deadlines of the database, or wait for the next request.
        if "placement/web/" in stack and count.isdecimal():
            frames = [_shortened(frame).rpartition("(")[2] for frame in stack.split(";")]
            counts[next(filter(None, map(_layer, reversed(frames))), "other")] += int(count)
    samples = sum(counts.values()) or 1
    return {name: 100 * count / samples for name, count in counts.most_common()}


def _layer(file: str) -> str:
    return next((name for name, starts in LAYERS if file.startswith(starts)), "")


def shown(samples: int, lines: list[Line]) -> str:
    """Return the heaviest functions as text: of the service by total, of everybody by own share."""
    ours = [line for line in lines if " (placement/" in line.function][:SHOWN]
    heads = sorted(lines, key=lambda line: -line.own)[:SHOWN]
    rows = [f"    {samples} samples; total % and own %; first the service's functions, by total"]
    rows += [f"    {line.total:6.1f} {line.own:6.1f}  {line.function}" for line in ours]
    rows.append("    everybody, by own")
    rows += [f"    {line.total:6.1f} {line.own:6.1f}  {line.function}" for line in heads]
    return "\n".join(rows)


def _shortened(frame: str) -> str:
    """Drop line numbers and all of a path above its package."""
    frame = re.sub(r":\d+\)$", ")", frame)
    return re.sub(r"\(.*(?:site-packages|python3\.\d+|/(?=placement/))/?", "(", frame)
