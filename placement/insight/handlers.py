"""The handlers of ``/-/``: parse, ask one question, render (specification 07)."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

from webob import Response
from webob.multidict import MultiDict

from placement import telemetry
from placement.handlers import candidate_query
from placement.handlers.avoided import read_avoid
from placement.handlers.explanation import (
    read_relaxable,
    render_explanation,
    render_remedies,
    render_stop,
)
from placement.handlers.resource_provider import parse_filters
from placement.insight import (
    capacity_records,
    feed,
    history,
    links,
    questions,
    schemas,
    survival,
    trees,
    what_if,
)
from placement.insight.affected import AffectedConsumer
from placement.insight.alternative_queries import number_names, parse_queries, read_queries
from placement.insight.questions import Capacity, PlaceCount, ShapeNotFound
from placement.insight.trees import Page, TreesQuery
from placement.insight.what_if import (
    Change,
    Drain,
    Fits,
    Placements,
    Remove,
    Replace,
    Situation,
)
from placement.objects.inventory import records_from
from placement.placing.packing import Packing
from placement.schemas import allocation_candidate
from placement.schemas.questions import DEFAULT_EXAMPLES, NOTHING
from placement.search.work import Work
from placement.web.error_responses import NotFoundHere
from placement.web.hang_up import make_detector
from placement.web.request import Request, refuse_repeated
from placement.web.response import empty_response, json_response, link, tagged_response
from placement.web.search_bounds import bound_reading, bound_search
from placement.web.stopping import bound_wait, is_told_to_stop
from placement.web.validation import is_uuid_like, normalized_uuid

AGGREGATES = ("aggregates", "aggregate")
EVERY_SHAPE = "*"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus' text format. Its library is loaded only where the metrics are made."""


def explain_candidates(request: Request) -> Response:
    """Say why no provider can take the request, and what would help."""
    given = candidate_query.check(request, schemas.EXPLAIN.at(request.version.minor))
    refuse_repeated(given, schemas.EXPLAIN_OWN.keys() - schemas.REPEATABLE)
    queries = read_queries(request, given, _strip_query(given, schemas.EXPLAIN_OWN))
    if "limit" in given:
        # The top bounds the count of each query.
        for query in queries[1:]:
            query.add("limit", candidate_query.get_first(given, "limit"))
    options = parse_queries(request, queries, read_relaxable)
    with bound_search(request) as work, number_names([asked.request for asked in options]):
        found = questions.explain(
            request.picture, options, given.get("about"), request.conf.insight.work_factor, work
        )
    examples = int(given.get("examples", DEFAULT_EXAMPLES))
    avoid = read_avoid(request, {})
    documents = []
    for why, asked in zip(found, options, strict=True):
        trees, number = questions.count_avoided(why, asked.request, avoid)
        document = render_explanation(why, asked.request, examples)
        documents.append(document | {"avoided": {"trees": trees, "candidates": number}})
    if len(documents) == 1:
        return json_response(request, documents[0])
    document = {
        **questions.find_choice(found)._asdict(),
        "complete": all(each["complete"] for each in documents),
        "alternatives": documents,
    }
    return json_response(request, document)


# The names of handlers are the operations of the OpenAPI document: clients are generated from them.
def show_capacity(request: Request) -> Response:
    """Say how often the request fits, one placement after the other, if no other claim comes."""
    if request.query_value("shape") is not None:
        return _show_capacity_of_shapes(request)
    given = candidate_query.check(request, schemas.CAPACITY.at(request.version.minor))
    refuse_repeated(given, schemas.CAPACITY_OWN.keys() - schemas.REPEATABLE)
    queries = read_queries(request, given, _strip_query(given, schemas.CAPACITY_OWN))
    requests = parse_queries(request, queries, candidate_query.parse)
    with bound_search(request) as work, number_names(requests):
        whole, each = questions.count_capacity(
            request.picture,
            requests,
            by_aggregate=given.get("by") in AGGREGATES,
            top=int(given.get("top", schemas.DEFAULT_TOP)),
            avoid=read_avoid(request, {}),
            work_factor=request.conf.insight.work_factor,
            work=work,
        )
    documents = [_render_capacity(of_one) for of_one in each]
    if len(documents) == 1:
        return json_response(request, documents[0])
    document = {
        **_render_packing(whole.packing),
        "places": _render_places(whole.places),
        **_render_avoided(whole),
        "alternatives": documents,
    }
    return json_response(request, document)


