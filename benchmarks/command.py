"""The command line: which targets, which clouds, what to measure, where to write it."""

import argparse
import re
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.clouds import SHAPES, Cloud, cloud_named
from benchmarks.plots import draw
from benchmarks.report import Table, conditions, write_json
from benchmarks.runner import Options, Runner
from benchmarks.scenarios import GROUPS
from benchmarks.servers import TEMPLATES, NotStarted, Template
from benchmarks.target import Unusable, parse_version

EPILOG = """examples:
  python -m benchmarks --server sqlite --cloud flat-1k
  python -m benchmarks --server postgresql --template uwsgi --workers 2 --cloud flat-10k-busy --bulk
  python -m benchmarks --url http://old:8778 --url http://new:8778 --cloud flat-1k --token secret
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure Placement-compatible endpoints over HTTP.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where = made.add_argument_group("targets")
    where.add_argument(
        "--server",
        action="append",
        default=[],
        choices=("sqlite", "postgresql", "mysql"),
        help="start a server on a scratch database of this kind (repeatable)",
    )
    where.add_argument(
        "--url", action="append", default=[], help="measure this endpoint (twice: A and B)"
    )
    where.add_argument("--name", action="append", default=[], help="name of the URL (repeatable)")
    where.add_argument("--token", default="admin", help="X-Auth-Token for all (default: admin)")
    where.add_argument(
        "--header", action="append", default=[], metavar="K:V", help="further header (repeatable)"
    )
    where.add_argument(
        "--microversion", default="1.39", help="newest to speak (default: 1.39, at least 1.29)"
    )
    start = made.add_argument_group("servers that are started")
    start.add_argument(
        "--template",
        default="placement-api",
        help=f"{', '.join(TEMPLATES)}, or a command with {{application}} {{host}} {{port}}"
        " {workers} {threads}",
    )
    start.add_argument("--workers", type=int, default=1, help="processes (default: 1)")
    start.add_argument("--threads", type=int, default=20, help="per process (default: 20)")
    start.add_argument("--database", help="URL that may create databases (default: local server)")
    what = made.add_argument_group("what to measure")
    what.add_argument(
        "--cloud",
        default="flat-1k",
        help=f"comma-separated: {', '.join(SHAPES)}; flat ones also with -busy (20 consumers a"
        " host) or -busyN (default: flat-1k)",
    )
    what.add_argument(
        "--only", default=",".join(GROUPS), help=f"comma-separated: {', '.join(GROUPS)}"
    )
    what.add_argument("--clients", default="1,4,16", help="for writes and boots (1,4,16)")
    what.add_argument("--seconds", type=float, default=3.0, help="per measurement (default: 3)")
    what.add_argument(
        "--bulk", action="store_true", help="load our own servers by SQL and not over HTTP"
    )
    what.add_argument("--keep", action="store_true", help="leave the clouds on the URLs")
    what.add_argument(
        "--no-load", action="store_true", help="the clouds are on the URLs already: load nothing"
    )
    what.add_argument(
        "--profile", action="store_true", help="sample our own servers meanwhile (needs py-spy)"
    )
    what.add_argument(
        "--scenario", default="", help="only scenarios whose name matches this regular expression"
    )
    where.add_argument(
        "--loaded",
        action="append",
        default=[],
        metavar="URL",
        help="SQLAlchemy URL of a database that holds the cloud: start a server on it, drop nothing",
    )
    made.add_argument("--output", type=Path, help="directory for results.json and the plots")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    made = parser()
    chosen = made.parse_args(given)
    if not (chosen.server or chosen.url or chosen.loaded):
        made.error("name a --server, a --loaded database or a --url")
    clouds = _clouds(made, chosen.cloud)
    with tempfile.TemporaryDirectory(prefix="placement-bench-") as scratch:
        output = chosen.output or Path(scratch)
        output.mkdir(parents=True, exist_ok=True)
        return _run(made, chosen, clouds, output, given)


def _run(
    made: argparse.ArgumentParser,
    chosen: argparse.Namespace,
    clouds: list[Cloud],
    output: Path,
    given: list[str],
) -> int:
    table = Table(_print)
    options = _options(made, chosen, output)
    began = conditions()
    _print(f"{began}\n")
    runner = Runner(options, table.note, table.row)
    status = 0
    try:
        if "overhead" in options.groups:
            runner.overhead()
        for cloud in clouds:
            runner.cloud(cloud, chosen.server, chosen.loaded, _urls(chosen.url, chosen.name))
    except (Unusable, NotStarted) as error:
        print(f"error: {error}", file=sys.stderr)
        status = 1
    finally:
        if chosen.output:
            write_json(output / "results.json", runner.results, given, began)
            drawn = draw(output, runner.results.rows)
            _print(f"\n{output / 'results.json'} and {len(drawn)} plots written\n")
    return status


def _options(made: argparse.ArgumentParser, chosen: argparse.Namespace, output: Path) -> Options:
    groups = tuple(chosen.only.split(","))
    if unknown := set(groups) - set(GROUPS):
        made.error(f"--only knows {', '.join(GROUPS)}, not {', '.join(sorted(unknown))}")
    headers = {"X-Auth-Token": chosen.token}
    headers |= {key.strip(): value.strip() for key, _, value in map(_split, chosen.header)}
    return Options(
        seconds=chosen.seconds,
        client_counts=tuple(int(count) for count in chosen.clients.split(",")),
        groups=groups,
        bulk=chosen.bulk,
        keep=chosen.keep,
        load=not chosen.no_load,
        template=Template(chosen.template, chosen.workers, chosen.threads),
        administration=chosen.database,
        headers=headers,
        version=parse_version(chosen.microversion),
        logs=output,
        profile=chosen.profile,
        scenario=re.compile(chosen.scenario),
    )


def _split(header: str) -> tuple[str, str, str]:
    return header.partition(":")


def _clouds(made: argparse.ArgumentParser, names: str) -> list[Cloud]:
    try:
        return [cloud_named(name) for name in names.split(",")]
    except KeyError as error:
        made.error(f"no cloud named {error}")


def _urls(urls: list[str], names: list[str]) -> list[tuple[str, str]]:
    """Return name and URL of each endpoint; unnamed ones are called by host and port."""
    found = []
    for place, url in enumerate(urls):
        named = names[place] if place < len(names) else urlsplit(url).netloc
        found.append((named, url))
    return found


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
