"""The handlers of ``/-/``: parse, ask one question, render (specification 07)."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

from oslo_config import cfg
from webob import Response
from webob.multidict import MultiDict

from placement import errors
from placement.handlers import candidate_query
from placement.handlers.candidate_query import GROUP_KEY
from placement.handlers.query_syntax import ANY_PREFIX, ANY_TRAITS_SINCE
from placement.handlers.resource_provider import provider_query
from placement.handlers.search_bounds import bounded, bounded_reading
from placement.insight import history, obstacles, questions, schemas, trees, what_if
from placement.insight import survival as survivals
from placement.insight.history import Forecast
from placement.insight.moving import KeptOut
from placement.insight.packing import Packing
from placement.insight.questions import Diagnosis, Explanation, PlaceCount, ShapeNotFound
from placement.insight.remedies import Piece, RelaxableRequest, Relaxation, Remedies
from placement.insight.survival import Survival
from placement.insight.trees import Page, TreesQuery
from placement.insight.what_if import (
    AffectedConsumer,
    Change,
    Drain,
    Placements,
    Remove,
    Replace,
    Situation,
    TrialOutcome,
)
from placement.objects.inventory import records_from
from placement.schemas import allocation_candidate
from placement.search.request import CandidateRequest
from placement.search.tally import Stop, Stopped, Tally
from placement.search.work import Work
from placement.web.error_responses import NotFoundHere
from placement.web.microversion import Version
from placement.web.request import Request
from placement.web.response import empty_response, json_response, link, tagged_response
from placement.web.validation import is_uuid_like, normalized_uuid

KEPT_OUT = "GROUP_RULE"
KEPT_OUT_MEANING = (
    "There is room in some tree, but the rules of the consumer's groups keep it out of there."
)

AFTER_COMBINING = frozenset({Stop.NO_COMBINATION, Stop.WORK_LIMIT})
AGGREGATES = ("aggregates", "aggregate")
EVERY_SHAPE = "*"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus' text format. Its library is loaded only where the metrics are made."""


def explain(request: Request) -> Response:
    """Say why no provider can take the request, and what would help."""
    given = candidate_query.checked(request, schemas.EXPLAIN.at(request.version.minor))
    asked = relaxable(
        _search_query(given, schemas.EXPLAIN_OWN), request.version, request.conf.placement
    )
    with bounded(request) as work:
        found = questions.explain(
            request.picture, asked, given.get("about"), request.conf.insight.work_factor, work
        )
    examples = int(given.get("examples", schemas.DEFAULT_EXAMPLES))
    return json_response(request, explanation(found, asked.request, examples))


def capacity(request: Request) -> Response:
    """Say how often the request fits, one placement after the other, if no other claim comes."""
    if request.query_value("shape") is not None:
        return _capacity_of_shapes(request)
    given = candidate_query.checked(request, schemas.CAPACITY.at(request.version.minor))
    query = _search_query(given, schemas.CAPACITY_OWN)
    with bounded(request) as work:
        packing, places = questions.capacity(
            request.picture,
            candidate_query.parsed(query, request.version, request.conf.placement),
            by_aggregate=given.get("by") in AGGREGATES,
            top=int(given.get("top", schemas.DEFAULT_TOP)),
            work_factor=request.conf.insight.work_factor,
            work=work,
        )
    return json_response(request, _capacity(packing, places))


def _capacity_of_shapes(request: Request) -> Response:
    """Answer for one shape as for its query, for ``*`` by name."""
    given = request.read_query(schemas.CAPACITY_OF_SHAPES)
    name = given["shape"]
    if name != EVERY_SHAPE and name not in request.shapes:
        raise ShapeNotFound(name=name)
    shapes = request.shapes if name == EVERY_SHAPE else {name: request.shapes[name]}
    with bounded(request) as work:
        found = questions.capacity_of_shapes(
            request.picture,
            shapes,
            by_aggregate=given.get("by") in AGGREGATES,
            work_factor=request.conf.insight.work_factor,
            work=work,
        )
    top = int(given.get("top", schemas.DEFAULT_TOP))
    documents = {
        shape: _capacity(packing, questions.best(places, top))
        for shape, (packing, places) in found.items()
    }
    if name != EVERY_SHAPE:
        return json_response(request, documents[name])
    complete = all(document["complete"] for document in documents.values())
    return json_response(request, {"shapes": documents, "complete": complete})


