"""``openstack placement history show`` (specification 07 section 8)."""

import argparse

from osc_lib.command import command

from placement.client.argument_types import whole_number
from placement.client.osc import candidates, insight, text


class ShowPlacementHistory(command.ShowOne):
    """Show who wrote allocations, inventories, traits, aggregates and providers, newest first.

    Needs a service that has ``[insight]/enabled`` and ``[insight]/history_days``.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("--consumer", metavar="<uuid>", help="What it held, such as a server.")
        parser.add_argument(
            "--provider",
            metavar="<provider>",
            help="What was held of it and what it had; its name or its uuid, which may be gone.",
        )
        parser.add_argument(
            "--project-id", metavar="<project_id>", help="What consumers of the project held."
        )
        parser.add_argument(
            "--request-id",
            metavar="<request_id>",
            help="What one request wrote: its id here, or the one that its client gave, such as that of "
            "an event of a server.",
        )
        parser.add_argument(
            "--since", metavar="<time>", help="Not older; such as 2026-11-26T15:04:05Z."
        )
        parser.add_argument("--until", metavar="<time>", help="Older.")
        parser.add_argument(
            "--limit",
            metavar="<number>",
            default=20,
            type=whole_number(1),
            help="At most so many. Default: 20.",
        )
        parser.add_argument(
            "--marker", metavar="<marker>", help="Go on where an answer has ended: its next."
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> candidates.Fields:
        """Ask, and show the answer."""
        asked = ("consumer", "project_id", "request_id", "since", "until", "limit", "marker")
        query = [(name, value) for name in asked if (value := getattr(parsed_args, name))]
        if parsed_args.provider:
            query.append(("provider", insight.provider_uuid(self.app, parsed_args.provider)))
        told = insight.get(self.app, "/-/history", query)
        writes = text.WordedColumn(told["writes"], text.word_writes)
        return ("writes", "next"), (writes, told["next"])
