"""/resource_classes and /resource_classes/{name} (specification 02 section 8)."""

from typing import Any

from webob import Response

from placement.errors import MalformedRequest
from placement.objects import resource_class
from placement.schemas.resource_provider import CUSTOM_CLASS
from placement.web.request import Request
from placement.web.response import empty_response, json_response, link, newest, shown_response


def list_classes(request: Request) -> Response:
    """GET /resource_classes"""
    classes = resource_class.every(request.db)
    body = {"resource_classes": [_make_document(request, each.name) for each in classes]}
    return shown_response(request, body, last_modified=newest(each.modified_at for each in classes))


def create_class(request: Request) -> Response:
    """POST /resource_classes"""
    name = request.read_json(CUSTOM_CLASS)["name"]
    resource_class.create(request.db, name)
    return empty_response(request, status=201, location=_link_class(request, name))


def show_class(request: Request) -> Response:
    """GET /resource_classes/{name}"""
    found = resource_class.show(request.db, request.path_args["name"])
    body = _make_document(request, found.name)
    return shown_response(request, body, last_modified=newest([found.modified_at]))


def rename_class(request: Request) -> Response:
    """PUT /resource_classes/{name} up to 1.6"""
    new_name = request.read_json(CUSTOM_CLASS)["name"]
    resource_class.rename(request.db, request.path_args["name"], new_name)
    return json_response(request, _make_document(request, new_name))


def ensure_class(request: Request) -> Response:
    """PUT /resource_classes/{name} from 1.7 on: only the name in the path counts."""
    name = request.path_args["name"]
    if failure := CUSTOM_CLASS.failure({"name": name}):
        place = {"field": failure.field, "keyword": failure.keyword}
        raise MalformedRequest.for_rule("body", detail=failure, **place)
    created = resource_class.ensure(request.db, name)
    status = 201 if created else 204
    return empty_response(request, status=status, location=_link_class(request, name))


def delete_class(request: Request) -> Response:
    """DELETE /resource_classes/{name}"""
    resource_class.delete(request.db, request.path_args["name"])
    return empty_response(request)


def _link_class(request: Request, name: str) -> str:
    return link(request, f"/resource_classes/{name}")


def _make_document(request: Request, name: str) -> dict[str, Any]:
    return {"name": name, "links": [{"rel": "self", "href": _link_class(request, name)}]}
