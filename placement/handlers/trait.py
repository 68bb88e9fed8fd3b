"""/traits, /traits/{name} and /resource_providers/{uuid}/traits (specification 02 sections 6 and 7)."""

from collections.abc import Iterable
from datetime import datetime

from webob import Response
from webob.multidict import MultiDict

from placement.errors import MalformedRequest
from placement.objects import trait
from placement.objects.trait import ProviderTraits, TraitQuery, TraitRow
from placement.schemas import resource_provider as schemas
from placement.web.request import Request
from placement.web.response import empty_response, json_response, link, newest, shown_response


def list_traits(request: Request) -> Response:
    """GET /traits"""
    wanted = _read_query(request.read_query(schemas.GET_TRAITS))
    if wanted == TraitQuery():
        every = request.traits.listing()
        body = {"traits": every.names}
        return shown_response(request, body, last_modified=newest([every.modified_at]))
    traits = trait.find(request.db, wanted)
    body = {"traits": [found.name for found in traits]}
    return shown_response(request, body, last_modified=_find_newest(traits))


def _read_query(query: MultiDict) -> TraitQuery:
    wanted = TraitQuery()
    if "name" in query:
        operator, colon, operand = query["name"].partition(":")
        if not colon:
            raise MalformedRequest.for_rule("name", given=operator)
        if operator == "in":
            wanted = wanted._replace(names=frozenset(operand.split(",")))
        elif operator == "startswith":
            wanted = wanted._replace(prefix=operand)
    if "associated" in query:
        given = query["associated"]
        if given.lower() not in ("true", "false"):
            raise MalformedRequest.for_rule("associated", given=given)
        wanted = wanted._replace(associated=given.lower() == "true")
    return wanted


def show_trait(request: Request) -> Response:
    """GET /traits/{name}"""
    found = trait.show(request.db, request.path_args["name"])
    return empty_response(request, last_modified=newest([found.created_at]))


def ensure_trait(request: Request) -> Response:
    """PUT /traits/{name}"""
    found, created = trait.ensure(request.db, request.path_args["name"])
    return empty_response(
        request,
        status=201 if created else 204,
        last_modified=newest([found.created_at]),
        location=link(request, f"/traits/{found.name}"),
    )


def delete_trait(request: Request) -> Response:
    """DELETE /traits/{name}"""
    trait.delete(request.db, request.path_args["name"])
    return empty_response(request)


def list_provider_traits(request: Request) -> Response:
    """GET /resource_providers/{uuid}/traits"""
    found = trait.of_provider(request.db, request.path_args["uuid"])
    return shown_response(request, _make_document(found), last_modified=_find_newest(found.traits))


def replace_provider_traits(request: Request) -> Response:
    """PUT /resource_providers/{uuid}/traits, which checks the body before the provider"""
    body = request.read_json(schemas.PUT_TRAITS)
    replaced = trait.replace_of_provider(
        request.db,
        request.path_args["uuid"],
        body["traits"],
        generation=int(body[schemas.GENERATION]),
    )
    modified_at = _find_newest(replaced.traits)
    return json_response(request, _make_document(replaced), last_modified=modified_at)


def delete_provider_traits(request: Request) -> Response:
    """DELETE /resource_providers/{uuid}/traits"""
    trait.delete_of_provider(request.db, request.path_args["uuid"])
    return empty_response(request)


def _make_document(found: ProviderTraits) -> dict[str, object]:
    return {"traits": [each.name for each in found.traits], schemas.GENERATION: found.generation}


def _find_newest(traits: Iterable[TraitRow]) -> datetime:
    """Return when the traits themselves, not their associations, were last modified."""
    return newest(each.modified_at for each in traits)
