"""The engine of every campaign: its report, how long it goes on, the workers that serve, and the command.

A campaign lets clients write while something is done to what serves them, and judges their books at the end.
"""

import argparse
import contextlib
import random
import signal
import subprocess
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.forks import ForkedProcess, Forker, placement_api
from tests.support.processes import Process, answers, free_ports
from tests.support.resources import Gauge

SHOWN = 20
"""Violations that a report shows, at the most."""


@dataclass
class CampaignReport:
    """What a campaign did, and the promises that were broken."""

    title: str
    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0
    gauge: Gauge = field(default_factory=Gauge)

    def broken(self) -> list[str]:
        """Return everything that should not have been."""
        return self.violations

    def notes(self) -> Iterator[str]:
        """Yield what only this kind of campaign has to say."""
        yield from ()

    def lines(self) -> list[str]:
        """Return the report for a person, the seed first."""
        counted = ", ".join(f"{what}: {number}" for what, number in sorted(self.counts.items()))
        notes = [counted, *self.notes(), *self.gauge.lines()]
        broken = self.broken()
        return [
            f"{self.title}, seed {self.seed}: {self.seconds:.0f} s",
            *(f"  {each}" for each in notes if each),
            f"  violations: {len(broken)}",
            *(f"    {each}" for each in broken[:SHOWN]),
        ]

    def require_kept(self) -> None:
        """Print the report, and fail if a promise was broken."""
        text = "\n".join(self.lines())
        print(text)
        assert not self.broken(), text


def rounds(report: CampaignReport, seconds: float, has_all: Callable[[], object]) -> Iterator[int]:
    """Count the rounds until the time is over and all has happened, or a promise is broken."""
    began = time.monotonic()
    number = 0
    while not report.broken() and (time.monotonic() - began < seconds or not has_all()):
        yield number
        number += 1
    report.seconds = time.monotonic() - began


def take_turns(
    report: CampaignReport,
    names: Iterable[str],
    act: Callable[[str], None],
    dice: random.Random,
    seconds: float,
    pids: Callable[[], Mapping[str, int]],
) -> None:
    """Do what has these names in random order for so long, each once before any comes twice.

    :param act: an ``AssertionError`` of it is a broken promise.
    :param pids: the processes that serve, by name: they are looked at whenever all had their turn.
    """
    all_of_them, queue = sorted(names), list[str]()
    done: set[str] = set()
    for _ in rounds(report, seconds, lambda: done.issuperset(all_of_them)):
        queue = queue or dice.sample(all_of_them, len(all_of_them))
        name = queue.pop()
        try:
            act(name)
        except AssertionError as violation:
            traceback.print_exc()
            report.violations.append(f"{name}: {violation}")
        done.add(name)
        if not queue:
            report.gauge.look(pids())
            print("\n".join(report.gauge.lines()), flush=True)


class Servers:
    """The processes that serve, each on a port of its own and with its own configuration."""

    def __init__(self, folder: Path, configurations: Sequence[str]) -> None:
        self.folder = folder
        self.ports = free_ports(len(configurations))
        self.processes: dict[int, Process] = {}
        for port, text in zip(self.ports, configurations, strict=True):
            (folder / f"{port}.conf").write_text(text)

    def start(self, *ports: int, forker: Forker | None = None) -> None:
        """Start workers, again if they have ended, and wait until they serve.

        :param forker: what forks those of another release. Of several of this one the first is started: it
            has another seed of hashes.
        """
        for port in ports:
            words = ("--port", port, "--threads", 6, "--config-file", self.folder / f"{port}.conf")
            if forker:
                process: Process = ForkedProcess(
                    *(f"worker-{port}", "placement-api", *words), folder=self.folder, forker=forker
                )
            else:
                started = port == self.ports[0] and len(self.ports) > 1
                process = placement_api(
                    f"worker-{port}", *words, folder=self.folder, started=started
                )
            self.processes[port] = process
        for port in ports:
            url = f"http://127.0.0.1:{port}/"
            self.processes[port].wait_until("it answers", lambda url=url: answers(url), 60)

    def stop(self) -> None:
        """Let all of them finish what they are doing, and end."""
        for process in self.processes.values():
            process.thaw()
            process.send(signal.SIGTERM)
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(40)
            process.stop()


def command(
    module: str, databases: Iterable[str], database: str, seconds: float | None = 300.0
) -> argparse.ArgumentParser:
    """Return the parser of a campaign's command, with what all of them take.

    :param database: the default.
    :param seconds: the default; None where the length is not a time.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--database", choices=list(databases), default=database)
    if seconds is not None:
        parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--seed", type=int, default=None, help="repeats order and choices")
    return parser


def main(
    parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], Iterable[CampaignReport]]
) -> int:
    """Run what the command line asks for, and print what came of it; 1 if a promise was broken."""
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.randrange(1, 2**31)
    status = False
    for report in run(options):
        print("\n".join(report.lines()), flush=True)
        status = status or bool(report.broken())
    return int(status)
