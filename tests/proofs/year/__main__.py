"""A year in an hour: ``python -m tests.proofs.year``, and one seed that repeats what is drawn.

With ``--steps`` one client at a time, in this process, and a failure is made as short as it can be. Without
it many clients and real servers, for so many seconds, while one thing after another happens to them. Nothing
fails with ``--beside``, where two processes of the OpenStack service write too, all the time, and with
``--releases``, where releases follow one another. With ``--contended`` all write the same few things, and one
order must explain all answers.
"""

import argparse
import sys
import time
from collections.abc import Iterator

from tests.proofs.faults import failovers
from tests.proofs.faults.servers import KINDS
from tests.proofs.galera import bad_days
from tests.proofs.galera.balanced import CONFIGURATIONS
from tests.proofs.histories import campaign as histories
from tests.proofs.innodb_cluster import bad_days as group_days
from tests.proofs.year import beside, clock, releases
from tests.proofs.year.steps import draw_steps, page, shrink, take_steps
from tests.support.campaign import CampaignReport, command, main
from tests.support.racing import SERVING_CLAIMS, arena


def take_years(options: argparse.Namespace) -> CampaignReport:
    """Take years of steps until the time is over."""
    began, years, found, seed = time.monotonic(), 0, dict[str, int](), options.seed
    report = CampaignReport(f"years on {options.database}", seed)
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
    report.counts["years"] = years
    report.violations += found
    report.seconds = time.monotonic() - began
    return report


def run(options: argparse.Namespace) -> Iterator[CampaignReport]:
    """Run one campaign."""
    given = options.seconds, options.seed
    if options.steps:
        yield take_years(options)
    elif options.database == "galera":
        yield bad_days.run(options.writers, *given, network=options.network)
    elif options.database == "innodb-cluster":
        yield group_days.run(options.through, *given, network=options.network)
    elif options.database == "standby":
        yield failovers.run(*given)
    elif options.contended:
        with arena(options.database, options=SERVING_CLAIMS) as place:
            yield histories.run(place, *given, clients=6, requests=50)
    else:
        campaign = releases if options.releases else beside if options.beside else clock
        yield campaign.run(options.database, *given)


if __name__ == "__main__":
    topologies = ["galera", "innodb-cluster", "standby"]
    parser = command("tests.proofs.year", [*sorted(KINDS), *topologies], "sqlite", 60.0)
    parser.add_argument("--steps", type=int, help="of each year, one at a time: the next seeds, for so long")
    parser.add_argument("--only", default="", help="the numbers of the steps that are taken")
    parser.add_argument("--go-on", action="store_true", help="after a failure, to find others")
    parser.add_argument("--shrink", type=float, default=120.0, help="seconds to make a failure shorter")
    parser.add_argument("--beside", action="store_true", help="the OpenStack service writes too")
    parser.add_argument("--contended", action="store_true", help="all write the same few things")
    parser.add_argument("--releases", action="store_true", help="releases follow one another")
    parser.add_argument("--writers", choices=sorted(CONFIGURATIONS), default="one", help="galera")
    ways = sorted(group_days.CHOOSERS)
    parser.add_argument("--through", choices=ways, default="haproxy", help="innodb-cluster")
    parser.add_argument(
        "--network", action="store_true", help="of a cluster: each machine in a network namespace"
    )
    sys.exit(main(parser, run))
