"""``openstack placement plan create`` (specification 10 section 7)."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from osc_lib import exceptions
from osc_lib.command import command

from placement.client.argument_types import number, whole_number
from placement.client.osc import insight, text
from placement.printable import escape_unprintable, quote_word

REMOVED = "(removed)"
COMPUTE_VERSION = "2.30"
"""Since it a live migration to a named host is checked by the scheduler."""


class CreatePlan(command.Lister):
    """Say what must move or go so that a goal holds: the fewest steps, in an order that works.

    Nothing is moved. Needs a service that has ``[insight]/enabled``.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        _add_goal_options(parser)
        _add_permission_options(parser)
        shown = parser.add_mutually_exclusive_group()
        shown.add_argument(
            "--hold",
            metavar="<seconds>",
            type=whole_number(1),
            help="Keep the destinations for so long, for those who carry the plan out by requests.",
        )
        shown.add_argument(
            "--commands",
            action="store_true",
            help="Print the commands that let Nova carry it out, one a line. Nova claims by itself, so "
            "nothing can be held for it.",
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print commands without a table around them."""
        if parsed_args.commands and parsed_args.formatter == "table":
            parsed_args.formatter = "value"
        done: int = super().run(parsed_args)
        return done

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Any]:
        """Ask, and list the steps; what is known of the whole plan goes to stderr."""
        try:
            told = insight.post(self.app, "/-/plans", _make_body(self.app, parsed_args))
        except exceptions.Conflict as refused:
            raise exceptions.CommandError("\n".join(_explain_refusal(refused))) from refused
        print(_word_plan(told), file=sys.stderr)
        names = _ProviderNames(self.app)
        if parsed_args.commands:
            return ("command",), [(_word_command(names, step),) for step in told["steps"]]
        columns: tuple[str, ...] = ("consumer", "from", "to")
        rows = [
            (
                step.get("remove") or step["consumer_uuid"],
                text.PrintableColumn(names.root_of(next(iter(step["from"])))),
                REMOVED
                if "remove" in step
                else text.PrintableColumn(names.of(step["root_provider_uuid"])),
            )
            for step in told["steps"]
        ]
        if parsed_args.formatter == "table":
            return columns, rows
        more = ("consumer_generation", "allocations", "held_by")
        return (*columns, *(name.replace("_", " ") for name in more)), [
            (*row, *(step.get(name) for name in more))
            for row, step in zip(rows, told["steps"], strict=True)
        ]


def _add_goal_options(parser: argparse.ArgumentParser) -> None:
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument(
        "--place",
        metavar="<query>",
        help="This is to fit: a query string, such as 'resources=VCPU:8&required=HW_CPU_X86_AVX2'.",
    )
    goal.add_argument(
        "--empty",
        metavar="<provider>",
        action="append",
        help="The tree of this provider, uuid or name, is to be empty. May be repeated.",
    )
    goal.add_argument(
        "--empty-any",
        metavar="<number>",
        type=whole_number(1),
        help="So many hosts are to be empty, any.",
    )
    goal.add_argument(
        "--keep",
        metavar="<group>",
        action="append",
        help="The rule of this group of consumers is to hold again. May be repeated.",
    )
    parser.add_argument(
        "--times",
        metavar="<number>",
        type=whole_number(1),
        help="What is to fit, so often. Default: once.",
    )
    parser.add_argument(
        "--level",
        choices=["tree", "aggregate"],
        help="What of any so many are to be empty. Default: tree.",
    )
    parser.add_argument(
        "--of",
        metavar="<uuid>",
        action="append",
        help="One of those to choose from: a provider or an aggregate. May be repeated. Default: all.",
    )


def _add_permission_options(parser: argparse.ArgumentParser) -> None:
    for option, words in (
        ("--move-type", "Consumers of this type may move. Default: of all but MIGRATION."),
        ("--remove-type", "Consumers of this type may be removed. Default: none."),
        ("--remove-project", "Consumers of this project may be removed. Default: none."),
        ("--except", "This consumer stays as it is."),
        (
            "--avoid",
            "Nothing moves to a tree that has this trait. Default: COMPUTE_STATUS_DISABLED.",
        ),
    ):
        what = {"--except": "consumer", "--avoid": "trait"}.get(option, option.rpartition("-")[2])
        parser.add_argument(
            option,
            metavar=f"<{what}>",
            dest=option.strip("-").replace("-", "_") + "s",
            action="append",
            help=f"{words} May be repeated.",
        )
    parser.add_argument("--most", metavar="<number>", type=whole_number(1), help="The most steps.")
    for name, default in (("move", 1), ("remove", 10)):
        parser.add_argument(
            f"--{name}-cost",
            metavar="<number>",
            type=number(),
            help=f"What each {name} costs. Default: {default}.",
        )


def _make_body(app: Any, parsed_args: argparse.Namespace) -> dict[str, Any]:
    move = {
        "consumer_types": parsed_args.move_types,
        "except": parsed_args.excepts,
        "most": parsed_args.most,
        "avoid": parsed_args.avoids,
    }
    remove = {
        "consumer_types": parsed_args.remove_types,
        "projects": parsed_args.remove_projects,
    }
    cost = {"move": parsed_args.move_cost, "remove": parsed_args.remove_cost}
    may = {"move": _given(move), "remove": _given(remove) or None}
    body = {
        "goal": _make_goal(app, parsed_args),
        "may": _given(may),
        "cost": _given(cost),
        "hold_s": parsed_args.hold,
    }
    return _given(body)


def _make_goal(app: Any, parsed_args: argparse.Namespace) -> dict[str, Any]:
    any_of = {"level": parsed_args.level, "of": parsed_args.of}
    if parsed_args.times is not None and parsed_args.place is None:
        raise exceptions.CommandError("--times goes with --place.")
    if _given(any_of) and parsed_args.empty_any is None:
        raise exceptions.CommandError("--level and --of go with --empty-any.")
    if parsed_args.place is not None:
        return _given({"place": parsed_args.place, "times": parsed_args.times})
    if parsed_args.keep:
        return {"keep": parsed_args.keep}
    if parsed_args.empty:
        return {
            "empty": {"trees": [insight.provider_uuid(app, each) for each in parsed_args.empty]}
        }
    if any_of["of"] and parsed_args.level != "aggregate":
        any_of["of"] = [insight.provider_uuid(app, each) for each in any_of["of"]]
    return {"empty": _given({"count": parsed_args.empty_any, **any_of})}


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those that were given."""
    return {name: value for name, value in values.items() if value is not None}


class _ProviderNames:
    """Names of providers, each asked for once."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._shown: dict[str, Mapping[str, Any]] = {}

    def of(self, uuid: str) -> str:
        """Return the name of a provider."""
        return str(self._ask(uuid)["name"])

    def root_of(self, uuid: str) -> str:
        """Return the name of the root of a provider's tree."""
        return self.of(self._ask(uuid)["root_provider_uuid"])

    def _ask(self, uuid: str) -> Mapping[str, Any]:
        if uuid not in self._shown:
            self._shown[uuid] = insight.get(self._app, f"/resource_providers/{quote(uuid)}", [])
        return self._shown[uuid]


def _word_command(names: _ProviderNames, step: Mapping[str, Any]) -> str:
    """Return what lets Nova carry out a step, and waits until it has: the next may need that."""
    if "remove" in step:
        return _join(["openstack", "server", "delete", "--wait", step["remove"]])
    words = ["openstack", "--os-compute-api-version", COMPUTE_VERSION]
    words += ["server", "migrate", "--live-migration"]
    # One word with its option: a name may begin with a dash.
    words.append(f"--host={names.of(step['root_provider_uuid'])}")
    return _join([*words, "--wait", step["consumer_uuid"]])


def _join(words: Sequence[str]) -> str:
    return " ".join(map(quote_word, words))


def _word_plan(told: Mapping[str, Any]) -> str:
    """Return in a few sentences what is known of a plan."""
    count = len(told["steps"])
    certain = "no plan costs less"
    if not told["minimal"]:
        certain += f" than {told['lower_bound']:g}"
    lines = [f"{count} step{'' if count == 1 else 's'}, cost {told['cost']:g}: {certain}."]
    if not told["complete"]:
        lines.append("The search ended for want of time: there may be a cheaper one.")
    if told.get("emptied"):
        lines.append(f"Empty then: {escape_unprintable(', '.join(told['emptied']))}")
    if "hold" in told:
        lines.append(f"The destinations are held until {told['hold']['expires_at']}.")
    return "\n".join(lines)


def _explain_refusal(refused: exceptions.ClientException) -> Iterator[str]:
    """Yield the words of a refusal, and what was in the way."""
    yield str(refused.message)
    response = getattr(refused.__cause__, "response", None)
    error = {} if response is None else response.json()["errors"][0]
    if error.get("groups"):
        yield f"In the way were the rules of: {escape_unprintable(', '.join(error['groups']))}"
    if error.get("homeless"):
        yield f"Cannot leave:\n{text.word_consumers(error['homeless'])}"
    if "explanation" in error:
        yield text.word_steps(error["explanation"]["steps"])
