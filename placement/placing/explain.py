"""The explanation why a request has no candidate, and what would help (specification 07 section 2). Pure."""

from dataclasses import dataclass, replace

from placement import errors
from placement.placing import obstacles
from placement.placing.remedies import (
    COUNTED,
    Budget,
    Count,
    RelaxableRequest,
    Remedies,
    raise_limit_by_one,
    remedies,
)
from placement.search.candidate import SearchResult
from placement.search.cloud import Cloud
from placement.search.request import CandidateRequest, NameSets
from placement.search.search import search
from placement.search.work import Work


class UnknownHost(errors.NotFound):
    """The provider in ``about`` does not exist."""

    text = "No resource provider with uuid or name {given} found"
    given: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The number of candidates, the remedies if there are none, and the verdict on one host."""

    candidates: Count
    remedies: Remedies | None
    verdict: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of the search on ``cloud`` with its tally, for all hosts and for one."""

    cloud: Cloud
    result: SearchResult
    everywhere: Diagnosis
    about: Diagnosis | None


@dataclass(frozen=True, slots=True)
class Opened:
    """A copy of a cloud, the names that exist only in the database, and a first result."""

    cloud: Cloud
    known: NameSets
    result: SearchResult


def open_cloud(cloud: Cloud, known: NameSets, request: CandidateRequest, work: Work) -> Opened:
    """Search once, as the compatible API would, and return a copy of the cloud that the search saw.

    :param work: the budget; this search gets half of it.
    :raises UnknownTraitName, UnknownClassName: a name is unknown, as in a search.
    """
    with work.part(2) as part:
        result = search(cloud, request, known, part, explain=True)
    return Opened(cloud.snapshot(), known, result)


def explain_on(
    cloud: Cloud,
    known: NameSets,
    asked: RelaxableRequest,
    work_factor: int,
    work: Work,
    *,
    about: str | None = None,
) -> Explanation:
    """Explain the search's result on this cloud, without changing it, like :func:`explain_opened`."""
    opened = open_cloud(cloud, known, raise_limit_by_one(asked.request), work)
    return explain_opened(opened, asked, about, work_factor, work)


def explain_opened(
    opened: Opened, asked: RelaxableRequest, about: str | None, work_factor: int, work: Work
) -> Explanation:
    """Explain a first result, everywhere and in the tree of one host.

    :param opened: the result of a search for one more candidate than is counted.
    :param about: uuid or name of a provider.
    :param work_factor: the budget in searches; each answer costs at least one.
    :param work: the budget of all searches together.
    """
    request = asked.request
    cloud, shares = opened.cloud, 1 if about is None else 2
    # A host that does not exist is an error before any expensive search.
    host = None if about is None else find_provider(cloud, about)
    with work.part(shares) as part:
        # The search that opened the cloud counts as the first of the budget.
        budget = Budget(opened.known, max(work_factor // shares - 1, 0), part)
        count = budget.count_result(cloud, request, opened.result, request.limit or COUNTED)
        everywhere = Diagnosis(count, None if count.count else remedies(cloud, asked, budget))
    local = None
    if host is not None:
        budget = Budget(opened.known, max(work_factor // 2, 1), work)
        root = cloud.uuids[int(cloud.roots[host])]
        here = replace(request, anchor=root)
        count = budget.count_if_any_is_left(cloud, here)
        # An incomplete search that counted nothing proves nothing: the verdict must not be "cannot".
        known = bool(count.count) if count.count or count.complete else None
        verdict = obstacles.verdict(cloud, here, host, known)
        would_help = None if count.count else remedies(cloud, asked, budget, root)
        local = Diagnosis(count, would_help, verdict)
    return Explanation(cloud, opened.result, everywhere, local)


def find_provider(cloud: Cloud, given: str) -> int:
    """Return the index of the provider with this uuid or name, or raise :class:`UnknownHost`."""
    index = cloud.index_of_uuid.get(given)
    if index is not None:
        return index
    # A free slot has an empty name.
    if given and given in cloud.names:
        return cloud.names.index(given)
    raise UnknownHost(given=given)
