"""Bad days of a topology, one after the other for as long as one likes, and what they came to."""

import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.support.ledger import Ledger
from tests.support.resources import Gauge


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
class Soak:
    """What many days came to."""

    topology: str
    seed: int
    lived: list[Lived] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0
    gauge: Gauge = field(default_factory=Gauge)

    def lines(self) -> Iterator[str]:
        """Yield the report for a person."""
        acknowledged = sum(each.acknowledged for each in self.lived)
        refused = sum(each.refused for each in self.lived)
        yield (
            f"{self.topology}, seed {self.seed}: {self.seconds:.0f} s, {len(self.lived)} days,"
            f" {acknowledged} writes acknowledged, {refused} refused"
        )
        for day, times in sorted(Counter(each.day for each in self.lived).items()):
            them = [each for each in self.lived if each.day == day]
            yield (
                f"  {day}: {times} times, nobody refused later than"
                f" {max(each.refused_s for each in them):.1f} s, longest answer"
                f" {max(each.slowest_s for each in them):.1f} s"
            )
        yield from (f"  {each}" for each in self.gauge.lines())
        yield f"  violations: {len(self.violations)}"
        yield from (f"    {each}" for each in self.violations)


def soak(
    topology: str,
    days: Mapping[str, Callable[[str, int], Lived]],
    pids: Callable[[], Mapping[str, int]],
    seconds: float,
    seed: int,
) -> Soak:
    """Live through days in random order for so long, each of them once before any comes twice.

    :param days: by name; called with the name and a seed. An ``AssertionError`` ends it all.
    :param pids: the processes that serve, by name: they are looked at after each round of days.
    """
    dice = random.Random(seed)
    report = Soak(topology, seed)
    began = time.monotonic()
    queue: list[str] = []
    while not report.violations and (
        time.monotonic() - began < seconds or len({each.day for each in report.lived}) < len(days)
    ):
        queue = queue or dice.sample(sorted(days), len(days))
        day = queue.pop()
        try:
            report.lived.append(days[day](day, dice.randrange(1, 2**31)))
            print(f"{time.strftime('%H:%M:%S')} {report.lived[-1]}", flush=True)
        except AssertionError as violation:
            traceback.print_exc()
            report.violations.append(f"{day}: {violation}")
        if not queue:
            report.gauge.look(pids())
            print("\n".join(report.gauge.lines()), flush=True)
    report.seconds = time.monotonic() - began
    return report