def capacity_history(request: Request) -> Response:
    """Say how often a shape fitted when it was recorded, and when it runs out at this rate."""
    name = request.read_query(schemas.HISTORY)["shape"]
    if name not in request.shapes:
        raise ShapeNotFound(name=name)
    records = history.history(request.db, name)
    line = history.forecast(records)
    document = {
        "shape": name,
        "records": [{"at": _time(at), "count": count} for at, count in records],
        "forecast": None if line is None else _forecast(line),
    }
    return json_response(request, document)


def try_out(request: Request) -> Response:
    """Say what changes would do to a request; nothing is written."""
    request.read_query(schemas.NOTHING)
    body = request.read_json(schemas.WHAT_IF)
    query = _query_in_body(request, body["query"])
    asked = relaxable(query, request.version, request.conf.placement)
    with bounded_reading(request) as reading:
        changes = [
            change for given in body["changes"] for change in _changes(request, given, reading)
        ]
    with bounded(request) as work:
        outcome = what_if.try_out(
            request.db, request.picture, changes, asked, request.conf.insight.work_factor, work
        )
    return json_response(request, _outcome(outcome))


def survival(request: Request) -> Response:
    """Say which trees, or aggregates, hold consumers that would fit nowhere else."""
    given = request.read_query(schemas.SURVIVAL)
    level = given.get("level", "tree")
    with bounded(request) as work:
        found = survivals.survival(
            request.db,
            request.picture,
            by_aggregate=level == "aggregate",
            top=int(given.get("top", schemas.DEFAULT_TOP)),
            work=work,
        )
    return json_response(request, {"level": level, "failures": 1, **_survival(found)})


def list_trees(request: Request) -> Response:
    """GET /-/trees"""
    schema = schemas.TREES.at(request.version.minor)
    given = request.read_query(schema)
    for uuid in given.getall("uuid"):
        # With the whole query the schema checks the last one only.
        request.check_query(schema, {"uuid": uuid})
    query = TreesQuery(
        providers=replace(provider_query(given, request.version), uuid=None),
        uuids=frozenset(map(normalized_uuid, given.getall("uuid"))) or None,
        limit=int(given.get("limit", schemas.DEFAULT_LIMIT)),
        after=given.get("after"),
        allocations=given.get("allocations") == "true",
    )
    page = trees.find(request.db, request.picture, query, known=request.known_tags())
    return _page(request, page)


def show_tree(request: Request) -> Response:
    """GET /-/trees/{uuid}"""
    given = request.read_query(schemas.TREE)
    page = trees.show(
        request.db,
        request.path_args["uuid"],
        allocations=given.get("allocations") == "true",
        known=request.known_tags(),
    )
    return _page(request, page)


def show_metrics(request: Request) -> Response:
    """GET /-/metrics"""
    request.read_query(schemas.NOTHING)
    assert request.metrics is not None, "the route is there only with the metrics"
    headers = [("Content-Type", METRICS_TYPE), ("Cache-Control", "no-cache")]
    if request.conf.insight.metrics_per_provider:
        return Response(status=200, headerlist=headers, app_iter=request.metrics())
    body = b"".join(request.metrics())
    headers.append(("Content-Length", str(len(body))))
    return Response(status=200, headerlist=headers, app_iter=[body])


# -- what is asked -------------------------------------------------------------------------------


def _search_query(given: MultiDict, own: dict[str, Any]) -> MultiDict:
    """Return the query of the search alone, without the parameters of the question about it."""
    return MultiDict((name, value) for name, value in given.items() if name not in own)


def _query_in_body(request: Request, text: str) -> MultiDict:
    schema = allocation_candidate.GET.at(request.version.minor)
    return candidate_query.checked(request, schema, text)


def _changes(request: Request, given: Mapping[str, Any], reading: Work) -> Iterator[Change]:
    if "drain" in given:
        yield Drain(normalized_uuid(given["drain"]))
    elif "remove" in given:
        yield Remove(normalized_uuid(given["remove"]))
    elif "place" in given:
        reading.go_on()
        query = _query_in_body(request, given["place"])
        placed = candidate_query.parsed(query, request.version, request.conf.placement)
        yield Placements(placed, int(given.get("times", 1)))
    for key, records in given.get("inventories", {}).items():
        yield Replace(_provider(key), inventories=records_from(records))
    for key, names in given.get("traits", {}).items():
        yield Replace(_provider(key), traits=frozenset(names))
    for key, uuids in given.get("aggregates", {}).items():
        yield Replace(_provider(key), aggregates=frozenset(map(normalized_uuid, uuids)))


