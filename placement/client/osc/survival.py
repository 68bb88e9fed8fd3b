"""``openstack placement survival`` (specification 07 section 8)."""

import argparse
from typing import Any

from osc_lib.command import command

from placement.client.argument_types import whole_number
from placement.client.osc import candidates, insight, text


class ShowPlacementSurvival(command.ShowOne):
    """List the hosts that must not fail: some of their consumers would fit nowhere else.

    Each host or aggregate is tested alone.

    Nothing is moved. Needs a service that has ``[insight]/enabled``.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument(
            "--level", choices=["tree", "aggregate"], default="tree", help="Default: tree."
        )
        parser.add_argument(
            "--top",
            metavar="<number>",
            type=whole_number(1, 1000),
            default=20,
            help="Places shown, worst first. Default: 20.",
        )
        insight.add_avoid_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> candidates.Fields:
        """Ask, and show the answer."""
        query = [("level", parsed_args.level), ("top", parsed_args.top)]
        if parsed_args.avoid is not None:
            query.append(("avoid", ",".join(parsed_args.avoid)))
        names = ("places", "tried", "survivable", "complete")
        told = insight.get(self.app, "/-/survival", query, *names, "lost")
        shown: dict[str, Any] = {name: told[name] for name in names}
        insight.show_avoided(shown, told.get("avoided", 0), parsed_args.avoid)
        shown["lost"] = text.WordedColumn(told["lost"], text.word_losses)
        return tuple(shown), tuple(shown.values())
