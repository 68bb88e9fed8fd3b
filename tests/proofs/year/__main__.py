"""A year in an hour: ``python -m tests.proofs.year``.

With ``--steps`` one client at a time, in this process, and a failure is made as short as it can be. Without
it many clients and real servers, for so many seconds. Nothing fails with ``--beside``, where two processes of
the OpenStack service write too, all the time, and with ``--releases``, where releases follow one another.
"""

import argparse
import random
import sys
import time

from tests.proofs.year import beside, clock, releases
from tests.proofs.year.steps import draw_steps, page, shrink, take_steps


def take_years(options: argparse.Namespace, seed: int) -> bool:
    """Take years of steps until the time is over; say whether a promise was broken."""
    began, years, found = time.monotonic(), 0, dict[str, int]()
    while True:
        steps = draw_steps(seed, options.steps, options.database)
        if options.only:
            wanted = set(map(int, options.only.split(",")))
            steps = [step for step in steps if step.number in wanted]
        outcome = take_steps(steps, options.database, found)
        years += 1
        if outcome.broken is not None:
            after = time.monotonic() - began
            print(f"after {after:.0f} s, year {years}: {outcome.broken}"[:600], flush=True)
            if not options.only:
                outcome = shrink(outcome, options.database, options.shrink, found)
            print(page(outcome, options.database, seed), flush=True)
            found[outcome.signature] = years
        is_over = time.monotonic() - began > options.seconds
        if options.only or is_over or (found and not options.go_on):
            break
        seed += 1
    took = time.monotonic() - began
    print(f"{years} years in {took:.0f} s on {options.database}; broken: {list(found) or 'nothing'}")
    return bool(found)


def main() -> int:
    """Run what the command line asks for; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.year")
    parser.add_argument("--database", default="sqlite", choices=["sqlite", "postgresql", "mysql"])
    parser.add_argument("--seed", type=int, default=None, help="repeats what is drawn")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--steps", type=int, help="of each year, one at a time: the next seeds, for so long")
    parser.add_argument("--only", default="", help="the numbers of the steps that are taken")
    parser.add_argument("--go-on", action="store_true", help="after a failure, to find others")
    parser.add_argument("--shrink", type=float, default=120.0, help="seconds to make a failure shorter")
    parser.add_argument("--beside", action="store_true", help="the OpenStack service writes too")
    parser.add_argument("--releases", action="store_true", help="releases follow one another")
    options = parser.parse_args()
    seed = random.randrange(10**6) if options.seed is None else options.seed
    if options.steps:
        return int(take_years(options, seed))
    campaign = releases if options.releases else beside if options.beside else clock
    report = campaign.run(options.database, options.seconds, seed)
    print("\n".join(report.lines()))
    return int(bool(report.broken()))


if __name__ == "__main__":
    sys.exit(main())
