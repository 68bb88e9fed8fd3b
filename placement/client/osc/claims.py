"""``openstack placement claim``, ``hold`` and ``group`` (specification 09 section 7)."""

import argparse
import uuid
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from osc_lib import exceptions
from osc_lib.command import command

from placement.client.argument_types import non_empty, whole_number
from placement.client.osc import candidates, insight, text


class CreateClaim(command.Lister):
    """Let the service choose places for consumers and claim them, all or none.

    Takes the options of ``allocation candidate list``, which describe what each consumer gets. Needs a
    service that has ``[insight]/enabled``.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        who = parser.add_mutually_exclusive_group()
        who.add_argument(
            "--consumer",
            metavar="<uuid>",
            dest="consumers",
            type=non_empty,
            action="append",
            help="A new consumer. May be repeated. Default: one with a new uuid.",
        )
        who.add_argument(
            "--count",
            metavar="<number>",
            type=whole_number(1),
            default=1,
            help="The number of new consumers, with new uuids.",
        )
        for owner in ("project_id", "user_id"):
            option = f"--{owner.replace('_', '-')}"
            parser.add_argument(option, metavar=f"<{owner}>", type=non_empty, required=True)
        parser.add_argument(
            "--consumer-type", metavar="<consumer_type>", type=non_empty, default="INSTANCE"
        )
        candidates.add_query_options(parser)
        candidates.add_or_option(parser)
        parser.add_argument(
            "--strategy", choices=["any", "spread", "pack"], default="any", help="Default: any."
        )
        parser.add_argument(
            "--hold",
            metavar="<seconds>",
            type=whole_number(1),
            help="Keep the room for so long only, unless it is confirmed. Default: for good.",
        )
        _add_group_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Any]:
        """Claim, and list the places of each consumer."""
        try:
            told = insight.post(self.app, "/-/claims", _make_body(parsed_args), "claims")
        except exceptions.Conflict as refused:
            raise exceptions.CommandError("\n".join(_explain_refusal(refused))) from refused
        names: tuple[str, ...] = ("consumer", "generation", "root provider", "allocations")
        rows: list[tuple[Any, ...]] = [
            (
                each["consumer_uuid"],
                each["consumer_generation"],
                each["root_provider_uuid"],
                each["allocations"],
            )
            for each in told["claims"]
        ]
        if parsed_args.alternatives:
            names = (*names, "chosen")
            rows = [(*row, each["chosen"]) for row, each in zip(rows, told["claims"], strict=True)]
        if parsed_args.formatter == "table":
            # A terminal of 80 columns is wide enough for two uuids.
            shown = [0, 2, *range(4, len(names))]
            return [names[n] for n in shown], [[row[n] for n in shown] for row in rows]
        return names, rows


def _add_group_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--apart",
        metavar="<name>",
        action="append",
        type=non_empty,
        default=[],
        help="A group of consumers that are kept apart. May be repeated.",
    )
    parser.add_argument(
        "--at-most",
        metavar="<number>",
        type=whole_number(1),
        default=1,
        help="Members of a group that is apart in one domain. Default: 1.",
    )
    parser.add_argument(
        "--together",
        metavar="<name>",
        action="append",
        type=non_empty,
        default=[],
        help="A group of consumers that are kept together. May be repeated.",
    )
    parser.add_argument(
        "--of",
        metavar="<aggregate>",
        action="append",
        type=non_empty,
        default=[],
        help="An aggregate that is a domain of the groups, such as a rack. May be repeated. "
        "Default: trees are.",
    )


def _make_body(parsed_args: argparse.Namespace) -> dict[str, Any]:
    domains = {"level": "aggregate", "of": parsed_args.of} if parsed_args.of else {}
    apart = {"rule": "apart", "at_most": parsed_args.at_most, **domains}
    together = {"rule": "together", **domains}
    groups = dict.fromkeys(parsed_args.apart, apart)
    groups |= dict.fromkeys(parsed_args.together, together)
    consumers = parsed_args.consumers or [str(uuid.uuid4()) for _ in range(parsed_args.count)]
    query = urlencode(candidates.query_of(parsed_args))
    claim = {
        "consumer_generation": None,
        "project_id": parsed_args.project_id,
        "user_id": parsed_args.user_id,
        "consumer_type": parsed_args.consumer_type,
        "groups": list(groups),
    }
    if parsed_args.alternatives:
        claim["queries"] = [query, *parsed_args.alternatives]
    else:
        claim["query"] = query
    body = {
        "strategy": parsed_args.strategy,
        "groups": groups,
        "claims": [{"consumer_uuid": consumer, **claim} for consumer in consumers],
    }
    return body if parsed_args.hold is None else {**body, "hold_s": parsed_args.hold}


def _explain_refusal(refused: exceptions.ClientException) -> Iterator[str]:
    """Yield the text of a refusal and the funnel of the claim that could not be placed."""
    yield str(refused.message)
    response = getattr(refused.__cause__, "response", None)
    error = {} if response is None else response.json()["errors"][0]
    if error.get("groups"):
        yield f"Trees were left out by the rules of: {', '.join(error['groups'])}"
    if error.get("avoided"):
        yield text.say_avoided(error["avoided"])
    if "explanation" in error:
        yield text.word_steps(error["explanation"]["steps"])
    for number, explanation in enumerate(error.get("alternatives", ()), 1):
        yield f"Query {number}, which would do as well:"
        yield text.word_steps(explanation["steps"])


class ConfirmClaim(command.Lister):
    """Turn the holds of consumers into lasting claims, all or none.

    Needs a service that has ``[insight]/enabled``.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "consumers",
            metavar="<uuid>",
            nargs="+",
            type=non_empty,
            help="A consumer that is held.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Any]:
        """Confirm, and list the consumers with their generations."""
        consumers = [
            {
                "consumer_uuid": consumer,
                "consumer_generation": insight.consumer_generation(self.app, consumer),
            }
            for consumer in parsed_args.consumers
        ]
        told = insight.post(self.app, "/-/claims/confirm", {"consumers": consumers}, "consumers")
        rows = [(each["consumer_uuid"], each["consumer_generation"]) for each in told["consumers"]]
        return ("consumer", "generation"), rows


