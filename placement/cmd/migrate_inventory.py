"""placement-migrate-compute-inventory, which reshapes nodes while all services are down (05, C9)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from oslo_config import cfg

from placement import advice, db_api
from placement import conf as options
from placement.client import drivers
from placement.client.argument_types import non_empty, number
from placement.client.exceptions import PlacementClientError
from placement.client.migrate import migrate_compute_inventory
from placement.client.patience import RESHAPE_TIMEOUT_S
from placement.client.report import ReportClient
from placement.cmd import completion
from placement.cmd.entry_points import is_of_output
from placement.cmd.progress import show_progress
from placement.direct import PlacementDirect
from placement.printable import escape_lines, escape_unprintable
from placement.version import VERSION

DONE = 0
FAILED = 1
BAD_USAGE = 2


class _HelpfulParser(argparse.ArgumentParser):
    """A parser that shows its short help with each error, such as for a call without arguments."""

    def error(self, message: str) -> NoReturn:
        self.print_help(sys.stderr)
        self.exit(BAD_USAGE, f"\n{self.prog}: {message}\n")


def _make_parser() -> argparse.ArgumentParser:
    parser = _HelpfulParser(
        prog="placement-migrate-compute-inventory",
        description="Move inventories and allocations to where the driver wants them, while no"
        " service runs. Run it on every agent host at every upgrade; a second run changes"
        " nothing.",
    )
    parser.add_argument(
        "--config-file",
        action="append",
        type=non_empty,
        metavar="F",
        help="configuration file that names the database",
    )
    parser.add_argument(
        "--driver",
        required=True,
        type=non_empty,
        metavar="NAME|MODULE:FACTORY",
        help="an installed driver, or a callable that makes one from the configuration",
    )
    parser.add_argument(
        "--node", action="append", type=non_empty, metavar="NAME", help="only this node; may be repeated"
    )
    parser.add_argument(
        "--timeout",
        type=number(),
        default=RESHAPE_TIMEOUT_S,
        metavar="SECONDS",
        help="how long to repeat a reshape that meets conflicts (%(default)g)",
    )
    parser.add_argument("--version", action="version", version=VERSION)
    completion.add_option(parser)
    return parser


def load_configuration(files: Sequence[str] | None) -> cfg.ConfigOpts:
    """Read the configuration as the service does; without files, from the usual places."""
    conf = cfg.ConfigOpts()
    options.register_opts(conf)
    drivers.register_options(conf)
    options.load(conf, list(files) if files else None)
    return conf


def _migrate(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    driver = drivers.load(arguments.driver, conf)
    with PlacementDirect(conf) as adapter, show_progress() as progress:
        client = ReportClient(adapter, progress=progress)
        # An empty list must not look as if every node were in order.
        if not client.api.all_providers(None):
            raise ValueError(
                "The database has no resource providers, so nothing was compared. Is"
                " [placement_database]/connection that of this cloud?"
            )
        results = migrate_compute_inventory(
            None, client, driver, arguments.node, reshape_timeout_s=arguments.timeout
        )
    for node, result in results.items():
        failed = isinstance(result, Exception)
        # The service's error texts contain line breaks, but scripts read one line per node.
        words = " ".join(str(result).split())
        print(escape_unprintable(f"{node}: {f'failed: {words}' if failed else words}"))
    return FAILED if any(isinstance(one, Exception) for one in results.values()) else DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line per node with its result, and return the exit status."""
    arguments = _make_parser().parse_args(argv)
    conf = None
    try:
        conf = load_configuration(arguments.config_file)
        return _migrate(conf, arguments)
    except (drivers.DriverNotLoaded, ValueError, cfg.Error) as error:
        print(f"placement-migrate-compute-inventory: {error}", file=sys.stderr)
        return BAD_USAGE
    except Exception as error:
        if is_of_output(error):
            raise
        # No node was changed, because the database or the list of nodes could not be read.
        message = advice.explain(error, conf) if conf else None
        in_words = str(error) if isinstance(error, PlacementClientError) else repr(error)
        print(
            f"placement-migrate-compute-inventory: {escape_lines(message or in_words)}",
            file=sys.stderr,
        )
        return FAILED
    finally:
        db_api.close_connections()


if __name__ == "__main__":
    sys.exit(main())
