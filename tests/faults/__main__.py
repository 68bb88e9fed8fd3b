"""``python -m tests.faults --database postgresql|mysql|sqlite|galera|standby --seconds N --seed S``."""

import argparse
import random
import sys

from tests.faults import campaign, failovers
from tests.faults.servers import KINDS
from tests.galera import bad_days
from tests.galera.balanced import CONFIGURATIONS


def main() -> int:
    """Run one campaign and print what came of it; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument(
        "--database", choices=[*sorted(KINDS), "galera", "standby"], default="postgresql"
    )
    parser.add_argument("--writers", choices=sorted(CONFIGURATIONS), default="one", help="galera")
    parser.add_argument(
        "--network", action="store_true", help="galera: each machine in a network namespace"
    )
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=None, help="repeats order and choices")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(1, 2**31)
    report: campaign.Report | bad_days.Soak
    if options.database == "galera":
        report = bad_days.run(options.writers, options.seconds, seed, network=options.network)
    elif options.database == "standby":
        report = failovers.run(options.seconds, seed)
    else:
        report = campaign.run(options.database, options.seconds, seed)
    print("\n".join(report.lines()))
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
