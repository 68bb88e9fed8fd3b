"""The output of commands: a table for people, or with ``--json`` the same data for programs."""

import argparse
import json
from collections.abc import Iterable, Sequence
from typing import Any

from prettytable import PrettyTable

from placement.printable import escape_lines


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def print_json(document: Any) -> None:
    """Print a document to standard output, which then contains nothing else."""
    print(json.dumps(document, indent=2, default=str), flush=True)


def make_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, left: Sequence[str] = ()
) -> PrettyTable:
    """Return a table with the columns ``left`` as text on the left, and all others as numbers on the right.

    A cell can have several lines; other control characters are not shown.
    """
    made = PrettyTable(columns, align="r")
    for name in left:
        made.align[name] = "l"
    made.add_rows(
        [[escape_lines(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    )
    return made
