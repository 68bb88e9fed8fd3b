"""``openstack resource provider tree show`` and ``drain check`` (specification 07 section 8)."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

from osc_lib.command import command

from placement.client.argument_types import non_empty
from placement.client.osc import candidates, insight, text
from placement.printable import escape_unprintable

ANYTHING = "resources=VCPU:1"
"""The request of a drain check without options."""

NAME_WIDTH = 28


class ShowResourceProviderTree(command.Lister):
    """Draw the whole tree of a resource provider, with the use of each inventory.

    Needs a service that has ``[insight]/enabled``.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "uuid",
            metavar="<uuid>",
            type=non_empty,
            help="Any provider of the tree: uuid or name.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Any]:
        """Ask, and draw the answer."""
        uuid = insight.provider_uuid(self.app, parsed_args.uuid)
        told = insight.get(self.app, f"/-/trees/{uuid}", [], "trees")
        names = ("provider", "uuid", "resource class", "used", "capacity", "full")
        rows = [row for tree in told["trees"] for row in _make_rows(tree["providers"])]
        if parsed_args.formatter == "table":
            # A terminal of 80 columns is too narrow for the uuids.
            return names[:1] + names[2:], [row[:1] + row[2:] for row in rows]
        return names, rows


def _make_rows(providers: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each class of each provider, and one row for a provider without inventory."""
    drawn = _draw_tree(providers)
    for provider in providers:
        name = text.WordedColumn(provider["name"], partial(_give_line, drawn[provider["uuid"]]))
        if not provider["inventories"]:
            yield name, provider["uuid"], "", "", "", ""
        for number, (resource_class, held) in enumerate(provider["inventories"].items()):
            shown = name if not number else text.WordedColumn(provider["name"], lambda _: "")
            capacity = int((held["total"] - held["reserved"]) * held["allocation_ratio"])
            share = held["used"] / capacity if capacity else float(bool(held["used"]))
            full = text.WordedColumn(round(share, 3), text.draw_bar)
            yield shown, provider["uuid"], resource_class, held["used"], capacity, full


def _give_line(drawn: str, _name: str) -> str:
    return drawn


def _draw_tree(providers: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return each provider's name after the drawn lines that lead to it, parents first."""
    children: dict[str | None, list[Mapping[str, Any]]] = {}
    for provider in providers:
        children.setdefault(provider["parent"], []).append(provider)
    drawn: dict[str, str] = {}

    def draw(provider: Mapping[str, Any], before: str, below: str) -> None:
        drawn[provider["uuid"]] = f"{before}{escape_unprintable(provider['name'])}"[:NAME_WIDTH]
        mine = children.get(provider["uuid"], [])
        for child in mine:
            last = child is mine[-1]
            draw(child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "))

    for root in children.get(None, []):
        draw(root, "", "")
    return drawn


def are_counted_whole(told: dict[str, Any]) -> bool:
    """Return whether both counts of a what-if are complete, so that they can be compared."""
    return all(told[side]["capacity"]["complete"] for side in ("before", "after"))


class CheckResourceProviderDrain(command.ShowOne):
    """List the consumers that would fit nowhere if a provider's tree were emptied and closed.

    Nothing is moved. With the options of ``allocation candidate list``, also count how often such a request
    fits before and after. Needs a service that has ``[insight]/enabled``.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "uuid",
            metavar="<uuid>",
            type=non_empty,
            help="Any provider of the tree: uuid or name.",
        )
        candidates.add_query_options(parser)
        insight.add_avoid_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> candidates.Fields:
        """Ask, and show the answer."""
        uuid = insight.provider_uuid(self.app, parsed_args.uuid)
        asked = bool(getattr(parsed_args, "groups", {}))
        query = urlencode(candidates.query_of(parsed_args)) if asked else ANYTHING
        body: dict[str, Any] = {"changes": [{"drain": uuid}], "query": query}
        if parsed_args.avoid is not None:
            body["avoid"] = parsed_args.avoid
        told = insight.post(self.app, "/-/what-if", body, "homeless", "complete")
        shown: dict[str, Any] = {
            "homeless": text.WordedColumn(told["homeless"], text.word_consumers),
            "complete": told["complete"] and (not asked or are_counted_whole(told)),
        }
        insight.show_avoided(shown, told.get("avoided", 0), parsed_args.avoid)
        if asked:
            for side in ("before", "after"):
                shown[f"fits {side}"] = text.CountColumn(told[side]["capacity"])
        return tuple(shown), tuple(shown.values())
