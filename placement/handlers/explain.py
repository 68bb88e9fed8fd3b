"""GET /-/explain (specification 07 section 2)."""

from typing import Any

from webob import Response
from webob.multidict import MultiDict

from placement.handlers import candidate_question, demands
from placement.objects import insight
from placement.objects.insight import Answer, Explanation
from placement.schemas import insight as schemas
from placement.search import obstacles
from placement.search.budget import Count
from placement.search.explanation import Relaxation, Remedies
from placement.search.request import CandidateRequest
from placement.search.tally import Stop, Stopped, Tally
from placement.web.request import Request
from placement.web.response import json_response

DEFAULT_EXAMPLES = 3
AFTER_COMBINING = frozenset({Stop.NO_COMBINATION, Stop.WORK_LIMIT})


def explain(request: Request) -> Response:
    """Say why nothing could take the request, and what would help."""
    given = candidate_question.checked(request, schemas.EXPLAIN.at(request.version.minor))
    question = demands.question(
        search_query(given, schemas.EXPLAIN_OWN), request.version, request.conf.placement
    )
    found = insight.explain(
        request.picture, question, given.get("about"), request.conf.insight.work_factor
    )
    examples = int(given.get("examples", DEFAULT_EXAMPLES))
    return json_response(request, _document(found, question.request, examples))


def search_query(given: MultiDict, own: dict[str, Any]) -> MultiDict:
    """Return the query of the search alone, without the parameters of the question about it."""
    return MultiDict((name, value) for name, value in given.items() if name not in own)


def _document(found: Explanation, request: CandidateRequest, examples: int) -> dict[str, Any]:
    tally = found.result.tally
    document = {
        **answer(found.everywhere),
        "steps": _steps(found, tally, request, examples),
        **_ends(tally.stopped),
    }
    if found.about is not None:
        document["about"] = {**answer(found.about), "verdict": found.about.verdict}
        document["complete"] = document["complete"] and document["about"]["complete"]
    return document


def answer(found: Answer) -> dict[str, Any]:
    """Return how many candidates there are and, if there are none, what would help."""
    document: dict[str, Any] = {"candidates": count(found.candidates), "complete": True}
    if found.remedies is not None:
        document |= remedies(found.remedies)
    return document


def remedies(found: Remedies) -> dict[str, Any]:
    """Return what would help."""
    return {
        "relaxations": [_relaxation(each) for each in found.relaxations],
        "pairs_tried": found.pairs,
        "largest": [
            {
                "group": each.group,
                "resource_class": each.resource_class,
                "asked": each.asked,
                "would_do": each.would_do,
            }
            for each in found.largest
        ],
        "complete": found.complete,
    }


def count(found: Count) -> dict[str, Any]:
    """Return a number of candidates."""
    return {"count": found.count, "complete": found.complete}


def _relaxation(each: Relaxation) -> dict[str, Any]:
    drop = [{"parameter": demand.parameter, "value": demand.value} for demand in each.drop]
    return {"drop": drop[0] if len(drop) == 1 else drop, "candidates": count(each.candidates)}


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
    ended = {
        "why": stopped.why.value,
        "group": stopped.group,
        "subject": stopped.subject,
        "meaning": stopped.why.meaning,
    }
    if stopped.why in AFTER_COMBINING:
        return {"stopped": None, "combining": ended}
    return {"stopped": ended, "combining": None}
