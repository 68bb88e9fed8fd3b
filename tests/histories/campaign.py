"""Rounds of random histories on real servers, each checked when it is over."""

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from tests.histories.claimers import Claimer
from tests.histories.clients import History
from tests.support.client import Client
from tests.support.racing import Arena, emptied


@dataclass
class Report:
    """What came of the rounds."""

    database: str
    seed: int
    rounds: int = 0
    seconds: float = 0.0
    operations: int = 0
    configurations: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """How many requests were answered."""
        return sum(n for what, n in self.counts.items() if not what.startswith("refused"))

    @property
    def tells(self) -> bool:
        """Whether claims were granted, and holds confirmed."""
        granted = sum(self.counts[f"claim of {size} 200"] for size in (1, 2, 3))
        return bool(granted and self.counts["confirm 200"])

    def lines(self) -> list[str]:
        """Return the figures for a person, the seed first."""
        return [
            f"{self.database}, seed {self.seed}: {self.rounds} rounds, {self.requests} requests in "
            f"{self.seconds:.0f} s; {self.operations} operations on single objects, "
            f"{self.configurations} configurations tried; violations: {len(self.violations)}",
            *(f"  {what}: {number}" for what, number in sorted(self.counts.items())),
            *self.violations,
        ]


def play(arena: Arena, seed: str, clients: int, requests: int) -> History:
    """Let clients loose on an empty cloud; return what they noted."""
    # What the service chooses is of this history then.
    emptied(arena)
    history = History.empty(random.Random(seed))

    def work(client: Client, number: int) -> None:
        Claimer(client, history, f"{seed}/{number}").run(requests)

    arena.race([partial(work, number=number) for number in range(clients)])
    [client] = arena.clients(1)
    Claimer(client, history, f"{seed}/last").look()
    arena.assert_sound()
    return history


def run(
    arena: Arena, database: str, seed: int, *, seconds: float, clients: int, requests: int
) -> Report:
    """Play and judge rounds until the time is over and all has happened; each must leave what is sound."""
    report, began = Report(database, seed), time.monotonic()
    while not (report.tells or report.violations) or time.monotonic() - began < seconds:
        history = play(arena, f"{seed}/{report.rounds}", clients, requests)
        report.configurations += history.judge()
        report.rounds += 1
        report.operations += sum(map(len, history.operations.values()))
        report.counts += history.counts
        report.violations += history.violations
    report.seconds = time.monotonic() - began
    return report
