"""placement-compare, which asks two services the same questions (specification 06 section 13.2)."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

from keystoneauth1 import exceptions as keystone_exceptions

from placement.client import connection
from placement.client.argument_types import non_empty, whole_number
from placement.client.comparison.question import ComparedQuestion
from placement.client.comparison.run import Comparison, NothingCompared
from placement.client.comparison.searches import SEARCH, read_log
from placement.client.comparison.side import Side
from placement.cmd import completion, output, progress
from placement.printable import escape_lines, escape_unprintable
from placement.version import VERSION

EQUAL = 0
TROUBLE = 2
DIFFERENT = 3

HTTP = ("http://", "https://")

MOST_SEARCHES, MOST_AT_ONCE = 1_000_000, 256

TIMEOUT_S = 60.0
"""The default of ``--timeout``: a service answers each question within seconds."""

SHOWN = 20
"""The number of differences of one kind that are shown in full; ``--json`` has all of them."""

_EPILOG = """OLD and NEW are each the URL of a service, reached with the authentication options, or the
name of a cloud of clouds.yaml. Only GET requests are sent. A question with different answers is asked
twice more before it counts, so both services may be in use while they are compared.

exit status: 0 no difference, 3 differences, 2 bad arguments, no search in FILE, a side that cannot be asked,
or a kind of question that both sides refuse: of that nothing was compared. A side that sends nothing for
--timeout seconds (one of the identity options, by default 60) cannot be asked"""


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="placement-compare",
        description="Ask two Placement services the same questions and show where they differ.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", type=non_empty, metavar="OLD", help="URL or cloud")
    parser.add_argument("new", type=non_empty, metavar="NEW", help="URL or cloud")
    parser.add_argument(
        "--queries",
        type=non_empty,
        metavar="FILE",
        help="repeat the searches in a request log of either service, or in a list of URLs, one a line;"
        " - is standard input",
    )
    parser.add_argument(
        "--searches",
        type=whole_number(0, MOST_SEARCHES),
        default=200,
        metavar="N",
        help="generate N searches from the inventories of the cloud; default: 200",
    )
    parser.add_argument(
        "--seed",
        type=whole_number(0),
        default=0,
        metavar="S",
        help="seed of the generated searches; default: 0",
    )
    parser.add_argument(
        "--at-once",
        type=whole_number(1, MOST_AT_ONCE),
        default=4,
        metavar="N",
        help="questions asked at the same time; default: 4",
    )
    output.add_option(parser)
    parser.add_argument("--version", action="version", version=VERSION)
    completion.add_option(parser)
    connection.mention_identity(parser)
    return parser


def _make_side(name: str, place: str, arguments: argparse.Namespace) -> Side:
    if place.startswith(HTTP):
        return Side(name, connection.adapter_of(arguments, place))
    return Side(name, connection.of_cloud(place, timeout_s=arguments.timeout))


def _compare(arguments: argparse.Namespace) -> Comparison:
    queries = _read_queries(arguments.queries)
    old = _make_side("OLD", arguments.old, arguments)
    new = _make_side("NEW", arguments.new, arguments)
    comparison = Comparison(old, new, at_once=arguments.at_once)
    with progress.Bar("questions") as bar:

        def announce(number: int) -> None:
            bar.total = (bar.total or 0) + number

        comparison.run(
            queries,
            arguments.searches,
            arguments.seed,
            progress=bar.update,
            announce=announce,
        )
    return comparison


def _read_queries(name: str | None) -> list[ComparedQuestion]:
    """Return the searches in a file; no file has none.

    :raises NothingCompared: there is none in it; a comparison without them would look as if it had them.
    """
    if name is None:
        return []
    # The number of standard input, since its own decoder refuses bytes that are not text.
    file = 0 if name == "-" else name
    with open(file, encoding="utf-8", errors="replace", closefd=bool(file)) as lines:
        found = list(read_log(lines))
    if not found:
        named = name if file else "standard input"
        raise NothingCompared(f"--queries: {named} has no line with a search (GET {SEARCH}?...)")
    return found


def _print_table(comparison: Comparison) -> None:
    rows = []
    for kind, result in comparison.results.items():
        medians = (f"{median:.1f}" for median in result.medians_ms())
        different = len(result.differences) - result.errors
        rows.append((kind, result.asked, result.equal, different, result.errors, *medians))
    columns = ["kind", "asked", "equal", "different", "errors", "OLD median ms", "NEW median ms"]
    print(output.make_table(columns, rows, left=["kind"]))
    for kind, result in comparison.results.items():
        for found in result.differences[:SHOWN]:
            path = escape_unprintable(found.question.path)
            print(f"\n{kind}, microversion {found.question.microversion}: {path}")
            print(f"  {escape_lines(found.words)}\n  {found.curl_old}\n  {found.curl_new}")
        if len(result.differences) > SHOWN:
            print(f"\n{kind}: {len(result.differences) - SHOWN} more; --json shows all")


def _render_json(comparison: Comparison) -> dict[str, Any]:
    return {
        kind: {
            "asked": result.asked,
            "equal": result.equal,
            "refused": result.refused,
            "different": len(result.differences) - result.errors,
            "errors": result.errors,
            "median_ms": dict(zip(("old", "new"), result.medians_ms(), strict=True)),
            "differences": [
                dataclasses.asdict(found.question)
                | {"words": found.words, "old": found.curl_old, "new": found.curl_new}
                for found in result.differences
            ],
        }
        for kind, result in comparison.results.items()
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    parser = _make_parser()
    arguments, rest = connection.take_identity(parser.prog, argv, timeout_s=TIMEOUT_S)
    parser.parse_args(rest, arguments)
    for name in ("old", "new"):
        place = getattr(arguments, name)
        if "://" in place and not place.startswith(HTTP):
            # A user may give the URL of a database by mistake, with its password.
            parser.error(f"{name.upper()} is a URL, but not one of a service: it begins with http.")
    try:
        comparison = _compare(arguments)
    except NothingCompared as error:
        print(
            f"placement-compare: nothing was compared. {escape_lines(str(error))}", file=sys.stderr
        )
        return TROUBLE
    except (keystone_exceptions.ClientException, connection.NoCloud, OSError) as error:
        print(
            f"placement-compare: {escape_lines(connection.without_password(str(error)))}",
            file=sys.stderr,
        )
        return TROUBLE
    if arguments.json:
        output.print_json(_render_json(comparison))
    else:
        _print_table(comparison)
    return _choose_status(comparison)


def _choose_status(comparison: Comparison) -> int:
    results = comparison.results
    if any(result.differences for result in results.values() if not result.compared_nothing):
        return DIFFERENT
    # The service can refuse on both sides alike; that must not look as if everything were equal.
    uncompared = [kind for kind, result in results.items() if result.compared_nothing]
    for kind in uncompared:
        print(
            f"placement-compare: of {kind} nothing was compared: no question was answered",
            file=sys.stderr,
        )
    return TROUBLE if uncompared else EQUAL


if __name__ == "__main__":
    sys.exit(main())
