"""The handlers of explain, capacity, what-if and survival: parse, ask one question, render."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from webob import Response
from webob.multidict import MultiDict

from placement.extensions.questions import capacity_records, questions, schemas, survival, what_if
from placement.extensions.questions.affected import AffectedConsumer
from placement.extensions.questions.alternative_queries import (
    number_names,
    parse_queries,
    read_queries,
)
from placement.extensions.questions.questions import Capacity, PlaceCount, ShapeNotFound
from placement.extensions.questions.what_if import (
    Change,
    Drain,
    Fits,
    Placements,
    Remove,
    Replace,
    Situation,
)
from placement.handlers import candidate_query
from placement.handlers.avoided import read_avoid
from placement.handlers.explanation import (
    read_relaxable,
    render_explanation,
    render_remedies,
    render_stop,
)
from placement.objects.inventory import records_from
from placement.placing.packing import Packing
from placement.schemas import allocation_candidate
from placement.schemas.questions import DEFAULT_EXAMPLES, NOTHING
from placement.search.work import Work
from placement.web.request import Request, refuse_repeated
from placement.web.response import json_response
from placement.web.search_bounds import bound_reading, bound_search
from placement.web.validation import is_uuid_like, normalized_uuid

AGGREGATES = ("aggregates", "aggregate")
EVERY_SHAPE = "*"


def explain_candidates(request: Request) -> Response:
    """Explain why no provider can take the request, and what would help."""
    given = candidate_query.check(request, schemas.EXPLAIN.at(request.version.minor))
    refuse_repeated(given, schemas.EXPLAIN_OWN.keys() - schemas.REPEATABLE)
    queries = read_queries(request, given, _strip_query(given, schemas.EXPLAIN_OWN))
    if "limit" in given:
        # The parameter `top` bounds the count of each query.
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
    """Count how often the request fits, one placement after the other, without other claims."""
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
    """Answer for one shape as for its query, and for ``*`` by name."""
    given = request.read_query_once(schemas.CAPACITY_OF_SHAPES)
    name = given["shape"]
    if name != EVERY_SHAPE and name not in request.begun["questions"]:
        raise ShapeNotFound(name=name)
    shapes = (
        request.begun["questions"]
        if name == EVERY_SHAPE
        else {name: request.begun["questions"][name]}
    )
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
    """Return how often a shape fitted at each record, and when it runs out at this rate."""
    name = request.read_query_once(schemas.CAPACITY_HISTORY)["shape"]
    if name not in request.begun["questions"]:
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
    """Return the effect of changes on a request; nothing is written."""
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
    """Return the trees, or aggregates, with consumers that would fit nowhere else."""
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
    """Return the uuid of a provider that a key names, or the key itself if it is not a uuid."""
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


# -- the files of the web page (specification 07 section 7) ----------------------------------------