class ListHolds(command.Lister):
    """List the held consumers, and when each hold expires.

    Needs a service that has ``[insight]/enabled``.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "--project-id",
            metavar="<project_id>",
            type=non_empty,
            help="Only consumers of this project.",
        )
        parser.add_argument(
            "--consumer-group", metavar="<name>", type=non_empty, help="Only members of this group."
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Any]:
        """Ask page by page, and list the answers."""
        wanted = {"project_id": parsed_args.project_id, "group": parsed_args.consumer_group}
        query = [(name, value) for name, value in wanted.items() if value is not None]
        fields = ["consumer_uuid", "expires_at", "expired"]
        if parsed_args.formatter != "table":
            # A terminal of 80 columns is too narrow for these columns.
            fields += ("consumer_generation", "consumer_type", "project_id", "user_id")
        rows, page = [], {"next": ""}
        while page["next"] is not None:
            more = [("marker", page["next"])] if page["next"] else []
            page = insight.get(self.app, "/-/holds", [*query, *more], "holds", "next")
            rows += [[each[name] for name in fields] for each in page["holds"]]
        return [name.removesuffix("_uuid").replace("_", " ") for name in fields], rows


class ShowGroup(command.ShowOne):
    """Show a group of consumers: its rule, its members, and whether they keep the rule.

    Needs a service that has ``[insight]/enabled``.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="<name>", type=non_empty)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> candidates.Fields:
        """Ask, and show the answer."""
        told = insight.get(self.app, f"/-/groups/{quote(parsed_args.name)}", [], "members")
        shown = {
            name.replace("_", " "): text.PrintableColumn(value) if isinstance(value, str) else value
            for name, value in told.items()
        }
        shown["members"] = text.WordedColumn(told["members"], text.word_members)
        return tuple(shown), tuple(shown.values())
