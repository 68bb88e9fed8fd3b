"""The handlers of ``/-/trees`` (specification 07 section 5)."""

from dataclasses import replace

from webob import Response

from placement.extensions.trees import schemas, trees
from placement.extensions.trees.trees import Page, TreesQuery
from placement.handlers.resource_provider import parse_filters
from placement.web.request import Request, refuse_repeated
from placement.web.response import tagged_response
from placement.web.validation import normalized_uuid


def list_trees(request: Request) -> Response:
    """GET /-/trees"""
    schema = schemas.TREES.at(request.version.minor)
    given = request.read_query(schema)
    refuse_repeated(given, schemas.TREES_OWN)
    for uuid in given.getall("uuid"):
        # The schema would check only the last value of the whole query.
        request.check_query(schema, {"uuid": uuid})
    query = TreesQuery(
        providers=replace(parse_filters(given, request.version), uuid=None),
        uuids=frozenset(map(normalized_uuid, given.getall("uuid"))) or None,
        limit=int(given.get("limit", schemas.DEFAULT_LIMIT)),
        after=given.get("after"),
        allocations=given.get("allocations") == "true",
    )
    page = trees.find(request.db, request.picture, query, known=request.known_tags())
    return _answer_page(request, page)


def show_tree(request: Request) -> Response:
    """GET /-/trees/{uuid}"""
    given = request.read_query_once(schemas.TREE)
    page = trees.show(
        request.db,
        request.path_args["uuid"],
        allocations=given.get("allocations") == "true",
        known=request.known_tags(),
    )
    return _answer_page(request, page)


def _answer_page(request: Request, page: Page) -> Response:
    body = None if page.trees is None else {"trees": page.trees, "next": page.next}
    return tagged_response(request, body, page.tag)
