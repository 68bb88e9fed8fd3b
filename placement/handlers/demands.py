"""The demands of a search, and its query without some of them (specification 07 section 2.1).

A query is taken apart into the pieces that can be left out. What is left is put together as a query
again and read by the code that reads every other: what it refuses is no relaxation.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from oslo_config import cfg
from webob.multidict import MultiDict

from placement import errors
from placement.handlers import candidate_question
from placement.handlers.candidate_query import GROUP_KEY
from placement.handlers.query_syntax import ANY_PREFIX, ANY_TRAITS_SINCE
from placement.search.explanation import Demand, Question
from placement.search.request import CandidateRequest
from placement.web.microversion import Version

ISOLATE = "isolate"


class Piece(NamedTuple):
    """A part of one value of a parameter; parts with one ``number`` are one list."""

    parameter: str
    number: int
    text: str


def question(query: MultiDict, version: Version, options: cfg.ConfigOpts.GroupAttr) -> Question:
    """Return what is asked, with its demands.

    :raises errors.BadRequest: as the compatible API words it.
    """
    request = candidate_question.parsed(query, version, options)
    pieces = [piece for key in dict.fromkeys(query) for piece in _pieces(query, key, version)]
    droppable = [piece for piece in pieces if _is_demand(piece)]

    def without(numbers: tuple[int, ...]) -> CandidateRequest | None:
        left = _without(pieces, [droppable[number] for number in numbers])
        try:
            return candidate_question.parsed(_query(left), version, options)
        except errors.BadRequest:
            return None

    return Question(request, [Demand(piece.parameter, piece.text) for piece in droppable], without)


def _is_demand(piece: Piece) -> bool:
    if piece.parameter == "group_policy":
        return piece.text == ISOLATE
    return piece.parameter != "limit"


def _pieces(query: MultiDict, key: str, version: Version) -> Iterable[Piece]:
    """Yield the pieces of the values of a parameter that count."""
    values = list(query.getall(key))
    name = GROUP_KEY.match(key)
    kind = name[1] if name else key
    if kind in ("resources", "in_tree") or (kind == "required" and version < ANY_TRAITS_SINCE):
        values = values[-1:]
    elif kind in candidate_question.FIRST_VALUE_COUNTS:
        values = values[:1]
    for number, value in enumerate(values):
        for text in _parts(kind, value):
            yield Piece(key, number, text)


def _parts(kind: str, value: str) -> list[str]:
    if kind == "resources":
        # Of a class given twice the last amount counts.
        return list({item.partition(":")[0]: item for item in value.split(",")}.values())
    if kind in ("required", "root_required") and not value.startswith(ANY_PREFIX):
        return list(dict.fromkeys(item.strip() for item in value.split(",")))
    return [value]


def _without(pieces: list[Piece], dropped: Collection[Piece]) -> list[Piece]:
    """Return what is left: a group without resources and traits goes, from same_subtree too."""
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
    """Return a piece without a group that is gone, nothing if it tied only that."""
    if piece.parameter != "same_subtree":
        return [piece]
    names = [name for name in piece.text.split(",") if name.strip() != suffix]
    return [piece._replace(text=",".join(names))] if names else []


def _query(pieces: list[Piece]) -> MultiDict:
    values: dict[tuple[str, int], list[str]] = {}
    for piece in pieces:
        values.setdefault(piece[:2], []).append(piece.text)
    return MultiDict((key, ",".join(texts)) for (key, _), texts in values.items())