def _show_capacity_of_shapes(request: Request) -> Response:
    """Answer for one shape as for its query, for ``*`` by name."""
    given = request.read_query_once(schemas.CAPACITY_OF_SHAPES)
    name = given["shape"]
    if name != EVERY_SHAPE and name not in request.shapes:
        raise ShapeNotFound(name=name)
    shapes = request.shapes if name == EVERY_SHAPE else {name: request.shapes[name]}
    with bound_search(request) as work:
        found = questions.count_shapes(
            request.picture,
            shapes,
            by_aggregate=given.get("by") in AGGREGATES,
            avoid=read_avoid(request, given),
            work_factor=request.conf.insight.work_factor,
            work=work,
        )
    top = int(given.get("top", schemas.DEFAULT_TOP))
    documents = {
        shape: _render_capacity(each._replace(places=questions.pick_best(each.places, top)))
        for shape, each in found.items()
    }
    if name != EVERY_SHAPE:
        return json_response(request, documents[name])
    complete = all(document["complete"] for document in documents.values())
    return json_response(request, {"shapes": documents, "complete": complete})


def show_capacity_history(request: Request) -> Response:
    """Say how often a shape fitted when it was recorded, and when it runs out at this rate."""
    name = request.read_query_once(schemas.CAPACITY_HISTORY)["shape"]
    if name not in request.shapes:
        raise ShapeNotFound(name=name)
    records = capacity_records.read_records(request.db, name)
    line = capacity_records.draw_forecast(records)
    document: dict[str, Any] = {
        "shape": name,
        "records": [{"at": _render_time(at), "count": count} for at, count in records],
        "forecast": None,
    }
    if line is not None:
        document["forecast"] = {
            "records": line.records,
            "per_day": round(line.per_day, 6),
            "runs_out_at": None if line.runs_out_at is None else _render_time(line.runs_out_at),
        }
    return json_response(request, document)


def ask_what_if(request: Request) -> Response:
    """Say what changes would do to a request; nothing is written."""
    request.read_query(NOTHING)
    body = request.read_json(schemas.WHAT_IF)
    avoid = read_avoid(request, body)
    query = _read_query(request, body["query"])
    asked = read_relaxable(query, request.version, request.conf.placement, avoid)
    with bound_reading(request) as reading:
        changes = [
            change
            for given in body["changes"]
            for change in _read_changes(request, given, avoid, reading)
        ]
    with bound_search(request) as work:
        factor = request.conf.insight.work_factor
        outcome = what_if.try_out(request.db, request.picture, changes, asked, avoid, factor, work)
    document = {
        "before": _render_situation(outcome.before),
        "after": _render_situation(outcome.after),
        "homeless": [_render_homeless(consumer) for consumer in outcome.homeless],
        "placed": [{"asked": asked, "placed": placed} for asked, placed in outcome.placed],
        "complete": outcome.complete,
        "avoided": outcome.avoided,
    }
    return json_response(request, document)


def show_survival(request: Request) -> Response:
    """Say which trees, or aggregates, hold consumers that would fit nowhere else."""
    given = request.read_query_once(schemas.SURVIVAL)
    level = given.get("level", "tree")
    with bound_search(request) as work:
        found = survival.survival(
            request.db,
            request.picture,
            by_aggregate=level == "aggregate",
            top=int(given.get("top", schemas.DEFAULT_TOP)),
            avoid=read_avoid(request, given),
            work=work,
        )
    lost = [
        {
            "uuid": loss.place.uuid,
            "name": loss.place.name,
            "consumers": loss.consumers,
            "homeless_count": loss.homeless,
            "homeless": [
                {**_render_homeless(consumer), "stopped": render_stop(stopped)}
                for consumer, stopped in loss.named
            ],
        }
        for loss in found.losses
    ]
    document = {
        "level": level,
        "failures": 1,
        "places": found.places,
        "tried": found.tried,
        "survivable": found.survivable,
        "complete": found.complete,
        "avoided": found.avoided,
        "lost": lost,
    }
    return json_response(request, document)


