"""The requests that the commands send through osc-placement's client, at a version that has searches."""

import argparse
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID

from keystoneauth1.exceptions import HttpError
from osc_lib import exceptions

from placement.client.api import CHECK_IDENTITY, problem_of
from placement.client.argument_types import trait_names
from placement.client.osc import text
from placement.client.sending import require_names
from placement.printable import escape_unprintable

NEWEST = "1.39"
TOO_OLD = 10
"""Minor versions below this one lack searches; the default of osc-placement is 1.0."""


def add_avoid_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--avoid``, which replaces the service's avoided traits; an empty value avoids nothing."""
    parser.add_argument(
        "--avoid",
        metavar="<trait>",
        action="extend",
        type=trait_names,
        help="A tree whose root has this trait takes nothing new. Several between commas; may be repeated. "
        "Empty, as in --avoid '': no tree is avoided. Default: the traits that the service names, such as "
        "COMPUTE_STATUS_DISABLED.",
    )


def show_avoided(shown: dict[str, Any], trees: int, avoid: Sequence[str] | None) -> None:
    """Add how many trees were avoided.

    :param avoid: the traits that the user named; the output also reports that they avoid nothing.
    """
    if trees or avoid:
        shown["avoided"] = text.WordedColumn(trees, text.word_avoided)


def show_part_in_avoided(shown: dict[str, Any], trees: int, part: int) -> None:
    """Add how much of an answer is in trees that other requests avoid, if there are any."""
    if trees:
        shown |= {"avoided": trees, "of these in avoided": part}


def get(app: Any, path: str, query: Sequence[tuple[str, str]], *members: str) -> Any:
    """Return the document of a GET, which has these members."""
    return _ask(app, "GET", f"{path}?{urlencode(query)}" if query else path, *members)


def post(app: Any, path: str, body: Any, *members: str) -> Any:
    """Return the document of a POST, which has these members."""
    return _ask(app, "POST", path, *members, json=body)


def consumer_generation(app: Any, uuid: str) -> int:
    """Return the generation of a consumer, 0 if it holds nothing."""
    url = f"/allocations/{quote(uuid)}"
    require_names(url)
    told = _send(app, "GET", url, NEWEST, "allocations")
    return int(told.get("consumer_generation", 0))


def _ask(app: Any, method: str, url: str, *members: str, **more: Any) -> Any:
    require_names(url)
    client = app.client_manager.placement
    version = str(client.api_version)
    minor = version.partition(".")[2]
    if not minor.isdigit() or int(minor) < TOO_OLD:
        version = NEWEST
    return _send(app, method, url, version, *members, **more)


def _send(
    app: Any, method: str, url: str, version: str, *members: str, **more: Any
) -> dict[str, Any]:
    """Return the document of an answer, which has these members.

    :raises CommandError: the answer is not of Placement, such as the page of a proxy
    """
    asked = f"{method} {url}"
    try:
        response = app.client_manager.placement.request(method, url, version=version, **more)
        document = response.json()
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        # The client reads the document of a refusal, whatever program has sent it.
        raise exceptions.CommandError(_describe_foreign(asked, _find_refusal(error))) from error
    if not isinstance(document, dict) or not document:
        raise exceptions.CommandError(_describe_foreign(asked, None))
    for name in members:
        if name not in document:
            raise exceptions.CommandError(
                f"What answers {asked} is not Placement: its document has no {name!r}. Is its endpoint right?"
            )
    return document


def _find_refusal(error: BaseException | None) -> HttpError | None:
    """Return the refusal whose document could not be read, or None if the request was not refused."""
    while error is not None and not isinstance(error, HttpError):
        error = error.__context__
    return error


def _describe_foreign(asked: str, refusal: HttpError | None) -> str:
    """Describe an answer that is not of Placement."""
    if refusal is None:
        return f"What answers {asked} is not Placement. Is its endpoint right?"
    problem = problem_of(refusal.response)
    words = escape_unprintable(problem.words)
    if problem.status in (401, 403):
        return f"{asked}: {words} {CHECK_IDENTITY}"
    return f"What answers {asked} is not Placement: {words} Is its endpoint right?"


def provider_uuid(app: Any, given: str) -> str:
    """Return the uuid of the one provider with this uuid or name.

    :raises CommandError: the name is empty, unknown, or the name of several providers
    """
    if not given.strip():
        raise exceptions.CommandError("An empty name or uuid selects no resource provider.")
    try:
        return str(UUID(given))
    except ValueError:
        pass
    url = f"/resource_providers?name={quote(given, safe='')}"
    found = _ask(app, "GET", url, "resource_providers")["resource_providers"]
    if not found:
        raise exceptions.CommandError(f"No resource provider named {given}.")
    if len(found) > 1:
        raise exceptions.CommandError(
            f"{len(found)} resource providers were found by the name {given}: give the uuid."
        )
    return str(found[0]["uuid"])
