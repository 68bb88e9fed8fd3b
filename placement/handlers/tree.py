"""/-/trees and /-/trees/{uuid} (specification 07 section 5)."""

from dataclasses import replace

from webob import Response

from placement.handlers.resource_provider import provider_query
from placement.objects import tree
from placement.objects.tree import Page, TreesQuery
from placement.schemas import tree as schemas
from placement.web.request import Request
from placement.web.response import tagged_response

DEFAULT_LIMIT = 100


def list_trees(request: Request) -> Response:
    """GET /-/trees"""
    schema = schemas.LIST.at(request.version.minor)
    given = request.read_query(schema)
    for uuid in given.getall("uuid"):
        # The schema has seen the last one.
        request.check_query(schema, {"uuid": uuid})
    query = TreesQuery(
        providers=replace(provider_query(given, request.version), uuid=None),
        uuids=frozenset(given.getall("uuid")) or None,
        limit=int(given.get("limit", DEFAULT_LIMIT)),
        after=given.get("after"),
        allocations=given.get("allocations") == "true",
    )
    page = tree.find(request.db, request.picture, query, known=request.known_tags())
    return _shown(request, page)


def show_tree(request: Request) -> Response:
    """GET /-/trees/{uuid}"""
    given = request.read_query(schemas.SHOW)
    page = tree.show(
        request.db,
        request.path_args["uuid"],
        allocations=given.get("allocations") == "true",
        known=request.known_tags(),
    )
    return _shown(request, page)


def _shown(request: Request, page: Page) -> Response:
    body = None if page.trees is None else {"trees": page.trees, "next": page.next}
    return tagged_response(request, body, page.tag)
