"""Who could take a request right now (specification 04)."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from placement import errors, telemetry
from placement.objects.picture import Picture
from placement.search.candidate import SearchResult
from placement.search.cloud import Cloud
from placement.search.request import CandidateRequest, Names, UnknownClass, UnknownTrait
from placement.search.room import Room
from placement.search.search import search

LOG = logging.getLogger(__name__)
T = TypeVar("T")

HOW_TO_EXPLAIN = "To see what would help: openstack allocation candidate explain"


class NoSuchTrait(errors.BadRequest):
    """K3: the query names a trait that does not exist."""

    text = "No such trait(s): {name}."
    name: str


class NoSuchClass(errors.BadRequest):
    """K4: the query names a resource class that does not exist."""

    text = "Invalid resource class in resources parameter: No such resource class {name}."
    name: str


def find(
    picture: Picture,
    question: CandidateRequest,
    most: int,
    room: Room,
    show: Callable[[Cloud, SearchResult], T],
) -> T:
    """Return ``show(cloud, result)`` of the candidates.

    ``show`` runs under the lock of the picture and keeps nothing of it. Cost: that of
    :meth:`Picture.read_knowing`.

    :param most: as many candidates as an answer may have, which ``question`` keeps to.
    :param room: what they may take up together; ``show`` may use it up.
    :raises NoSuchTrait:
    :raises NoSuchClass: where the search comes upon the name (section 5.8).
    """

    def answer(cloud: Cloud, known: Names) -> T:
        telemetry.passed("freshness")
        result = search(cloud, question, known, room=room, passed=telemetry.passed)
        shown = show(cloud, result)
        _report(result, most, room)
        return shown

    telemetry.stages_begin()
    with unknown_names_refused():
        return picture.read_knowing(question.names, answer)


@contextmanager
def unknown_names_refused() -> Iterator[None]:
    """Answer 400 where a search inside comes upon a name that does not exist.

    :raises NoSuchTrait:
    :raises NoSuchClass:
    """
    try:
        yield
    except UnknownTrait as unknown:
        raise NoSuchTrait(name=unknown.name) from None
    except UnknownClass as unknown:
        raise NoSuchClass(name=unknown.name) from None


def _report(result: SearchResult, most: int, room: Room) -> None:
    """Log what the client cannot see: why there is nothing, and that there may be more."""
    stopped = result.tally.stopped
    cuts = (
        ("work", not result.complete),
        ("candidates", len(result) >= most),
        ("bytes", room.used_up),
    )
    telemetry.searched(
        len(result),
        stopped.why.value if stopped and not len(result) else None,
        cut=tuple(bound for bound, reached in cuts if reached),
    )
    if not len(result):
        LOG.info("No allocation candidates: %s. %s", result.tally, HOW_TO_EXPLAIN)
    if len(result) >= most:
        LOG.warning("The answer is cut at max_answered_candidates, %d", most)
    if room.used_up:
        LOG.warning("The answer is cut at max_candidates_answer_size, %d bytes", room.most)
    if not result.complete:
        LOG.warning(
            "The search for allocation candidates gave up after trying %d placements and may have "
            "missed some. A limit, or fewer request groups, makes it complete.",
            result.work,
        )
