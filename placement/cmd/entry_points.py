"""The entry points of the installed programs; printing a version does not load the libraries.

The libraries of ``placement-manage`` take most of a second to load.
"""

import errno
import os
import sys
from importlib import import_module
from pathlib import Path

from placement.installed import ExtensionNotUsable

INTERRUPTED = 130
"""The exit code that shells report of a program that Ctrl-C ended."""

CLOSED = 141
"""The exit code that shells report of a program that wrote to a closed pipe."""


def is_of_output(error: BaseException) -> bool:
    """Return whether an error says that the output is a closed pipe or on a full disk.

    A program that puts errors into words lets these pass: :func:`_run` handles them for all programs.
    """
    return isinstance(error, OSError) and error.errno in (errno.EPIPE, errno.ENOSPC)


def _run(module: str) -> int:
    """Run the program of a module of ``placement.cmd`` and return its exit code."""
    try:
        if sys.argv[1:] == ["--version"]:
            print(import_module("placement.version").VERSION)
            return 0
        code: int = import_module(f"placement.cmd.{module}").main()
        # A shell can start a program without an output: ">&-".
        if sys.stdout:
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        if sys.stdout:
            sys.stdout.flush()
        # A normal exit would wait for threads that ask a service, which may not answer.
        os._exit(INTERRUPTED)
    except OSError as error:
        # The program that read the output has ended, as in "| head", or the disk is full.
        if not is_of_output(error):
            raise
        # At its exit Python would write the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            return CLOSED
        print(f"{Path(sys.argv[0]).name}: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    except ExtensionNotUsable as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        return 1
    return code


def api() -> int:
    """Run ``placement-api``."""
    return _run("api")


def compare() -> int:
    """Run ``placement-compare``."""
    return _run("compare")


def manage() -> int:
    """Run ``placement-manage``."""
    return _run("manage")


def migrate_inventory() -> int:
    """Run ``placement-migrate-compute-inventory``."""
    return _run("migrate_inventory")


def status() -> int:
    """Run ``placement-status``."""
    return _run("status")


def tree() -> int:
    """Run ``placement-tree``."""
    return _run("tree")
