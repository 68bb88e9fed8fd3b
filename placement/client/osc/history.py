"""``openstack placement history show`` (specification 07 section 8)."""

import argparse
import heapq
from collections.abc import Iterator, Mapping
from datetime import datetime
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
            "--consumer",
            metavar="<uuid>",
            type=non_empty,
            help="The writes of a consumer, such as a server.",
        )
        parser.add_argument(
            "--server",
            metavar="<uuid>",
            type=non_empty,
            help="The writes of a server and all its migrations. Asks Nova for these, as an administrator. "
            "Excludes --consumer.",
        )
        parser.add_argument(
            "--provider",
            metavar="<provider>",
            type=non_empty,
            help="The writes of a provider and of its allocations; its name or uuid, even if it was deleted.",
        )
        parser.add_argument(
            "--project-id",
            metavar="<project_id>",
            type=non_empty,
            help="The writes of the project's consumers.",
        )
        parser.add_argument(
            "--request-id",
            metavar="<request_id>",
            type=non_empty,
            help="The writes of one request: its id here, or the id that its client sent, such as the id of "
            "an event of a server.",
        )
        parser.add_argument(
            "--since",
            metavar="<time>",
            type=non_empty,
            help="Only writes at or after this time, such as 2026-11-26T15:04:05Z.",
        )
        parser.add_argument(
            "--until", metavar="<time>", type=non_empty, help="Only writes before this time."
        )
        parser.add_argument(
            "--limit",
            metavar="<number>",
            default=20,
            type=whole_number(1, 1000),
            help="The most writes, 1 to 1000; with --server also further writes of the last moment. "
            "Default: 20.",
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
        given = {name: getattr(parsed_args, name) for name in asked}
        query = {name: value for name, value in given.items() if value is not None}
        if parsed_args.provider is not None:
            query["provider"] = insight.provider_uuid(self.app, parsed_args.provider)
        if parsed_args.server is None:
            told = self._ask(query)
        else:
            told = self._ask_of_server(parsed_args.server, query)
        writes = text.WordedColumn(told["writes"], text.word_writes)
        return ("writes", "next"), (writes, told["next"])

    def _ask(self, query: Mapping[str, Any]) -> Any:
        return insight.get(self.app, "/-/history", list(query.items()), "writes", "next")

    def _ask_of_server(self, server: str, query: dict[str, Any]) -> Any:
        """Return the newest writes of a server and of its migrations together.

        Each consumer has its own pages. The writes of one moment stay together: that moment is the marker,
        and the next page continues before it.
        """
        if "consumer" in query:
            raise exceptions.CommandError("--server does not go with --consumer.")
        if "marker" in query:
            query["until"] = _read_moment(query.pop("marker"))
        with nova_steps.failures_as_command_errors():
            moves = nova_steps.nova_of(self.app).migrations_of(server)
        consumers = dict.fromkeys([server, *(move["uuid"] for move in moves if move["uuid"])])
        walks = [self._walk({**query, "consumer": uuid}) for uuid in consumers]
        shown: list[Any] = []
        for write in heapq.merge(*walks, key=_moment_of, reverse=True):
            if len(shown) >= query["limit"] and _moment_of(write) != _moment_of(shown[-1]):
                return {"writes": shown, "next": _moment_of(shown[-1])}
            shown.append(write)
        return {"writes": shown, "next": None}

    def _walk(self, query: dict[str, Any]) -> Iterator[Any]:
        """Yield the writes of a consumer, newest first; each page is read when it is needed."""
        while True:
            page = self._ask(query)
            yield from page["writes"]
            if page["next"] is None:
                return
            query["marker"] = page["next"]


def _moment_of(write: Mapping[str, Any]) -> str:
    """Return the time of a write, which sorts as text because all times have the same form."""
    return str(write["at"])


def _read_moment(marker: str) -> str:
    """Return the moment before which a page of a server continues."""
    try:
        datetime.fromisoformat(marker)
    except ValueError:
        raise exceptions.CommandError(
            f"--marker {marker}: with --server it is the `next` of an answer to --server."
        ) from None
    return marker
