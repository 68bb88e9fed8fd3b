"""POST /-/what-if (specification 07 section 4)."""

from collections.abc import Iterator, Mapping
from typing import Any

from webob import Response

from placement.handlers import candidate_question, demands
from placement.handlers.capacity import number
from placement.handlers.explain import count, remedies
from placement.objects import what_if
from placement.objects.inventory import records_from
from placement.objects.what_if import (
    Change,
    Consumer,
    Drain,
    Outcome,
    Place,
    Remove,
    Replace,
    State,
)
from placement.schemas import allocation_candidate
from placement.schemas import insight as schemas
from placement.web.request import Request
from placement.web.response import json_response
from placement.web.validation import normalized_uuid


def try_out(request: Request) -> Response:
    """Say what changes would do to a request; nothing is written."""
    body = request.read_json(schemas.WHAT_IF)
    schema = allocation_candidate.GET.at(request.version.minor)
    query = candidate_question.checked_in_body(request, schema, body["query"])
    question = demands.question(query, request.version, request.conf.placement)
    changes = [change for given in body["changes"] for change in _changes(request, given)]
    outcome = what_if.try_out(
        request.db, request.picture, changes, question, request.conf.insight.work_factor
    )
    return json_response(request, _document(outcome))


def _changes(request: Request, given: Mapping[str, Any]) -> Iterator[Change]:
    if "drain" in given:
        yield Drain(normalized_uuid(given["drain"]))
    elif "remove" in given:
        yield Remove(normalized_uuid(given["remove"]))
    elif "place" in given:
        schema = allocation_candidate.GET.at(request.version.minor)
        query = candidate_question.checked_in_body(request, schema, given["place"])
        placed = candidate_question.parsed(query, request.version, request.conf.placement)
        yield Place(placed, int(given.get("times", 1)))
    for uuid, records in given.get("inventories", {}).items():
        yield Replace(uuid, inventories=records_from(records))
    for uuid, names in given.get("traits", {}).items():
        yield Replace(uuid, traits=frozenset(names))
    for uuid, uuids in given.get("aggregates", {}).items():
        yield Replace(uuid, aggregates=frozenset(map(normalized_uuid, uuids)))


def _document(outcome: Outcome) -> dict[str, Any]:
    return {
        "before": _state(outcome.before),
        "after": _state(outcome.after),
        "homeless": [_homeless(consumer) for consumer in outcome.homeless],
        "placed": [{"asked": asked, "placed": placed} for asked, placed in outcome.placed],
        "complete": outcome.complete,
    }


def _state(state: State) -> dict[str, Any]:
    document = {"candidates": count(state.candidates), "capacity": number(state.packing)}
    return document if state.remedies is None else document | remedies(state.remedies)


def _homeless(consumer: Consumer) -> dict[str, Any]:
    return {
        "uuid": consumer.uuid,
        "type": consumer.type,
        "project": consumer.project,
        "user": consumer.user,
        "allocations": consumer.lost,
    }
