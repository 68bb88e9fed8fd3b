"""``python -m tests.security --server nginx+uwsgi --database postgresql --requests N --seed S``."""

import argparse
import random
import sys

from tests.security import campaign
from tests.support.databases import KINDS


def main() -> int:
    """Run one campaign for each server that is named; 1 if something got through."""
    parser = argparse.ArgumentParser(prog="python -m tests.security")
    parser.add_argument("--server", choices=sorted(campaign.SERVERS), action="append")
    parser.add_argument("--database", choices=KINDS, default="sqlite")
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=None, help="draws the same requests again")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(1, 2**31)
    broken = 0
    for server in options.server or campaign.SERVERS:
        report = campaign.run(server, options.database, options.requests, seed)
        print("\n".join(report.lines()), flush=True)
        broken += len(report.violations)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
