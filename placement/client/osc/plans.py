"""``openstack placement plan create`` (specification 10 section 7)."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from osc_lib import exceptions
from osc_lib.command import command

from placement.client.argument_types import non_empty, number, whole_number
from placement.client.moving import PlanAround
from placement.client.osc import insight, nova_steps, text
from placement.client.plans import (
    PLAN_MEMBERS,
    MadePlan,
    NoPlanFound,
    PlansClient,
    Step,
    consumer_of,
)
from placement.client.provider_names import ProviderNames
from placement.printable import escape_unprintable

REMOVED = "(removed)"

MOST_COST = 1_000_000
"""The largest cost of a step that the service accepts."""


class CreatePlan(command.Lister):
    """List what must move or be removed so that a goal holds: the fewest steps, in an order that works.

    Nothing is moved. Needs a service that has ``[insight]/enabled``.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        add_goal_options(parser)
        add_permission_options(parser)
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
            help="Print the commands that let Nova carry it out, one step a line. Implies --nova. Nova "
            "claims by itself, so nothing can be held for it.",
        )
        parser.add_argument(
            "--nova",
            action="store_true",
            help="Ask Nova first: what is no server, or cannot move in its state, stays, and is named. Needs "
            "an administrator of Nova.",
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print commands without a table around them."""
        if parsed_args.commands and parsed_args.formatter == "table":
            parsed_args.formatter = "value"
        done: int = super().run(parsed_args)
        return done

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Skip the empty table of a plan without steps for people: a sentence says it."""
        if not data and parsed_args.formatter in ("table", "value"):
            return 0
        done: int = super().produce_output(parsed_args, column_names, data)
        return done

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Any]:
        """Ask, and list the steps; remarks on the whole plan are printed to stderr."""
        if parsed_args.commands or parsed_args.nova:
            return self._ask_nova_too(parsed_args)
        try:
            body = make_body(self.app, parsed_args)
            told = insight.post(self.app, "/-/plans", body, *PLAN_MEMBERS)
        except exceptions.Conflict as refused:
            raise exceptions.CommandError("\n".join(_explain_refusal(refused))) from refused
        print(word_plan({**told, "avoid": parsed_args.avoid}), file=sys.stderr)
        names = ProviderNames(nova_steps.placement_adapter(self.app))
        return _list_steps(told["steps"], names, parsed_args.formatter)

    def _ask_nova_too(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Any]:
        """Plan around the consumers that Nova cannot move, and name them."""
        if parsed_args.hold is not None:
            raise exceptions.CommandError("--hold does not go with --nova: Nova claims by itself.")
        body = make_body(self.app, parsed_args)
        client = PlansClient(nova_steps.placement_adapter(self.app))
        mover = nova_steps.nova_mover(self.app)
        around = PlanAround(client, mover)
        with nova_steps.failures_as_command_errors(), refusals_explained(around):
            plan = around.make(body["goal"], body.get("may"), body.get("cost"))
            print_knowledge(plan, around)
            if parsed_args.commands:
                return ("command",), [
                    (nova_steps.word_commands(mover, step),) for step in plan.steps
                ]
            columns, rows = _list_steps(plan.steps, mover.names, parsed_args.formatter)
            ways = [mover.find_way(step).value for step in plan.steps]
            return (*columns, "how"), [(*row, way) for row, way in zip(rows, ways, strict=True)]


