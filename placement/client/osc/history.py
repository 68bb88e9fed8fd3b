"""``openstack placement history show`` (specification 07 section 8)."""

import argparse
from collections.abc import Sequence
from typing import Any

from osc_lib import exceptions
from osc_lib.command import command

from placement.client.argument_types import non_empty, whole_number
from placement.client.osc import candidates, insight, nova_steps, text


class ShowPlacementHistory(command.ShowOne):
    """Show who wrote allocations, inventories, traits, aggregates and providers, newest first.

    Needs a service that has ``[insight]/enabled`` and ``[insight]/history_days``.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "--consumer", metavar="<uuid>", type=non_empty, help="What it held, such as a server."
        )
        parser.add_argument(
            "--server",
            metavar="<uuid>",
            type=non_empty,
            help="What a server and all its migrations held: Nova is asked for these, as an administrator. "
            "Does not go with --consumer and --marker.",
        )
        parser.add_argument(
            "--provider",
            metavar="<provider>",
            type=non_empty,
            help="What was held of it and what it had; its name or its uuid, which may be gone.",
        )
        parser.add_argument(
            "--project-id",
            metavar="<project_id>",
            type=non_empty,
            help="What consumers of the project held.",
        )
        parser.add_argument(
            "--request-id",
            metavar="<request_id>",
            type=non_empty,
            help="What one request wrote: its id here, or the one that its client gave, such as that of "
            "an event of a server.",
        )
        parser.add_argument(
            "--since",
            metavar="<time>",
            type=non_empty,
            help="Not older; such as 2026-11-26T15:04:05Z.",
        )
        parser.add_argument("--until", metavar="<time>", type=non_empty, help="Older.")
        parser.add_argument(
            "--limit",
            metavar="<number>",
            default=20,
            type=whole_number(1),
            help="At most so many. Default: 20.",
        )
        parser.add_argument(
            "--marker",
            metavar="<marker>",
            type=non_empty,
            help="Go on where an answer has ended: its next.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> candidates.Fields:
        """Ask, and show the answer."""
        asked = ("consumer", "project_id", "request_id", "since", "until", "limit", "marker")
        query = [(name, value) for name in asked if (value := getattr(parsed_args, name)) is not None]
        if parsed_args.provider is not None:
            query.append(("provider", insight.provider_uuid(self.app, parsed_args.provider)))
        if parsed_args.server is None:
            told = self._ask(query)
        else:
            told = self._ask_of_server(parsed_args, query)
        writes = text.WordedColumn(told["writes"], text.word_writes)
        return ("writes", "next"), (writes, told["next"])

    def _ask(self, query: Sequence[tuple[str, str]]) -> Any:
        return insight.get(self.app, "/-/history", query)

    def _ask_of_server(
        self, parsed_args: argparse.Namespace, query: Sequence[tuple[str, str]]
    ) -> Any:
        """Return the newest writes of a server and of its migrations together."""
        if parsed_args.consumer is not None or parsed_args.marker is not None:
            raise exceptions.CommandError("--server does not go with --consumer and --marker.")
        with nova_steps.failures_as_command_errors():
            moves = nova_steps.nova_of(self.app).migrations_of(parsed_args.server)
        consumers = [parsed_args.server, *(move["uuid"] for move in moves if move["uuid"])]
        found = [
            write
            for uuid in consumers
            for write in self._ask([*query, ("consumer", uuid)])["writes"]
        ]
        found.sort(key=lambda write: str(write["at"]), reverse=True)
        return {"writes": found[: parsed_args.limit], "next": None}