def show_links(request: Request) -> Response:
    """GET /-/links"""
    request.read_query(NOTHING)
    return json_response(request, links.read(request.conf))


def list_trees(request: Request) -> Response:
    """GET /-/trees"""
    schema = schemas.TREES.at(request.version.minor)
    given = request.read_query(schema)
    refuse_repeated(given, schemas.TREES_OWN)
    for uuid in given.getall("uuid"):
        # The schema would check only the last one of the whole query.
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


def list_changes(request: Request) -> Response:
    """GET /-/changes"""
    given = request.read_query_once(schemas.CHANGES)
    since = feed.Token.parse(given["since"]) if "since" in given else None
    limit = int(given.get("limit", schemas.DEFAULT_CHANGED_TREES))
    asked_s = int(given.get("wait_s", 0)) if request.environ["wsgi.multithread"] else 0
    wait_s = bound_wait(asked_s)
    try:
        found = feed.read_changes(request.db, since, limit)
        # A process of one thread serves nobody while it waits.
        if since is not None and wait_s and not found.trees:
            has_hung_up = make_detector(request.environ)

            def ends_early() -> bool:
                return is_told_to_stop() or has_hung_up()

            if request.wait_for_change(found.next, wait_s, ends_early):
                found = feed.read_changes(request.db, since, limit)
    except feed.TokenTooOld:
        telemetry.CHANGES.count("too_old")
        raise
    telemetry.CHANGES.count("changed" if found.trees else "nothing")
    return json_response(request, _render_changes(found))


def list_history(request: Request) -> Response:
    """GET /-/history"""
    given = request.read_query_once(schemas.HISTORY)
    limit = int(given.get("limit", schemas.DEFAULT_WRITES))
    found = history.read_writes(request.db, given, limit)
    writes = [_render_write(each) for each in found.writes]
    return json_response(request, {"writes": writes, "next": found.next})


def show_metrics(request: Request) -> Response:
    """GET /-/metrics"""
    request.read_query(NOTHING)
    assert request.metrics is not None, "the route is there only with the metrics"
    headers = [("Content-Type", METRICS_TYPE), ("Cache-Control", "no-cache")]
    insight = request.conf.insight
    if insight.metrics_per_provider or insight.metrics_per_consumer:
        return Response(status=200, headerlist=headers, app_iter=request.metrics())
    body = b"".join(request.metrics())
    headers.append(("Content-Length", str(len(body))))
    return Response(status=200, headerlist=headers, app_iter=[body])


# -- what is asked -------------------------------------------------------------------------------


def _strip_query(given: MultiDict, own: dict[str, Any]) -> MultiDict:
    """Return the query of the search alone, without the parameters of the question about it."""
    return MultiDict((name, value) for name, value in given.items() if name not in own)


def _read_query(request: Request, text: str) -> MultiDict:
    schema = allocation_candidate.GET.at(request.version.minor)
    return candidate_query.check(request, schema, text)


def _read_changes(
    request: Request, given: Mapping[str, Any], avoid: frozenset[str], reading: Work
) -> Iterator[Change]:
    if "drain" in given:
        yield Drain(normalized_uuid(given["drain"]))
    elif "remove" in given:
        yield Remove(normalized_uuid(given["remove"]))
    elif "place" in given:
        reading.go_on()
        query = _read_query(request, given["place"])
        placed = candidate_query.parse(query, request.version, request.conf.placement)
        yield Placements(placed.avoiding(avoid), int(given.get("times", 1)))
    for key, records in given.get("inventories", {}).items():
        yield Replace(_normalize_key(key), inventories=records_from(records))
    for key, names in given.get("traits", {}).items():
        yield Replace(_normalize_key(key), traits=frozenset(names))
    for key, uuids in given.get("aggregates", {}).items():
        yield Replace(_normalize_key(key), aggregates=frozenset(map(normalized_uuid, uuids)))


def _normalize_key(key: str) -> str:
    """Return the uuid of a provider that a key names; a key may also be what is no uuid."""
    return normalized_uuid(key) if is_uuid_like(key) else key


# -- what is answered ----------------------------------------------------------------------------


def _render_packing(packing: Packing | Fits) -> dict[str, Any]:
    return {"count": packing.count, "exact": packing.exact, "complete": packing.complete}


