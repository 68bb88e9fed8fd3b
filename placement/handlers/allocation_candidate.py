"""GET /allocation_candidates (specification 04)."""

import logging
import secrets
import threading
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime

from webob import Response

from placement import telemetry
from placement.handlers import candidate_answer, candidate_query
from placement.handlers.candidate_answer import CandidateAnswer
from placement.objects import allocation_candidate
from placement.schemas import allocation_candidate as schema
from placement.search.candidate import SearchResult, SizeLimit
from placement.search.cloud import Cloud
from placement.search.request import CandidateRequest
from placement.web.request import Request
from placement.web.response import json_response
from placement.web.search_bounds import bound_search

LOG = logging.getLogger(__name__)

CUT_HEADER = "Placement-Candidates"
"""The header that says that the answer may lack candidates, and by which bound (specification 04 section
6.6).
"""

LARGE = 1000
"""The usual number of candidates for clients with a limit."""

LARGE_ANSWER = threading.Lock()
"""A lock held while a larger answer is written, which takes several times its memory."""


def list_candidates(request: Request) -> Response:
    """Return the providers that could take the request right now."""
    options, version = request.conf.placement, request.version
    query = candidate_query.check(request, schema.GET.at(version.minor))
    question = candidate_query.parse(query, version, options)
    question = replace(
        question,
        limit=question.limit or options.max_answered_candidates,
        seed=_draw_seed(options.randomize_allocation_candidates),
        start=_draw_start(question),
    )
    size_limit = SizeLimit(
        options.max_candidates_answer_size, lambda shape: candidate_answer.measure(shape, version)
    )

    with ExitStack() as held, bound_search(request) as work:

        def prepare(cloud: Cloud, result: SearchResult) -> CandidateAnswer:
            if len(result) > LARGE:
                held.enter_context(LARGE_ANSWER)
            classes = question.names.classes
            return candidate_answer.prepare(cloud, result, classes, version, size_limit)

        answer, cut = allocation_candidate.find(
            request.picture,
            question,
            options.max_answered_candidates,
            size_limit,
            work,
            prepare,
        )
        # The answer is written after the picture is released, so that the picture can be refreshed meanwhile.
        body = answer.write_pieces()
        telemetry.note_stage("render")
    response = json_response(request, body, last_modified=datetime.now(UTC))
    if cut:
        response.headerlist.append((CUT_HEADER, f"cut; by={cut[0]}"))
    return response


def _draw_start(question: CandidateRequest) -> int | None:
    """Return where the search begins, so that schedulers that ask for a part get different hosts."""
    if question.limit is None and question.bound is None:
        return None
    return secrets.randbits(64)


def _draw_seed(randomize: bool) -> int | None:
    """Return the seed of a random answer, and log it so that the answer can be repeated."""
    if not randomize:
        return None
    seed = secrets.randbits(32)
    LOG.info("Allocation candidates in random order, seed %d", seed)
    return seed
