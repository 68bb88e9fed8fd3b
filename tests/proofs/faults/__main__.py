"""``python -m tests.proofs.faults --database galera --seconds N --seed S``: one campaign, on any topology."""

import argparse
import sys
from collections.abc import Iterator

from tests.proofs.faults import campaign, failovers
from tests.proofs.faults.servers import KINDS
from tests.proofs.galera import bad_days
from tests.proofs.galera.balanced import CONFIGURATIONS
from tests.proofs.innodb_cluster import bad_days as group_days
from tests.support.campaign import CampaignReport, command, main


def run(options: argparse.Namespace) -> Iterator[CampaignReport]:
    """Run one campaign."""
    if options.database == "galera":
        yield bad_days.run(
            options.writers, options.seconds, options.seed, network=options.network
        )
    elif options.database == "innodb-cluster":
        yield group_days.run(
            options.through, options.seconds, options.seed, network=options.network
        )
    elif options.database == "standby":
        yield failovers.run(options.seconds, options.seed)
    else:
        yield campaign.run(options.database, options.seconds, options.seed)


if __name__ == "__main__":
    databases = [*sorted(KINDS), "galera", "innodb-cluster", "standby"]
    parser = command("tests.proofs.faults", databases, "postgresql")
    parser.add_argument("--writers", choices=sorted(CONFIGURATIONS), default="one", help="galera")
    parser.add_argument(
        "--through", choices=sorted(group_days.CHOOSERS), default="haproxy", help="innodb-cluster"
    )
    parser.add_argument(
        "--network", action="store_true", help="of a cluster: each machine in a network namespace"
    )
    sys.exit(main(parser, run))
