"""From the query string of a search to the question, for whoever asks one (specification 04 section 3.5)."""

from oslo_config import cfg
from webob.multidict import MultiDict

from placement.handlers import candidate_query
from placement.search.request import CandidateRequest
from placement.web.microversion import Version
from placement.web.request import Request
from placement.web.validation import Schema

NESTED_SINCE = (1, 29)
FIRST_VALUE_COUNTS = ("limit", "group_policy")
LARGEST_LIMIT_DIGITS = 18
"""No answer has more candidates than that: a longer limit is none."""


def checked(request: Request, allowed: Schema) -> MultiDict:
    """Return the query, all of whose keys and plain values are fit (3.5 A)."""
    query = request.read_query(allowed)
    check_first_values(request, allowed, query)
    return query


def checked_in_body(request: Request, allowed: Schema, text: str) -> MultiDict:
    """Return a query that came in a body, checked likewise."""
    query = request.read_query_in_body(allowed, text)
    check_first_values(request, allowed, query)
    return query


def check_first_values(request: Request, allowed: Schema, query: MultiDict) -> None:
    """Show the schema the values that count: it has seen the last of each name."""
    for name in FIRST_VALUE_COUNTS:
        for value in query.getall(name)[:-1]:
            request.check_query(allowed, {**query, name: value})


def parsed(
    query: MultiDict, version: Version, options: cfg.ConfigOpts.GroupAttr
) -> CandidateRequest:
    """Return what is asked; the checks come in the order of 3.5 B, C, G or H, K1, K2.

    The limit is that of the query, if it has one, as far as an answer may go. The seed is not set.

    :param options: those of ``[placement]``.
    """
    required, forbidden = candidate_query.root_traits(query, version)
    subtrees = candidate_query.same_subtrees(query)
    groups = candidate_query.groups(query, version, options.max_request_groups)
    group_policy = first(query, "group_policy")
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
        one_provider_per_tree=version < NESTED_SINCE,
    )


def first(query: MultiDict, name: str) -> str | None:
    """Return the first value of a parameter: the one that counts."""
    values: list[str] = query.getall(name)
    return values[0] if values else None


def _limit(query: MultiDict, most: int) -> int | None:
    text = first(query, "limit")
    if text is None:
        return None
    return most if len(text) > LARGEST_LIMIT_DIGITS else min(int(text), most)
