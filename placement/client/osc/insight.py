"""The requests of the commands, by the client of osc-placement, at a version that has searches."""

import argparse
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID

from osc_lib import exceptions

from placement.client.sending import require_names

NEWEST = "1.39"
TOO_OLD = 10
"""Minor versions below this have no searches; the default of osc-placement is 1.0."""


def add_avoid_option(parser: argparse.ArgumentParser) -> None:
    """Add --avoid: other traits than those of the service, an empty one for none."""
    parser.add_argument(
        "--avoid",
        metavar="<trait>",
        type=lambda given: [name for name in given.split(",") if name],
        help="Hosts with one of these traits, between commas, take nothing new; empty for no trait. Default: "
        "those that the service names, such as COMPUTE_STATUS_DISABLED.",
    )


def show_avoided(shown: dict[str, Any], trees: int, of_these: int | None = None) -> None:
    """Add how many trees take nothing new, if there are any, and how much of the answer is there."""
    if trees:
        shown["avoided"] = trees
    if trees and of_these is not None:
        shown["of these in avoided"] = of_these


def get(app: Any, path: str, query: Sequence[tuple[str, str]]) -> Any:
    """Return the document of a GET."""
    return _ask(app, "GET", f"{path}?{urlencode(query)}" if query else path)


def post(app: Any, path: str, body: Any) -> Any:
    """Return the document of a POST."""
    return _ask(app, "POST", path, json=body)


def consumer_generation(app: Any, uuid: str) -> int:
    """Return the generation of a consumer, 0 if it holds nothing."""
    url = f"/allocations/{quote(uuid)}"
    require_names(url)
    told = app.client_manager.placement.request("GET", url, version=NEWEST).json()
    return int(told.get("consumer_generation", 0))


def _ask(app: Any, method: str, url: str, **more: Any) -> Any:
    require_names(url)
    client = app.client_manager.placement
    version = str(client.api_version)
    minor = version.partition(".")[2]
    if not minor.isdigit() or int(minor) < TOO_OLD:
        version = NEWEST
    return client.request(method, url, version=version, **more).json()


def provider_uuid(app: Any, given: str) -> str:
    """Return the uuid of the one provider with this uuid or name.

    :raises CommandError: the name is empty, or none or several have it
    """
    if not given.strip():
        raise exceptions.CommandError("An empty name or uuid selects no resource provider.")
    try:
        return str(UUID(given))
    except ValueError:
        pass
    found = _ask(app, "GET", f"/resource_providers?name={quote(given, safe='')}")["resource_providers"]
    if not found:
        raise exceptions.CommandError(f"No resource provider named {given}.")
    if len(found) > 1:
        raise exceptions.CommandError(
            f"{len(found)} resource providers were found by the name {given}: give the uuid."
        )
    return str(found[0]["uuid"])
