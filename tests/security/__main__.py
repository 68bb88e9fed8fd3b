"""``python -m tests.security --server nginx+uwsgi --database postgresql --requests N --seed S``."""

import argparse
import sys
from collections.abc import Iterator

from tests.security import campaign
from tests.support.campaign import CampaignReport, command, main
from tests.support.databases import KINDS


def run(options: argparse.Namespace) -> Iterator[CampaignReport]:
    """Run one campaign for each server that is named."""
    for server in options.server or campaign.SERVERS:
        yield campaign.run(server, options.database, options.requests, options.seed)


if __name__ == "__main__":
    parser = command("tests.security", KINDS, "sqlite", seconds=None)
    parser.add_argument("--server", choices=sorted(campaign.SERVERS), action="append")
    parser.add_argument("--requests", type=int, default=5000)
    sys.exit(main(parser, run))
