"""Bad days of a topology, one after the other for as long as one likes, and what they came to."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.support.campaign import CampaignReport, take_turns
from tests.support.ledger import Ledger


@dataclass(frozen=True)
class Lived:
    """What a day was like.

    ``refused_s``: how long clients were refused after there was a database that could commit.
    """

    day: str
    seconds: float
    acknowledged: int
    refused: int
    refused_s: float
    slowest_s: float

    @classmethod
    def under(cls, ledger: Ledger, day: str, seconds: float, refused_s: float) -> "Lived":
        """Return what a day was like to the clients of a ledger."""
        acknowledged, refused = sum(ledger.acknowledged), len(ledger.refused)
        return cls(day, seconds, acknowledged, refused, refused_s, ledger.slowest_s)

    def __str__(self) -> str:
        return (
            f"{self.day}: {self.seconds:.0f} s, {self.acknowledged} acknowledged, 0 lost,"
            f" {self.refused} refused, the last {self.refused_s:.1f} s after it could be served;"
            f" longest answer {self.slowest_s:.1f} s"
        )


@dataclass
class Soak(CampaignReport):
    """What many days came to."""

    lived: list[Lived] = field(default_factory=list)

    def notes(self) -> Iterator[str]:
        """Yield a line for each kind of day."""
        acknowledged = sum(each.acknowledged for each in self.lived)
        refused = sum(each.refused for each in self.lived)
        yield f"{len(self.lived)} days, {acknowledged} writes acknowledged, {refused} refused"
        for day, times in sorted(Counter(each.day for each in self.lived).items()):
            them = [each for each in self.lived if each.day == day]
            yield (
                f"{day}: {times} times, nobody refused later than"
                f" {max(each.refused_s for each in them):.1f} s, longest answer"
                f" {max(each.slowest_s for each in them):.1f} s"
            )


def soak(
    topology: str,
    days: Mapping[str, Callable[[str, int], Lived]],
    pids: Callable[[], Mapping[str, int]],
    seconds: float,
    seed: int,
) -> Soak:
    """Live through days in random order for so long, each of them once before any comes twice.

    :param days: by name; called with the name and a seed. An ``AssertionError`` ends it all.
    :param pids: the processes that serve, by name.
    """
    dice, report = random.Random(seed), Soak(topology, seed)

    def live(day: str) -> None:
        report.lived.append(days[day](day, dice.randrange(1, 2**31)))
        print(f"{time.strftime('%H:%M:%S')} {report.lived[-1]}", flush=True)

    take_turns(report, days, live, dice, seconds, pids)
    return report
