"""Rounds of random histories on real servers, each checked when it is over."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from tests.proofs.histories.claimers import Claimer
from tests.proofs.histories.clients import History
from tests.support.campaign import CampaignReport, rounds
from tests.support.client import Client
from tests.support.racing import Arena, emptied


@dataclass
class HistoryReport(CampaignReport):
    """What came of the rounds."""

    rounds: int = 0
    operations: int = 0
    configurations: int = 0

    @property
    def requests(self) -> int:
        """How many requests were answered."""
        return sum(n for what, n in self.counts.items() if not what.startswith("refused"))

    @property
    def tells(self) -> bool:
        """Whether claims were granted, holds confirmed, and steps of plans taken."""
        granted = sum(self.counts[f"claim of {size} 200"] for size in (1, 2, 3))
        return bool(granted and self.counts["confirm 200"] and self.counts["step of a plan 204"])

    def notes(self) -> Iterator[str]:
        """Yield the figures of the checker."""
        yield (
            f"{self.rounds} rounds, {self.requests} requests; {self.operations} operations on"
            f" single objects, {self.configurations} configurations tried"
        )


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
) -> HistoryReport:
    """Play and judge rounds until the time is over and all has happened; each must leave what is sound."""
    report = HistoryReport(database, seed)
    for number in rounds(report, seconds, lambda: report.tells):
        history = play(arena, f"{seed}/{number}", clients, requests)
        report.configurations += history.judge()
        report.rounds += 1
        report.operations += sum(map(len, history.operations.values()))
        report.counts += history.counts
        report.violations += history.violations
    return report
