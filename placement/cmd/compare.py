"""placement-compare: ask two services the same questions (specification 06 section 13.2)."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from keystoneauth1 import exceptions as keystone_exceptions
from prettytable import PrettyTable
from tqdm import tqdm

from placement.client import connection
from placement.client.comparison.run import Comparison
from placement.client.comparison.searches import logged
from placement.client.comparison.side import Side

EQUAL = 0
TROUBLE = 2
DIFFERENT = 3

SHOWN = 20
"""Differences of one kind that are shown in full; ``--json`` has all of them."""

_EPILOG = """OLD and NEW are each the URL of a service, reached with the authentication options, or the
name of a cloud of clouds.yaml. Nothing but GET requests is sent. A difference is asked again twice
before it counts, so both may serve while they are compared.

exit status: 0 no difference, 3 differences, 2 bad arguments or a side that cannot be reached"""


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="placement-compare",
        description="Ask two Placement services the same questions and show where they differ.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", metavar="OLD", help="URL or cloud")
    parser.add_argument("new", metavar="NEW", help="URL or cloud")
    parser.add_argument(
        "--queries",
        metavar="FILE",
        help="ask the searches that a request log shows, of either service, or one URL a line;"
        " - is standard input",
    )
    parser.add_argument(
        "--searches",
        type=int,
        default=200,
        metavar="N",
        help="make N searches from the inventories that are there; default: 200",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="which searches are made; default: 0"
    )
    parser.add_argument(
        "--at-once", type=int, default=4, metavar="N", help="questions under way; default: 4"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    connection.add_arguments(parser, argv)
    return parser


def _side(name: str, place: str, arguments: argparse.Namespace) -> Side:
    if place.startswith(("http://", "https://")):
        return Side(name, connection.adapter_of(arguments, place))
    return Side(name, connection.of_cloud(place))


def _compare(arguments: argparse.Namespace) -> Comparison:
    sides = (_side("OLD", arguments.old, arguments), _side("NEW", arguments.new, arguments))
    comparison = Comparison(*sides, at_once=max(1, arguments.at_once))
    with _lines(arguments.queries) as lines, tqdm(unit=" questions", disable=None) as bar:

        def announce(number: int) -> None:
            bar.total = (bar.total or 0) + number
            bar.refresh()

        comparison.run(
            logged(lines),
            arguments.searches,
            arguments.seed,
            progress=bar.update,
            announce=announce,
        )
    return comparison


def _lines(name: str | None) -> Any:
    if name is None:
        return nullcontext(())
    if name == "-":
        return nullcontext(sys.stdin)
    return Path(name).open(encoding="utf-8", errors="replace")


def _show(comparison: Comparison) -> None:
    table = PrettyTable(
        ["kind", "asked", "equal", "different", "errors", "OLD median ms", "NEW median ms"]
    )
    table.align = "r"
    table.align["kind"] = "l"
    for kind, tally in comparison.tallies.items():
        medians = (f"{median:.1f}" for median in tally.medians_ms())
        different = len(tally.differences) - tally.errors
        table.add_row([kind, tally.asked, tally.equal, different, tally.errors, *medians])
    print(table)
    for kind, tally in comparison.tallies.items():
        for found in tally.differences[:SHOWN]:
            print(f"\n{kind}, microversion {found.question.microversion}: {found.question.path}")
            print(f"  {found.words}\n  {found.curl_old}\n  {found.curl_new}")
        if len(tally.differences) > SHOWN:
            print(f"\n{kind}: {len(tally.differences) - SHOWN} more; --json shows all")


def _as_json(comparison: Comparison) -> dict[str, Any]:
    return {
        kind: {
            "asked": tally.asked,
            "equal": tally.equal,
            "different": len(tally.differences) - tally.errors,
            "errors": tally.errors,
            "median_ms": dict(zip(("old", "new"), tally.medians_ms(), strict=True)),
            "differences": [
                dataclasses.asdict(found.question)
                | {"words": found.words, "old": found.curl_old, "new": found.curl_new}
                for found in tally.differences
            ],
        }
        for kind, tally in comparison.tallies.items()
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    arguments = _parser(argv).parse_args(argv)
    try:
        comparison = _compare(arguments)
    except (keystone_exceptions.ClientException, connection.NoCloudFiles, OSError) as error:
        print(f"placement-compare: {error}", file=sys.stderr)
        return TROUBLE
    if arguments.json:
        json.dump(_as_json(comparison), sys.stdout, indent=2)
        print()
    else:
        _show(comparison)
    tallies = comparison.tallies.values()
    if all(tally.errors == tally.asked for tally in tallies):
        return TROUBLE
    return DIFFERENT if any(tally.differences for tally in tallies) else EQUAL


if __name__ == "__main__":
    sys.exit(main())
