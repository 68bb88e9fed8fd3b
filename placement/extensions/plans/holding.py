"""The destinations of a plan, held by consumers that are claimed for it (specification 10 section 5)."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

from placement.db.change_rows import Log
from placement.db.database import Database
from placement.extensions.claims.choices import Chosen
from placement.extensions.claims.orders import Claim, Granted, LookAgain, Order
from placement.extensions.claims.premises import NO_PREMISES
from placement.extensions.claims.writing import write
from placement.extensions.plans.wanted import MIGRATION, ConsumerNow, MoveShown, StepShown
from placement.placing.remedies import RelaxableRequest
from placement.placing.wishes import ChosenPlace
from placement.search.cloud import Cloud
from placement.search.request import CandidateRequest

# The places are already chosen, so nothing is searched.
_NOTHING_ASKED = RelaxableRequest(CandidateRequest(()), (), lambda numbers: None)


def hold_places(
    db: Database,
    cloud: Cloud,
    log: Log,
    moves: Sequence[MoveShown],
    places: Sequence[ChosenPlace],
    hold_s: int,
) -> Granted | LookAgain:
    """Hold the places of moves, all or none, each for a new consumer of the same owner.

    :param log: the log at the state of the cloud.
    :raises OutcomeUnknown: 503
    """
    claims = [
        Claim(uuid, None, move.owner.project, move.owner.user, MIGRATION, "", _NOTHING_ASKED)
        for uuid, move in zip(draw_uuids(len(moves)), moves, strict=True)
    ]
    order = Order(claims, {}, "any", hold_s)
    return write(db, order, Chosen.from_places(order, NO_PREMISES, places, cloud, log))


def draw_uuids(count: int) -> list[str]:
    """Return uuids of new consumers."""
    return [str(uuid4()) for _ in range(count)]


def name_holders(steps: Sequence[StepShown], granted: Granted) -> list[StepShown]:
    """Return the steps, each move with the consumer that holds its destination."""
    grants = iter(granted.grants)
    named: list[StepShown] = []
    for step in steps:
        if isinstance(step, MoveShown):
            grant = next(grants)
            held_by = ConsumerNow(grant.consumer_uuid, grant.consumer_generation)
            step = replace(step, held_by=held_by)
        named.append(step)
    return named
