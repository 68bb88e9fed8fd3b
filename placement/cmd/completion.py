"""Completion of the commands' words in bash and zsh, which shtab writes from their parsers.

``placement-manage`` and ``placement-status`` also show oslo.config's option ``--shell_completion``, which
fails because the library looks for its templates where it does not install them.
"""

import argparse
import importlib
import sys
from typing import Any

OPTION = "--shell_completion"
SHELLS = ("bash", "zsh")
MODULES = {
    "placement-api": "api",
    "placement-manage": "manage",
    "placement-status": "status",
    "placement-compare": "compare",
    "placement-tree": "tree",
    "placement-migrate-compute-inventory": "migrate_inventory",
}
"""Every command and its module in ``placement.cmd``."""

_FIRST = {"bash": "", "zsh": "autoload -U +X compinit && compinit\n"}
_LACKING = "Completion needs the package shtab: pip install shtab"


class _Print(argparse.Action):
    """An argparse action that prints the script and ends the command."""

    def __call__(
        self, parser: argparse.ArgumentParser, _: Any, values: Any, option_string: str | None = None
    ) -> None:
        parser.exit(print_script(values))


def add_option(parser: Any) -> None:
    """Add the option to a parser, or to a group of one, as oslo.config spells it for the other commands."""
    parser.add_argument(
        OPTION,
        action=_Print,
        choices=SHELLS,
        help="print a script that completes the words of all commands, and exit",
    )


class _ParserFound(BaseException):
    """A command was about to parse its arguments."""


def print_script(shell: str) -> int:
    """Print a script for ``bash`` or ``zsh`` that completes all commands; return the exit code."""
    try:
        import shtab
    except ModuleNotFoundError:
        print(_LACKING, file=sys.stderr)
        return 1
    scripts = [shtab.complete(_find_parser(program), shell) for program in MODULES]
    print(_FIRST[shell] + "\n".join(scripts))
    return 0


def _find_parser(program: str) -> argparse.ArgumentParser:
    """Return the parser of a command, which oslo.config does not otherwise make accessible."""

    # This import is slow, and each command imports this module.
    from unittest import mock

    def find(parser: argparse.ArgumentParser, *_: Any) -> None:
        raise _ParserFound(parser)

    module = importlib.import_module(f"placement.cmd.{MODULES[program]}")
    with (
        mock.patch.object(argparse.ArgumentParser, "parse_args", find),
        mock.patch.object(sys, "argv", [program]),
    ):
        try:
            sys.exit(module.main())
        except _ParserFound as found:
            return found.args[0]