def _list_steps(
    steps: Sequence[Step], names: ProviderNames, formatter: str
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    columns: tuple[str, ...] = ("consumer", "from", "to")
    rows: list[tuple[Any, ...]] = [
        (
            consumer_of(step),
            text.PrintableColumn(names.name_of(names.root_of(next(iter(step["from"]))))),
            REMOVED
            if "remove" in step
            else text.PrintableColumn(names.name_of(step["root_provider_uuid"])),
        )
        for step in steps
    ]
    if formatter == "table":
        return columns, rows
    more = ("consumer_generation", "allocations", "held_by")
    return (*columns, *(name.replace("_", " ") for name in more)), [
        (*row, *(step.get(name) for name in more)) for row, step in zip(rows, steps, strict=True)
    ]


def add_goal_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe the goal."""
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument(
        "--place",
        metavar="<query>",
        type=non_empty,
        help="This is to fit: a query string, such as 'resources=VCPU:8&required=HW_CPU_X86_AVX2'.",
    )
    goal.add_argument(
        "--empty",
        metavar="<provider>",
        action="append",
        type=non_empty,
        help="The tree of this provider, uuid or name, is to be empty. May be repeated.",
    )
    goal.add_argument(
        "--empty-any",
        metavar="<number>",
        type=whole_number(1),
        help="The number of hosts to empty, any of them.",
    )
    goal.add_argument(
        "--keep",
        metavar="<group>",
        action="append",
        type=non_empty,
        help="The rule of this group of consumers is to hold again. May be repeated.",
    )
    parser.add_argument(
        "--times",
        metavar="<number>",
        type=whole_number(1),
        help="How often the request must fit. Default: once.",
    )
    parser.add_argument(
        "--level",
        choices=["tree", "aggregate"],
        help="The kind of domains to empty. Default: tree.",
    )
    parser.add_argument(
        "--of",
        metavar="<uuid>",
        action="append",
        type=non_empty,
        help="A domain to choose from: a provider or an aggregate. Can be repeated. Default: all.",
    )


def add_permission_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe what can move or be removed, and at what cost."""
    for option, words in (
        ("--move-type", "Consumers of this type may move. Default: all types but MIGRATION."),
        ("--remove-type", "Consumers of this type may be removed. Default: none."),
        ("--remove-project", "Consumers of this project may be removed. Default: none."),
        ("--except", "This consumer stays as it is."),
    ):
        what = "consumer" if option == "--except" else option.rpartition("-")[2]
        parser.add_argument(
            option,
            metavar=f"<{what}>",
            dest=option.strip("-").replace("-", "_") + "s",
            action="append",
            type=non_empty,
            help=f"{words} May be repeated.",
        )
    insight.add_avoid_option(parser)
    parser.add_argument("--most", metavar="<number>", type=whole_number(1), help="The most steps.")
    for name, default in (("move", 1), ("remove", 10)):
        parser.add_argument(
            f"--{name}-cost",
            metavar="<number>",
            type=number(0, MOST_COST, is_above=True),
            help=f"What each {name} costs, above 0 and at most {MOST_COST:,}. Default: {default}.",
        )


def make_body(app: Any, parsed_args: argparse.Namespace) -> dict[str, Any]:
    """Return the body of the request that the options describe."""
    move = {
        "consumer_types": parsed_args.move_types,
        "except": parsed_args.excepts,
        "most": parsed_args.most,
        "avoid": parsed_args.avoid,
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
        "hold_s": getattr(parsed_args, "hold", None),
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
    """Return the options that were given."""
    return {name: value for name, value in values.items() if value is not None}


def word_plan(told: Mapping[str, Any]) -> str:
    """Return a few sentences on what is known of a plan.

    :param told: the answer of the service, with ``avoid``: the traits that were named.
    """
    avoided = told.get("avoided", 0)
    about_avoided = [text.say_avoided(avoided)] if avoided or told.get("avoid") else []
    count = len(told["steps"])
    if not count:
        return "\n".join(
            ["The goal holds already: nothing must move or be removed.", *about_avoided]
        )
    certain = "no plan costs less"
    if not told["minimal"]:
        certain += f" than {told['lower_bound']:g}"
    lines = [f"{count} step{'' if count == 1 else 's'}, cost {told['cost']:g}: {certain}."]
    if not told["complete"]:
        lines.append("The time ended during the search: there may be a cheaper one.")
    if told.get("emptied"):
        lines.append(f"Empty then: {escape_unprintable(', '.join(told['emptied']))}")
    if "hold" in told:
        lines.append(f"The destinations are held until {told['hold']['expires_at']}.")
    return "\n".join([*lines, *about_avoided])


def word_stays(stays: Mapping[str, str]) -> list[str]:
    """Return a line for each consumer that cannot move."""
    return [escape_unprintable(f"Stays: {uuid}: {why}") for uuid, why in stays.items()]


def print_knowledge(plan: MadePlan, around: PlanAround) -> None:
    """Print to stderr the consumers that stay, and what is known of the whole plan."""
    for line in (*word_stays(around.stays), word_plan(vars(plan))):
        print(line, file=sys.stderr)


@contextmanager
def refusals_explained(around: PlanAround) -> Iterator[None]:
    """Turn a refusal of the service into a command error that names the obstacles."""
    try:
        yield
    except NoPlanFound as none:
        lines = [none.sentence, *word_stays(around.stays)]
        lines += _word_obstacles(vars(none))
        raise exceptions.CommandError("\n".join(lines)) from none


def _explain_refusal(refused: exceptions.ClientException) -> Iterator[str]:
    """Yield the text of a refusal and its obstacles."""
    yield str(refused.message)
    response = getattr(refused.__cause__, "response", None)
    error = {} if response is None else response.json()["errors"][0]
    yield from _word_obstacles(error)


def _word_obstacles(error: Mapping[str, Any]) -> Iterator[str]:
    """Yield the obstacles that the document of a refusal names."""
    if error.get("groups"):
        yield f"In the way were the rules of: {escape_unprintable(', '.join(error['groups']))}"
    if error.get("avoided"):
        yield text.say_avoided(error["avoided"])
    if error.get("homeless"):
        yield f"Cannot leave:\n{text.word_consumers(error['homeless'])}"
    if error.get("explanation") is not None:
        yield text.word_steps(error["explanation"]["steps"])