def _provider(key: str) -> str:
    """Return the uuid of a provider that a key names; a key may also be what is no uuid."""
    return normalized_uuid(key) if is_uuid_like(key) else key


# -- the demands of a query, and the query without some of them ----------------------------------


def relaxable(
    query: MultiDict, version: Version, options: cfg.ConfigOpts.GroupAttr
) -> RelaxableRequest:
    """Return the request of a query, with its demands.

    The query is taken apart into the pieces that can be left out (specification 07 section 2.1). The others
    are put together again and read by the code that reads every query: what it refuses is not a relaxation.
    """
    request = candidate_query.parsed(query, version, options)
    pieces = [
        piece
        for key, values in query.dict_of_lists().items()
        for piece in _pieces(key, values, version)
    ]
    droppable = [piece for piece in pieces if _is_demand(piece)]

    def without(numbers: tuple[int, ...]) -> CandidateRequest | None:
        left = _without(pieces, [droppable[number] for number in numbers])
        try:
            return candidate_query.parsed(_query(left), version, options)
        except errors.BadRequest:
            return None

    return RelaxableRequest(request, droppable, without)


def _is_demand(piece: Piece) -> bool:
    if piece.parameter == "group_policy":
        return piece.text == "isolate"
    return piece.parameter != "limit"


def _pieces(key: str, values: list[str], version: Version) -> Iterable[Piece]:
    """Yield the pieces of those values of a parameter that count."""
    name = GROUP_KEY.match(key)
    kind = name[1] if name else key
    if kind in ("resources", "in_tree") or (kind == "required" and version < ANY_TRAITS_SINCE):
        values = values[-1:]
    elif kind in candidate_query.FIRST_VALUE_COUNTS:
        values = values[:1]
    for number, value in enumerate(values):
        for text in _parts(kind, value):
            yield Piece(key, number, text)


def _parts(kind: str, value: str) -> list[str]:
    if kind == "resources":
        # If a class is given twice, the last amount counts.
        return list({item.partition(":")[0]: item for item in value.split(",")}.values())
    if kind in ("required", "root_required") and not value.startswith(ANY_PREFIX):
        return list(dict.fromkeys(item.strip() for item in value.split(",")))
    return [value]


def _without(pieces: list[Piece], dropped: Collection[Piece]) -> list[Piece]:
    """Return the remaining pieces, without groups, also in same_subtree, that ask for nothing any more."""
    left = [piece for piece in pieces if piece not in dropped]
    if any(piece.parameter == "group_policy" for piece in dropped):
        left.append(Piece("group_policy", 0, "none"))
    for suffix in {_suffix(piece) for piece in dropped} - {None}:
        asking = {f"resources{suffix}", f"required{suffix}"}
        if not any(piece.parameter in asking for piece in left):
            left = [piece for piece in left if _suffix(piece) != suffix]
            left = [tied for piece in left for tied in _untied(piece, str(suffix))]
    return left


def _suffix(piece: Piece) -> str | None:
    name = GROUP_KEY.match(piece.parameter)
    return name[2] if name else None


def _untied(piece: Piece, suffix: str) -> list[Piece]:
    """Return a piece without a dropped group; nothing if it named only that group."""
    if piece.parameter != "same_subtree":
        return [piece]
    names = [name for name in piece.text.split(",") if name.strip() != suffix]
    return [piece._replace(text=",".join(names))] if names else []


def _query(pieces: list[Piece]) -> MultiDict:
    values: dict[tuple[str, int], list[str]] = {}
    for piece in pieces:
        values.setdefault(piece[:2], []).append(piece.text)
    return MultiDict((key, ",".join(texts)) for (key, _), texts in values.items())


# -- what is answered ----------------------------------------------------------------------------


def explanation(found: Explanation, request: CandidateRequest, examples: int) -> dict[str, Any]:
    """Return the document that explains what a search has found."""
    tally = found.result.tally
    document = {
        **_diagnosis(found.everywhere),
        "steps": _steps(found, tally, request, examples),
        **_ends(tally.stopped),
    }
    if found.about is not None:
        document["about"] = {**_diagnosis(found.about), "verdict": found.about.verdict}
        document["complete"] = document["complete"] and document["about"]["complete"]
    return document


