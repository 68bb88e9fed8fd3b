"""GET /allocation_candidates (contract 04)."""

import logging
import secrets
from datetime import UTC, datetime

from webob import Response
from webob.multidict import MultiDict

from placement import errors
from placement.handlers import candidate_answer, candidate_query
from placement.objects import cloud as cloud_in_memory
from placement.schemas import allocation_candidate as schema
from placement.search.candidate import SearchResult
from placement.search.cloud import Cloud
from placement.search.request import CandidateRequest, UnknownClass, UnknownTrait
from placement.search.search import search
from placement.web.request import InvalidQuery, Request
from placement.web.response import json_response

LOG = logging.getLogger(__name__)

NESTED_SINCE = (1, 29)
FIRST_VALUE_COUNTS = ("limit", "group_policy")
LARGEST_LIMIT_DIGITS = 18
"""No answer has more candidates than that: a longer limit is none."""


class NoSuchTrait(errors.BadRequest):
    """K3: the query names a trait that does not exist."""

    text = "No such trait(s): {name}."


class NoSuchClass(errors.BadRequest):
    """K4: the query names a resource class that does not exist."""

    text = "Invalid resource class in resources parameter: No such resource class {name}."


def list_candidates(request: Request) -> Response:
    """Return what could take the request right now.

    Cost: one SQL statement when no provider changed since this process last searched, six in one
    transaction when some did; one more for each trait or class in the query that no provider has.
    """
    query = _validated(request)
    question = _question(request, query)
    requested = {name for group in question.groups for name in group.amounts}

    def answer(cloud: Cloud) -> bytes:
        result = search(
            cloud,
            question,
            trait_exists=lambda name: cloud_in_memory.trait_exists(request.db, name),
            class_exists=lambda name: cloud_in_memory.class_exists(request.db, name),
        )
        _report(result, request.conf.placement.max_answered_candidates)
        return candidate_answer.render(cloud, result, requested, request.version)

    try:
        body = cloud_in_memory.search(request.db, answer)
    except UnknownTrait as unknown:
        raise NoSuchTrait(name=unknown.name) from None
    except UnknownClass as unknown:
        raise NoSuchClass(name=unknown.name) from None
    return json_response(request, body, last_modified=datetime.now(UTC))


def _validated(request: Request) -> MultiDict:
    """Return the query, all of whose keys and plain values are fit (3.5 A)."""
    allowed = schema.GET.at(request.version.minor)
    query = request.read_query(allowed)
    for name in FIRST_VALUE_COUNTS:
        # The schema has seen the last value; the first is the one that is used.
        for value in query.getall(name)[:-1]:
            failure = allowed.failure({**query, name: value})
            if failure is not None:
                raise InvalidQuery(detail=failure)
    return query


def _question(request: Request, query: MultiDict) -> CandidateRequest:
    """Return what is asked; the checks come in the order of 3.5 B, C, G or H, K1, K2."""
    version, options = request.version, request.conf.placement
    required, forbidden = candidate_query.root_traits(query, version)
    subtrees = candidate_query.same_subtrees(query)
    groups = candidate_query.groups(query, version, options.max_request_groups)
    group_policy = _first(query, "group_policy")
    candidate_query.check_groups(groups, subtrees, group_policy, version)
    return CandidateRequest(
        groups=groups,
        isolate=group_policy == "isolate",
        same_subtrees=subtrees,
        root_required=required,
        root_forbidden=forbidden,
        limit=_limit(query, options.max_answered_candidates),
        maximum=options.max_allocation_candidates,
        strategy=options.allocation_candidates_generation_strategy,
        seed=_seed(options.randomize_allocation_candidates),
        one_provider_per_tree=version < NESTED_SINCE,
    )


def _first(query: MultiDict, name: str) -> str | None:
    values: list[str] = query.getall(name)
    return values[0] if values else None


def _limit(query: MultiDict, most: int) -> int:
    text = _first(query, "limit")
    if text is None or len(text) > LARGEST_LIMIT_DIGITS:
        return most
    return min(int(text), most)


def _report(result: SearchResult, most: int) -> None:
    """Log what the client cannot see: why there is nothing, and that there may be more."""
    if not len(result):
        LOG.info("No allocation candidates: %s", result.tally)
    if len(result) >= most:
        LOG.warning("The answer is cut at max_answered_candidates, %d", most)
    if not result.complete:
        LOG.warning(
            "The search for allocation candidates gave up after trying %d placements and may have "
            "missed some. A limit, or fewer request groups, makes it complete.",
            result.work,
        )


def _seed(randomize: bool) -> int | None:
    """Return the seed of a random answer; logged, so that the answer can be had again."""
    if not randomize:
        return None
    seed = secrets.randbits(32)
    LOG.info("Allocation candidates in random order, seed %d", seed)
    return seed