def _render_places(places: Iterable[PlaceCount]) -> list[dict[str, Any]]:
    return [{"uuid": uuid, "name": name, "count": count} for uuid, name, count in places]


def _render_capacity(counted: Capacity) -> dict[str, Any]:
    packing = counted.packing
    return {
        **_render_packing(packing),
        "places": _render_places(counted.places),
        "limits": packing.limits,
        "stranded": packing.stranded,
        "largest": packing.largest,
        **_render_avoided(counted),
    }


def _render_avoided(counted: Capacity) -> dict[str, Any]:
    """Return how many trees are avoided, and how much of a count is in them."""
    return {"avoided": {"trees": counted.avoided.trees, "count": counted.avoided.number}}


def _render_time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _render_situation(met: Situation) -> dict[str, Any]:
    document = {"candidates": asdict(met.candidates), "capacity": _render_packing(met.fits)}
    return document if met.remedies is None else document | render_remedies(met.remedies)


def _render_homeless(consumer: AffectedConsumer) -> dict[str, Any]:
    document = {
        "uuid": consumer.uuid,
        "type": consumer.type,
        "project": consumer.project,
        "user": consumer.user,
        "allocations": consumer.lost,
    }
    return document | ({"groups": consumer.kept_out_by} if consumer.kept_out_by else {})


def _render_changes(found: feed.FeedPage) -> dict[str, Any]:
    trees = [
        {
            "root": tree.root_uuid,
            "changed": "usage" if tree.usage_alone else "stock",
            "gone": tree.gone,
        }
        for tree in found.trees
    ]
    return {"next": found.next.show(), "trees": trees, "complete": found.complete}


def _render_write(written: history.Written) -> dict[str, Any]:
    return {
        "at": written.at,
        "by": {"user_id": written.user, "project_id": written.project},
        "request_id": written.request_id,
        "global_request_id": written.global_request_id,
        "method": written.method,
        "route": written.route,
        "consumer_uuid": written.consumer_uuid,
        "provider_uuid": written.provider_uuid,
        "generation": {"before": written.generations[0], "after": written.generations[1]},
        "before": written.before,
        "after": written.after,
    }


def _answer_page(request: Request, page: Page) -> Response:
    body = None if page.trees is None else {"trees": page.trees, "next": page.next}
    return tagged_response(request, body, page.tag)


# -- the files of the web page (specification 07 section 7) ----------------------------------------

EXPLORER = "/-/explorer"
FIRST_PAGE = "index.html"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Scripts, styles and answers come from this service alone, and text never becomes markup.
PROTECTION = [
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
]


def show_file(request: Request) -> Response:
    """GET /-/explorer/, and every file below it"""
    file = _read_files().get(request.path_args.get("path", FIRST_PAGE))
    if file is None:
        raise NotFoundHere
    content, media_type, tag = file
    headers = [("ETag", f'"{tag}"'), ("Cache-Control", "no-cache"), *PROTECTION]
    if tag in request.known_tags():
        return Response(status=304, headerlist=headers, app_iter=[])
    headers += [("Content-Type", media_type), ("Content-Length", str(len(content)))]
    return Response(status=200, headerlist=headers, app_iter=[content])


def lead_to_page(request: Request) -> Response:
    """GET /-/explorer: relative addresses in the page need the slash at the end."""
    response = empty_response(request, status=308, location=link(request, f"{EXPLORER}/"))
    # WSGI asks for a type with every status but 204 and 304.
    response.headerlist.append(("Content-Type", MEDIA_TYPES[".html"]))
    return response


@lru_cache(maxsize=1)
def _read_files() -> Mapping[str, tuple[bytes, str, str]]:
    """Return content, media type and tag of the package's files, by path; no other is ever opened."""
    found = {}
    with resources.as_file(resources.files("placement") / "explorer") as folder:
        for path in folder.rglob("*.*"):
            name = PurePosixPath(path.relative_to(folder).as_posix())
            if name.suffix in MEDIA_TYPES:
                content = path.read_bytes()
                tag = hashlib.sha256(content).hexdigest()[:32]
                found[str(name)] = content, MEDIA_TYPES[name.suffix], tag
    return found