def _diagnosis(found: Diagnosis) -> dict[str, Any]:
    document: dict[str, Any] = {"candidates": asdict(found.candidates), "complete": True}
    return document if found.remedies is None else document | _remedies(found.remedies)


def _remedies(found: Remedies) -> dict[str, Any]:
    return {
        "relaxations": [_relaxation(each) for each in found.relaxations],
        "pairs_tried": found.pairs,
        "largest": [asdict(each) for each in found.largest],
        "complete": found.complete,
    }


def _relaxation(each: Relaxation) -> dict[str, Any]:
    drop = [{"parameter": piece.parameter, "value": piece.text} for piece in each.drop]
    return {"drop": drop[0] if len(drop) == 1 else drop, "candidates": asdict(each.candidates)}


def _packing(packing: Packing) -> dict[str, Any]:
    return {"count": packing.count, "exact": packing.exact, "complete": packing.complete}


def _capacity(packing: Packing, places: Iterable[PlaceCount]) -> dict[str, Any]:
    return {
        **_packing(packing),
        "places": [{"uuid": uuid, "name": name, "count": count} for uuid, name, count in places],
        "limits": packing.limits,
        "stranded": packing.stranded,
        "largest": packing.largest,
    }


def _forecast(line: Forecast) -> dict[str, Any]:
    runs_out_at = None if line.runs_out_at is None else _time(line.runs_out_at)
    return {
        "records": line.records,
        "per_day": round(line.per_day, 6),
        "runs_out_at": runs_out_at,
    }


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _steps(
    found: Explanation, tally: Tally, request: CandidateRequest, examples: int
) -> list[dict[str, Any]]:
    return [
        {
            "group": step.group,
            "test": step.test.value,
            "subject": step.subject,
            "unit": step.unit.value,
            "before": step.before,
            "left": step.left,
            "examples": obstacles.examples(found.cloud, request, step, examples),
        }
        for step in tally.steps
    ]


def _ends(stopped: Stopped | None) -> dict[str, Any]:
    """Return what ended the search before combining, and what combining ended with."""
    if stopped is None:
        return {"stopped": None, "combining": None}
    if stopped.why in AFTER_COMBINING:
        return {"stopped": None, "combining": _ended(stopped)}
    return {"stopped": _ended(stopped), "combining": None}


def _ended_or_kept_out(stopped: Stopped | KeptOut) -> dict[str, Any]:
    if isinstance(stopped, Stopped):
        return _ended(stopped)
    return {"why": KEPT_OUT, "group": None, "subject": None, "meaning": KEPT_OUT_MEANING}


def _ended(stopped: Stopped) -> dict[str, Any]:
    return {
        "why": stopped.why.value,
        "group": stopped.group,
        "subject": stopped.subject,
        "meaning": stopped.why.meaning,
    }


def _outcome(outcome: TrialOutcome) -> dict[str, Any]:
    return {
        "before": _situation(outcome.before),
        "after": _situation(outcome.after),
        "homeless": [_homeless(consumer) for consumer in outcome.homeless],
        "placed": [{"asked": asked, "placed": placed} for asked, placed in outcome.placed],
        "complete": outcome.complete,
    }


def _situation(met: Situation) -> dict[str, Any]:
    document = {"candidates": asdict(met.candidates), "capacity": _packing(met.packing)}
    return document if met.remedies is None else document | _remedies(met.remedies)


def _homeless(consumer: AffectedConsumer) -> dict[str, Any]:
    document = {
        "uuid": consumer.uuid,
        "type": consumer.type,
        "project": consumer.project,
        "user": consumer.user,
        "allocations": consumer.lost,
    }
    return document | ({"groups": consumer.kept_out_by} if consumer.kept_out_by else {})


def _survival(found: Survival) -> dict[str, Any]:
    return {
        "places": found.places,
        "tried": found.tried,
        "survivable": found.survivable,
        "complete": found.complete,
        "lost": [
            {
                "uuid": loss.place.uuid,
                "name": loss.place.name,
                "consumers": loss.consumers,
                "homeless_count": loss.homeless,
                "homeless": [
                    {**_homeless(consumer), "stopped": _ended_or_kept_out(stopped)}
                    for consumer, stopped in loss.named
                ],
            }
            for loss in found.losses
        ],
    }


def _page(request: Request, page: Page) -> Response:
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
    file = _files().get(request.path_args.get("path", FIRST_PAGE))
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
def _files() -> Mapping[str, tuple[bytes, str, str]]:
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
