"""placement-tree, which exports, compares and applies provider trees as files."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from keystoneauth1 import exceptions as keystone_exceptions
from oslo_config import cfg

from placement.client import connection
from placement.client.api import CHECK_IDENTITY
from placement.client.argument_types import non_empty, number
from placement.client.exceptions import NotAnswered, PlacementClientError
from placement.client.patience import RESHAPE_TIMEOUT_S
from placement.client.report import ReportClient
from placement.client.tree_diff import colour_lines, diff_lines
from placement.client.tree_file import TreeFile, TreeFileError, parse_bytes, render
from placement.client.tree_plan import TreePlan, apply_file, make_plan
from placement.cmd import completion
from placement.cmd.entry_points import is_of_output
from placement.cmd.progress import show_progress
from placement.printable import escape_lines
from placement.version import VERSION

SAME = 0
DIFFERENT = 1
FAILED = 1
TROUBLE = 2

_EPILOG = """exit status:
  export, apply   0 done, 1 refused or failed, 2 bad arguments or file, or service not reached
  diff            0 nothing would change, 1 something would, 2 trouble

The format of the file is the JSON Schema placement/client/schemas/provider_trees.json."""


def _parse_words(argv: Sequence[str]) -> argparse.Namespace:
    """Read the options of the connection in any position, then the command with its own options."""
    direct = "--direct" in argv
    known, rest = (None, list(argv)) if direct else connection.take_identity("placement-tree", argv)
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    _add_common(common, with_service=not direct)
    arguments, rest = common.parse_known_args(rest, known)
    return _make_parser(with_service=not direct).parse_args(rest, arguments)


def _add_common(parser: Any, *, with_service: bool) -> None:
    parser.add_argument(
        "--direct", action="store_true", help="work on the database, while no service runs"
    )
    parser.add_argument(
        "--config-file",
        action="append",
        type=non_empty,
        metavar="F",
        help="with --direct: names the database",
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of a failure")
    if with_service:
        parser.add_argument(
            "--os-cloud",
            type=non_empty,
            default=os.environ.get("OS_CLOUD") or None,
            metavar="NAME",
            help="a cloud of clouds.yaml (needs openstacksdk)",
        )


def _make_parser(*, with_service: bool = True) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="placement-tree",
        description="Export provider trees as YAML, show what a file would change, apply it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    # The help lists the commands first.
    commands = parser.add_subparsers(title="commands", dest="command", required=True)
    options = parser.add_argument_group("options")
    options.add_argument("-h", "--help", action="help", help="show this help message and exit")
    options.add_argument("--version", action="version", version=VERSION)
    completion.add_option(options)
    _add_common(options, with_service=with_service)
    if with_service:
        connection.mention_identity(parser)
    export = commands.add_parser("export", help="write trees as YAML")
    export.add_argument("subject", nargs="*", type=non_empty, metavar="PROVIDER", help="name or UUID")
    export.add_argument("--all", action="store_true", help="every tree of the service")
    export.add_argument(
        "-o", "--output", type=non_empty, metavar="FILE", help="write to FILE, not to standard output"
    )
    diff = commands.add_parser("diff", help="show what a file would change")
    apply = commands.add_parser("apply", help="change what differs from a file")
    for command in (diff, apply):
        command.add_argument("file", type=non_empty, metavar="FILE", help="- for standard input")
        command.add_argument(
            "--color", choices=("auto", "always", "never"), default="auto", help="default: auto"
        )
    apply.add_argument(
        "--allow-reshape", action="store_true", help="let allocations move as the file says"
    )
    apply.add_argument(
        "--one-by-one",
        action="store_true",
        help="write each inventory in a request of its own, which does not need the reshaper's role but"
        " may stop half way",
    )
    apply.add_argument(
        "--reshape-timeout",
        type=number(),
        default=RESHAPE_TIMEOUT_S,
        metavar="SECONDS",
        help="how long to repeat a reshape that meets conflicts (%(default)g)",
    )
    return parser


@contextlib.contextmanager
def _connect(arguments: argparse.Namespace) -> Iterator[Any]:
    """Connect to the service, or start one in this process."""
    if arguments.direct:
        with _start_direct(arguments.config_file) as direct:
            yield direct
        return
    if arguments.os_cloud:
        yield connection.of_cloud(arguments.os_cloud)
        return
    yield connection.adapter_of(arguments)


@contextlib.contextmanager
def _start_direct(config_files: Sequence[str] | None) -> Iterator[Any]:
    # Remote commands need neither the server nor its database drivers, so the import is here.
    from placement import advice, db_api
    from placement.cmd.migrate_inventory import load_configuration
    from placement.direct import PlacementDirect

    conf = load_configuration(config_files)
    try:
        with PlacementDirect(conf) as direct:
            yield direct
    except OSError:
        # Show the error as one of the file that the command names.
        raise
    except Exception as error:
        message = advice.explain(error, conf)
        if message is None:
            raise
        raise _BadUsage(message) from error
    finally:
        db_api.close_connections()


def _export_trees(client: ReportClient, arguments: argparse.Namespace) -> int:
    wanted = arguments.subject
    if bool(wanted) == arguments.all:
        raise _BadUsage("name providers to export, or give --all")
    if arguments.all:
        # The providers are sorted by name, so that two exports of one service can be compared.
        everything = sorted(client.api.all_providers(None), key=lambda one: one["name"])
        if not everything:
            raise _BadUsage("the service has no resource providers, and nothing was written")
        roots = [one["uuid"] for one in everything if not one.get("parent_provider_uuid")]
    else:
        roots = _find_roots(client, wanted)
    text = render(client.get_provider_trees(None, roots), roots)
    if arguments.output:
        _write_whole(Path(arguments.output), text)
    else:
        print(text, end="")
    return SAME


def _find_roots(client: ReportClient, names_or_uuids: Sequence[str]) -> list[str]:
    roots: dict[str, None] = {}
    for name in names_or_uuids:
        found = client.api.provider_named(None, name) or client.api.provider(None, name)
        if found is None:
            raise _BadUsage(f"no provider has the name or UUID {name!r}")
        roots[found["root_provider_uuid"]] = None
    return list(roots)


def _write_whole(path: Path, text: str) -> None:
    """Replace a file in one step, so that a full disk leaves the old one."""
    if path.is_dir():
        raise _BadUsage(f"{path}: Is a directory")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        # The error itself may name the file beside it.
        raise _BadUsage(f"{path}: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def _read(arguments: argparse.Namespace) -> TreeFile:
    name = arguments.file
    if name == "-":
        return parse_bytes(sys.stdin.buffer.read(), "<standard input>")
    return parse_bytes(Path(name).read_bytes(), name)


def _show(plan: TreePlan, arguments: argparse.Namespace) -> None:
    lines = diff_lines(plan)
    wanted = sys.stdout and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    if arguments.color == "always" or (arguments.color == "auto" and wanted):
        lines = list(colour_lines(lines))
    for line in lines or ["Nothing to change."]:
        print(line)


def _show_diff(client: ReportClient, arguments: argparse.Namespace) -> int:
    plan = make_plan(client, None, _read(arguments))
    _show(plan, arguments)
    return DIFFERENT if diff_lines(plan) else SAME


def _apply_file(client: ReportClient, arguments: argparse.Namespace) -> int:
    plan = apply_file(
        client,
        None,
        _read(arguments),
        allow_reshape=arguments.allow_reshape,
        one_by_one=arguments.one_by_one,
        reshape_timeout_s=arguments.reshape_timeout,
    )
    _show(plan, arguments)
    return SAME


class _BadUsage(Exception):
    """The arguments contradict each other or the state of the service."""


_IN_WORDS = (
    PlacementClientError,
    keystone_exceptions.ClientException,
    cfg.Error,
    connection.NoCloud,
    _BadUsage,
)


_COMMANDS = {"export": _export_trees, "diff": _show_diff, "apply": _apply_file}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    arguments = _parse_words(argv)
    try:
        with _connect(arguments) as service, show_progress() as progress:
            client = ReportClient(service, progress=progress)
            return _COMMANDS[arguments.command](client, arguments)
    except Exception as error:
        if arguments.debug or is_of_output(error):
            raise
        words = escape_lines(connection.without_password(_explain(error, arguments.command)))
        print(f"placement-tree: {words}", file=sys.stderr)
        # A failed apply may have written a part. A faulty file or argument is trouble (2), as in other
        # commands.
        is_of_service = isinstance(error, PlacementClientError)
        is_of_service &= not isinstance(error, TreeFileError) and not _find_unanswered(error)
        return FAILED if arguments.command == "apply" and is_of_service else TROUBLE


def _explain(error: Exception, command: str) -> str:
    unanswered = _find_unanswered(error)
    if unanswered and not _find_status(error):
        advice = (
            " Earlier writes stay; check the service and run the command again, it"
            " continues where it stopped"
        )
        return f"the connection failed: {unanswered.error}.{advice if command == 'apply' else ''}"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, _IN_WORDS):
        return f"{error}{_ADVICE.get(_find_status(error), '')}"
    return f"{type(error).__name__}: {error}"


_ADVICE = {
    401: f" {CHECK_IDENTITY}",
    403: " Reading and writing need the role admin or service. Moving allocations, or changing inventories"
    " of several providers at once, needs the role service (rule placement:reshaper:reshape);"
    " --one-by-one avoids that if no allocations move.",
    404: " If other requests fail too: is this the URL of a Placement service? See the service"
    " catalogue, --os-endpoint-override and --os-endpoint.",
}


def _find_unanswered(error: BaseException | None) -> NotAnswered | None:
    """Return the request without an answer that led to a failure, or None if all were answered."""
    while error is not None and not isinstance(error, NotAnswered):
        error = error.__cause__
    return error


def _find_status(error: BaseException | None) -> int:
    """Return the status of the answer that led to a failure, 0 without an answer."""
    while error is not None:
        status = getattr(error, "status", None) or getattr(error, "http_status", None)
        if status:
            return int(status)
        error = error.__cause__
    return 0


if __name__ == "__main__":
    sys.exit(main())
