"""``python -m tests.proofs.histories --database postgresql|mysql|sqlite --seconds N --seed S``."""

import argparse
import sys
from collections.abc import Iterator

from tests.proofs.histories import campaign
from tests.support.campaign import CampaignReport, command, main
from tests.support.databases import KINDS
from tests.support.racing import SERVING_CLAIMS, arena


def run(options: argparse.Namespace) -> Iterator[CampaignReport]:
    """Run one campaign."""
    with arena(options.database, options.servers, SERVING_CLAIMS) as place:
        yield campaign.run(
            place,
            options.database,
            options.seed,
            seconds=options.seconds,
            clients=options.clients,
            requests=options.requests,
        )


if __name__ == "__main__":
    parser = command("tests.proofs.histories", sorted(KINDS), "postgresql")
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=150, help="of each client in a round")
    sys.exit(main(parser, run))
