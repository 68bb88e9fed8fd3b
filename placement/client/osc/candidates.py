"""``openstack allocation candidate explain`` and ``capacity`` (specification 07 section 8)."""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from osc_lib import exceptions
from osc_lib.command import command

from placement.client.argument_types import non_empty, whole_number
from placement.client.osc import insight, text

Fields = tuple[Sequence[str], Sequence[Any]]


class _ToGroup(argparse.Action):
    """An argparse action that collects the options of one group; ``--group`` begins the next."""

    def __call__(
        self, _parser: Any, namespace: Any, values: Any, _option_string: str | None = None
    ) -> None:
        groups = namespace.__dict__.setdefault("groups", {})
        if self.dest == "group":
            namespace.suffix = values
            groups.setdefault(values, {})
        else:
            suffix = namespace.__dict__.setdefault("suffix", "")
            groups.setdefault(suffix, {}).setdefault(self.dest, []).append(values)


def add_query_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``allocation candidate list``."""
    to_group: dict[str, Any] = {
        "action": _ToGroup,
        "type": non_empty,
        "default": argparse.SUPPRESS,
    }
    parser.add_argument(
        "--resource",
        metavar="<resource_class>=<value>",
        dest="resources",
        help="Amount of a resource class, as in VCPU=4. Can be repeated.",
        **to_group,
    )
    parser.add_argument(
        "--required",
        metavar="<required>",
        help="A required trait, or several separated by commas of which one would do. May be repeated.",
        **to_group,
    )
    parser.add_argument(
        "--forbidden", metavar="<forbidden>", help="An unwanted trait. May be repeated.", **to_group
    )
    parser.add_argument(
        "--member-of",
        metavar="<member_of>",
        help="Aggregates separated by commas, of which one would do. May be repeated.",
        **to_group,
    )
    parser.add_argument(
        "--group",
        metavar="<group>",
        help="Begins a group: the options that follow are served by one provider. May be repeated.",
        **to_group,
    )
    parser.add_argument(
        "--group-policy",
        choices=["none", "isolate"],
        default="none",
        help="isolate: each group on another provider. Default: none.",
    )


def add_or_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a further query."""
    parser.add_argument(
        "--or",
        metavar="<query>",
        dest="alternatives",
        type=non_empty,
        action="append",
        default=[],
        help="A query string that will do as well, if nothing before it can be granted, such as "
        "'resources=VCPU:2&required=HW_CPU_X86_AVX2'. May be repeated.",
    )


def query_of(parsed_args: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the query that the options describe."""
    groups: Mapping[str, Mapping[str, list[str]]] = getattr(parsed_args, "groups", {})
    if not groups:
        raise exceptions.CommandError("At least one --resource must be specified.")
    pairs = [pair for suffix, options in groups.items() for pair in _render_group(suffix, options)]
    if any(groups):
        pairs.append(("group_policy", parsed_args.group_policy))
    return pairs


def _render_group(suffix: str, options: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    resources = options.get("resources", [])
    if not all(re.fullmatch("[^=]+=[^=]+", resource) for resource in resources):
        raise exceptions.CommandError("--resource must be of the form <resource_class>=<value>")
    if resources:
        yield f"resources{suffix}", ",".join(each.replace("=", ":") for each in resources)
    for wanted in options.get("required", []):
        yield f"required{suffix}", f"in:{wanted}" if "," in wanted else wanted
    for unwanted in options.get("forbidden", []):
        yield f"required{suffix}", f"!{unwanted}"
    for aggregates in options.get("member_of", []):
        yield f"member_of{suffix}", f"in:{aggregates}"


class ExplainAllocationCandidate(command.ShowOne):
    """Explain why there is no allocation candidate, and what would help.

    Takes the options of ``allocation candidate list``. Needs a service that has
    ``[insight]/enabled``.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        add_query_options(parser)
        add_or_option(parser)
        parser.add_argument(
            "--limit", metavar="<limit>", type=whole_number(1), help="The most candidates to count."
        )
        parser.add_argument(
            "--about",
            metavar="<provider>",
            type=non_empty,
            help="Why not this provider: its uuid or name.",
        )
        parser.add_argument(
            "--examples",
            metavar="<number>",
            default=3,
            type=whole_number(0, 20),
            help="Providers named for each test, 0 to 20. Default: 3.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        """Ask, and show the answer."""
        query = [*query_of(parsed_args), ("examples", parsed_args.examples)]
        if parsed_args.limit:
            query.append(("limit", parsed_args.limit))
        if parsed_args.about is not None:
            query.append(("about", parsed_args.about))
        query += [("or", each) for each in parsed_args.alternatives]
        if parsed_args.alternatives:
            names = ("chosen", "exact", "complete", "alternatives")
            told = insight.get(self.app, "/-/explain", query, *names)
            return names, (
                told["chosen"],
                told["exact"],
                told["complete"],
                text.WordedColumn(told["alternatives"], text.word_explanations),
            )
        members = ("candidates", "steps", "stopped", "combining", "complete")
        told = insight.get(self.app, "/-/explain", query, *members)
        shown = {
            "candidates": text.WordedColumn(told["candidates"], text.word_count),
            "steps": text.WordedColumn(told["steps"], text.word_steps),
            "stopped": text.WordedColumn(told["stopped"] or told["combining"], text.word_stopped),
            "relaxations": text.WordedColumn(told.get("relaxations", []), text.word_relaxations),
            "largest": text.WordedColumn(told.get("largest", []), text.word_largest),
        }
        if "about" in told:
            shown["about"] = text.WordedColumn(told["about"], text.word_about)
        avoided = told.get("avoided", {"trees": 0, "candidates": 0})
        insight.show_part_in_avoided(shown, avoided["trees"], avoided["candidates"])
        if not told["complete"]:
            shown["complete"] = text.WordedColumn(False, lambda _: "no: the work was cut")
        return tuple(shown), tuple(shown.values())


class AllocationCandidateCapacity(command.ShowOne):
    """Count how often a request would fit, placed repeatedly.

    Takes the options of ``allocation candidate list``. Needs a service that has
    ``[insight]/enabled``.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        add_query_options(parser)
        add_or_option(parser)
        parser.add_argument(
            "--by", choices=["trees", "aggregates"], default="trees", help="Default: trees."
        )
        parser.add_argument(
            "--top",
            metavar="<number>",
            default=20,
            type=whole_number(1),
            help="Places shown, most first. Default: 20.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Fields:
        """Ask, and show the answer."""
        query = [*query_of(parsed_args), ("by", parsed_args.by), ("top", parsed_args.top)]
        query += [("or", each) for each in parsed_args.alternatives]
        lines: dict[str, Callable[[Any], str]] = {"places": text.word_places}
        if parsed_args.alternatives:
            lines["alternatives"] = text.word_capacities
        else:
            lines |= dict.fromkeys(("limits", "stranded", "largest"), text.word_amounts)
        names = ("count", "exact", "complete", *lines)
        told = insight.get(self.app, "/-/capacity", query, *names)
        shown: dict[str, Any] = {
            name: text.WordedColumn(told[name], lines[name]) if name in lines else told[name]
            for name in names
        }
        avoided = told.get("avoided", {"trees": 0, "count": 0})
        insight.show_part_in_avoided(shown, avoided["trees"], avoided["count"])
        return tuple(shown), tuple(shown.values())
