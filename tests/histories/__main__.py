"""``python -m tests.histories --database postgresql|mysql|sqlite --seconds N --seed S``."""

import argparse
import random
import sys

from tests.histories import campaign
from tests.support.databases import KINDS
from tests.support.racing import SERVING_CLAIMS, arena


def main() -> int:
    """Run one campaign and print what came of it; 1 if a history is not linearizable."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories")
    parser.add_argument("--database", choices=sorted(KINDS), default="postgresql")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=None, help="repeats what each client draws")
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=150, help="of each client in a round")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.randrange(1, 2**31)
    with arena(given.database, given.servers, SERVING_CLAIMS) as place:
        report = campaign.run(
            place,
            given.database,
            seed,
            seconds=given.seconds,
            clients=given.clients,
            requests=given.requests,
        )
    print("\n".join(report.lines()))
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
