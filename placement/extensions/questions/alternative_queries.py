"""Questions with alternatives: the query string itself, and each ``or`` (specification 07 section 2.2)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from oslo_config import cfg
from webob.multidict import MultiDict

from placement import errors
from placement.extensions.questions import schemas
from placement.handlers import candidate_query
from placement.objects.allocation_candidate import UnknownNameInQuery
from placement.schemas.questions import MOST_QUERIES
from placement.search.request import CandidateRequest
from placement.web.microversion import Version
from placement.web.request import Request

Parsed = TypeVar("Parsed")


class MalformedAlternatives(errors.Malformed):
    """A query that ``or`` names is malformed, or there are too many."""

    reasons = {"most": "too_many_queries", "one_of": "invalid_query"}
    texts = {
        "most": "'or' is there {count} times, and at most {most} are taken.",
        "one_of": "The query of 'or' number {position}: {detail}",
    }
    """Numbers as in ``chosen``, where the query string itself is 0."""


def read_queries(request: Request, given: MultiDict, first: MultiDict) -> list[MultiDict]:
    """Return the first query and the list of alternatives in ``or``.

    :raises MalformedAlternatives: there are too many
    """
    texts = given.getall("or")
    if len(texts) >= MOST_QUERIES:
        raise MalformedAlternatives.for_rule("most", count=len(texts), most=MOST_QUERIES - 1)
    queries = [first]
    for position, text in enumerate(texts, 1):
        with _number_error(position):
            queries.append(
                candidate_query.check(request, schemas.SHAPE.at(request.version.minor), text)
            )
    return queries


def parse_queries(
    request: Request,
    queries: Sequence[MultiDict],
    parse: Callable[[MultiDict, Version, cfg.ConfigOpts.GroupAttr], Parsed],
) -> list[Parsed]:
    """Return the parsed queries.

    Together they are at most as long as one query may be, since nothing else bounds the reading.

    :raises MalformedAlternatives: a query that ``or`` names is malformed.
    """
    parsed = []
    for position, query in enumerate(queries):
        with _number_error(position):
            parsed.append(parse(query, request.version, request.conf.placement))
    return parsed


@contextmanager
def _number_error(position: int) -> Iterator[None]:
    """Add the number of the ``or`` to an error; an error of the query string itself (0) is unchanged."""
    try:
        yield
    except errors.BadRequest as refused:
        if not position:
            raise
        raise MalformedAlternatives.told_by(refused, "one_of", position=position) from None


@contextmanager
def number_names(requests: Sequence[CandidateRequest]) -> Iterator[None]:
    """Add the number of the first ``or`` with an unknown name to its error."""
    try:
        yield
    except UnknownNameInQuery as refused:
        name = refused.broken["field"]
        named = (name in each.names.traits | each.names.classes for each in requests)
        with _number_error(next((n for n, has_name in enumerate(named) if has_name), 0)):
            raise
