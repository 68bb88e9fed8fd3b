"""The output of commands: a table for people or, with ``--json``, the same as JSON for programs."""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from prettytable import PrettyTable

from placement.printable import escape_lines


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def print_json(document: Any) -> None:
    """Print a document on standard output, which has nothing else then."""
    json.dump(document, sys.stdout, indent=2, default=str)
    print(flush=True)


def make_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, left: Sequence[str] = ()
) -> PrettyTable:
    """Return a table whose columns ``left`` are words; the others are numbers, at the right.

    A cell may have several lines, and shows no other control character.
    """
    made = PrettyTable(columns, align="r")
    for name in left:
        made.align[name] = "l"
    made.add_rows(
        [[escape_lines(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    )
    return made
