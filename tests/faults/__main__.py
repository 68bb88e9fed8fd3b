"""``python -m tests.faults --database postgresql|mysql|sqlite --seconds N --seed S``."""

import argparse
import random
import sys

from tests.faults import campaign
from tests.faults.servers import KINDS


def main() -> int:
    """Run one campaign and print what came of it; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--database", choices=sorted(KINDS), default="postgresql")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=None, help="repeats order and choices")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(1, 2**31)
    report = campaign.run(options.database, options.seconds, seed)
    print("\n".join(report.lines()))
    return 0 if campaign.passed([report]) else 1


if __name__ == "__main__":
    sys.exit(main())
