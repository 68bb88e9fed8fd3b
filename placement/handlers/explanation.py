"""The reading and rendering of a request's remedies (specification 07 section 2).

A query is divided into the pieces that can be left out, and an explanation is rendered.
"""

from collections.abc import Collection, Iterable
from dataclasses import asdict
from typing import Any

from oslo_config import cfg
from webob.multidict import MultiDict

from placement import errors
from placement.handlers import candidate_query
from placement.handlers.candidate_query import GROUP_KEY
from placement.handlers.query_syntax import ANY_PREFIX, ANY_TRAITS_SINCE
from placement.placing import obstacles
from placement.placing.explain import Diagnosis, Explanation
from placement.placing.mover import KeptOut, OutOfReach
from placement.placing.remedies import Piece, RelaxableRequest, Relaxation, Remedies
from placement.search.request import CandidateRequest
from placement.search.tally import Stop, Stopped
from placement.web.microversion import Version

KEPT_OUT = "GROUP_RULE"
KEPT_OUT_MEANING = (
    "There is room in some tree, but the rules of the consumer's groups keep it out of there."
)

OUT_OF_REACH = "OUT_OF_REACH"
OUT_OF_REACH_MEANING = (
    "There is room for each part of the consumer, but none in reach of all its other parts."
)

AFTER_COMBINING = frozenset({Stop.NO_COMBINATION, Stop.WORK_LIMIT})


# -- the demands of a query, and the query without some of them ----------------------------------


def read_relaxable(
    query: MultiDict,
    version: Version,
    options: cfg.ConfigOpts.GroupAttr,
    avoid: frozenset[str] = frozenset(),
) -> RelaxableRequest:
    """Return the request of a query, with its demands.

    The query is divided into the pieces that can be left out (specification 07 section 2.1). The remaining
    pieces are joined and read by the code that reads every query; a query that it refuses is not a
    relaxation.

    :param avoid:

    the traits for :meth:`CandidateRequest.avoiding`.
    """
    request = candidate_query.parse(query, version, options).avoiding(avoid)
    pieces = [
        piece
        for key, values in query.dict_of_lists().items()
        for piece in _take_apart(key, values, version)
    ]
    droppable = [piece for piece in pieces if _is_demand(piece)]

    def without(numbers: tuple[int, ...]) -> CandidateRequest | None:
        left = _leave_out(pieces, [droppable[number] for number in numbers])
        try:
            return candidate_query.parse(_put_together(left), version, options).avoiding(avoid)
        except errors.BadRequest:
            return None

    return RelaxableRequest(request, droppable, without)


def _is_demand(piece: Piece) -> bool:
    if piece.parameter == "group_policy":
        return piece.text == "isolate"
    return piece.parameter != "limit"


def _take_apart(key: str, values: list[str], version: Version) -> Iterable[Piece]:
    """Yield the pieces of the values of a parameter that count."""
    name = GROUP_KEY.match(key)
    kind = name[1] if name else key
    if kind in ("resources", "in_tree") or (kind == "required" and version < ANY_TRAITS_SINCE):
        values = values[-1:]
    elif kind in candidate_query.FIRST_VALUE_COUNTS:
        values = values[:1]
    for number, value in enumerate(values):
        texts: Iterable[str] = [value]
        if kind == "resources":
            # If a class is given twice, the last amount counts.
            texts = {item.partition(":")[0]: item for item in value.split(",")}.values()
        elif kind in ("required", "root_required") and not value.startswith(ANY_PREFIX):
            texts = dict.fromkeys(item.strip() for item in value.split(","))
        for text in texts:
            yield Piece(key, number, text)


def _leave_out(pieces: list[Piece], dropped: Collection[Piece]) -> list[Piece]:
    """Return the remaining pieces without empty groups, which are also removed from same_subtree."""
    left = [piece for piece in pieces if piece not in dropped]
    if any(piece.parameter == "group_policy" for piece in dropped):
        # Two suffixed groups need a policy (3.5 K2), but this group requests nothing.
        left.append(Piece("group_policy", 0, "none"))
    for suffix in {_find_suffix(piece) for piece in dropped} - {None}:
        asking = {f"resources{suffix}", f"required{suffix}"}
        if not any(piece.parameter in asking for piece in left):
            left = [piece for piece in left if _find_suffix(piece) != suffix]
            left = [tied for piece in left for tied in _untie(piece, str(suffix))]
    return left


def _find_suffix(piece: Piece) -> str | None:
    name = GROUP_KEY.match(piece.parameter)
    return name[2] if name else None


def _untie(piece: Piece, suffix: str) -> list[Piece]:
    """Return a piece without a dropped group; empty if it named only that group."""
    if piece.parameter != "same_subtree":
        return [piece]
    names = [name for name in piece.text.split(",") if name.strip() != suffix]
    return [piece._replace(text=",".join(names))] if names else []


def _put_together(pieces: list[Piece]) -> MultiDict:
    values: dict[tuple[str, int], list[str]] = {}
    for piece in pieces:
        values.setdefault(piece[:2], []).append(piece.text)
    return MultiDict((key, ",".join(texts)) for (key, _), texts in values.items())


# -- what is answered ----------------------------------------------------------------------------


def render_explanation(
    found: Explanation, request: CandidateRequest, examples: int
) -> dict[str, Any]:
    """Return the document that explains the result of a search."""
    tally = found.result.tally
    document = {
        **_render_diagnosis(found.everywhere),
        "steps": [
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
        ],
        **_render_ends(tally.stopped),
    }
    if found.about is not None:
        document["about"] = {**_render_diagnosis(found.about), "verdict": found.about.verdict}
        document["complete"] = document["complete"] and document["about"]["complete"]
    return document


def _render_diagnosis(found: Diagnosis) -> dict[str, Any]:
    document: dict[str, Any] = {"candidates": asdict(found.candidates), "complete": True}
    return document if found.remedies is None else document | render_remedies(found.remedies)


def render_remedies(found: Remedies) -> dict[str, Any]:
    """Return the part of a document with the remedies."""
    return {
        "relaxations": [_render_relaxation(each) for each in found.relaxations],
        "pairs_tried": found.pairs,
        "largest": [asdict(each) for each in found.largest],
        "complete": found.complete,
    }


def _render_relaxation(each: Relaxation) -> dict[str, Any]:
    drop = [{"parameter": piece.parameter, "value": piece.text} for piece in each.drop]
    return {"drop": drop[0] if len(drop) == 1 else drop, "candidates": asdict(each.candidates)}


def _render_ends(stopped: Stopped | None) -> dict[str, Any]:
    """Return the end of the search before combining, and the end of the combining."""
    if stopped is None:
        return {"stopped": None, "combining": None}
    if stopped.why in AFTER_COMBINING:
        return {"stopped": None, "combining": render_stop(stopped)}
    return {"stopped": render_stop(stopped), "combining": None}


def render_stop(stopped: Stopped | KeptOut | OutOfReach) -> dict[str, Any]:
    """Return the document that says what ended a search."""
    if isinstance(stopped, KeptOut):
        return {"why": KEPT_OUT, "group": None, "subject": None, "meaning": KEPT_OUT_MEANING}
    if isinstance(stopped, OutOfReach):
        ended = {"why": OUT_OF_REACH, "meaning": OUT_OF_REACH_MEANING}
        return ended | {"group": None, "subject": None}
    return {
        "why": stopped.why.value,
        "group": stopped.group,
        "subject": stopped.subject,
        "meaning": stopped.why.meaning,
    }
