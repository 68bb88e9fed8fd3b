"""The search for providers that can take a request right now (specification 04)."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

from placement import errors, telemetry
from placement.objects.narrow_looks import look_for
from placement.objects.picture import Picture
from placement.search.candidate import SearchResult, SizeLimit
from placement.search.cloud import Cloud
from placement.search.request import CandidateRequest, UnknownName, UnknownTraitName
from placement.search.search import search
from placement.search.work import Work

LOG = logging.getLogger(__name__)
T = TypeVar("T")

HOW_TO_EXPLAIN = "To see what would help: openstack allocation candidate explain"


class UnknownNameInQuery(errors.Malformed):
    """The query names a trait or a resource class that does not exist (K3 and K4)."""

    reasons = {
        "trait": "unknown_trait",
        "required": "unknown_trait",
        "class": "unknown_resource_class",
    }
    texts = {
        "trait": "No such trait(s): {name}.",
        "required": 'Invalid trait(s) in "required" parameter: No such trait(s): {name}.',
        "class": "Invalid resource class in resources parameter: No such resource class {name}.",
    }


class SearchGivenUp(errors.Unavailable):
    """A bound ended the search before it was known whether there is a candidate."""

    reason = "search_given_up"
    code = "placement.search_given_up"
    text = (
        "The search for allocation candidates took too long and was given up before it found one; "
        "whether there is one is not known. {hardest}Fewer groups, smaller amounts, in_tree or member_of "
        "make it easier."
    )
    hardest: str


class Answered(NamedTuple, Generic[T]):
    """The rendered candidates, and the bounds that may have cut some of them."""

    shown: T
    cut: tuple[str, ...]


def find(
    picture: Picture,
    question: CandidateRequest,
    most: int,
    size_limit: SizeLimit,
    work: Work,
    show: Callable[[Cloud, SearchResult], T],
) -> Answered[T]:
    """Return ``show(cloud, result)`` of the candidates, and the bounds that have cut them.

    ``show`` must not keep any part of the cloud. The cost is that of :func:`look_for`.

    :param most: the most candidates of an answer; ``question`` observes it.
    :param size_limit: the total size of the candidates; ``show`` can use it up.
    :param work: the budget of the search.
    :raises UnknownNameInQuery: the search reaches an unknown name (section 5.8).
    :raises SearchGivenUp: the budget ended before a candidate or a proof was found.
    """
    telemetry.note_search()
    with refuse_unknown_names(), look_for(picture, question) as look:
        telemetry.note_stage("freshness")
        result = search(
            look.cloud, question, look.known, work, size_limit=size_limit, passed=telemetry.note_stage
        )
        shown = show(look.cloud, result)
        cut = _report(result, most, size_limit, work)
        if not len(result) and cut:
            names = ", ".join(suffix or "the one without suffix" for suffix in result.stuck)
            hardest = f"Hardest to place were these groups: {names}. " if names else ""
            raise SearchGivenUp(hardest=hardest)
        return Answered(shown, cut)


@contextmanager
def refuse_unknown_names(trait_rule: str = "trait") -> Iterator[None]:
    """Answer 400 if a search in the block reaches an unknown name.

    :param trait_rule: the wording for a trait.
    :raises UnknownNameInQuery: the search reaches an unknown name
    """
    try:
        yield
    except UnknownName as unknown:
        rule = trait_rule if isinstance(unknown, UnknownTraitName) else "class"
        raise UnknownNameInQuery.for_rule(rule, name=unknown.name) from None


def _report(result: SearchResult, most: int, size_limit: SizeLimit, work: Work) -> tuple[str, ...]:
    """Log why nothing was found, or that more may exist; return the bounds that were reached."""
    stopped = result.tally.stopped
    bounds = (
        ("deadline", not result.complete and work.timed_out),
        ("work", not result.complete and not work.timed_out),
        ("candidates", len(result) >= most),
        ("bytes", size_limit.used_up),
    )
    cut = tuple(bound for bound, reached in bounds if reached)
    telemetry.SEARCH_CANDIDATES.observe(len(result))
    for bound in cut:
        telemetry.SEARCHES_CUT.count(bound)
    if stopped and not len(result):
        telemetry.SEARCHES_EMPTY.count(stopped.why.value)
    if not len(result):
        LOG.info("No allocation candidates: %s. %s", result.tally, HOW_TO_EXPLAIN)
    if len(result) >= most:
        LOG.warning("The answer is cut at max_answered_candidates, %d", most)
    if size_limit.used_up:
        LOG.warning("The answer is cut at max_candidates_answer_size, %d bytes", size_limit.most)
    if not result.complete:
        LOG.warning(
            "The search for allocation candidates gave up after trying %d placements and may have "
            "missed some. A limit, or fewer request groups, makes it complete.",
            result.work,
        )
    return cut
