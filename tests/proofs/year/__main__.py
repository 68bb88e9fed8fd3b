"""A year in an hour: ``python -m tests.proofs.year``."""

import argparse
import random
import sys
import time

from tests.proofs.year.steps import draw_steps, page, shrink, take_steps

parser = argparse.ArgumentParser(prog="python -m tests.proofs.year")
parser.add_argument("--database", default="sqlite", choices=["sqlite", "postgresql", "mysql"])
parser.add_argument("--seed", type=int, default=None)
parser.add_argument("--steps", type=int, default=200, help="of each year, one at a time")
parser.add_argument("--seconds", type=float, default=0.0, help="years of the next seeds, for so long")
parser.add_argument("--shrink", type=float, default=120.0, help="seconds to make a failure shorter")
parser.add_argument("--only", default="", help="the numbers of the steps that are taken")
parser.add_argument("--go-on", action="store_true", help="after a failure too, unless it is known")
options = parser.parse_args()

seed = random.randrange(10**6) if options.seed is None else options.seed
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
        if outcome.signature not in found:
            print(f"after {after:.0f} s, year {years}: {outcome.broken}"[:600], flush=True)
            shorter = outcome if options.only else shrink(outcome, options.database, options.shrink, found)
            print(page(shorter, options.database, seed), flush=True)
        found[outcome.signature] = found.get(outcome.signature, 0) + 1
        if not options.go_on:
            break
    if options.only or time.monotonic() - began > options.seconds:
        break
    seed += 1
took = time.monotonic() - began
print(f"{years} years in {took:.0f} s on {options.database}; broken: {found or 'nothing'}")
sys.exit(bool(found))
