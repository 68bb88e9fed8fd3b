"""Claims of many consumers: chosen on the picture, written in one transaction (specification 09).

A choice can be outdated when it is written. The transaction checks it under its locks: room and units by the
inventories, groups by their members, everything else by the log of changes. If a check fails, the service
chooses again on the refreshed picture, until the deadline.
"""

import random
import time
from collections.abc import Mapping
from typing import Any

from placement import errors
from placement.db.database import Database
from placement.extensions.claims import figures
from placement.extensions.claims.choices import Chosen, choose_places
from placement.extensions.claims.orders import Granted, LookAgain, Order, Unplaced
from placement.extensions.claims.premises import read_premises
from placement.extensions.claims.shortcuts import try_quickly
from placement.extensions.claims.writing import write
from placement.objects.allocation_candidate import refuse_unknown_names
from placement.objects.picture import Picture
from placement.placing.explain import explain_on
from placement.placing.wishes import NoPlace
from placement.search.work import Work, WorkEnded

DRAW = random.SystemRandom()

PAUSE_S, LONGEST_PAUSE_S = 0.001, 0.05
"""The pause before a further choice, for each choice before it, with full jitter."""


class NoCandidate(errors.Conflict):
    """A claim could not be placed, and nothing was written.

    ``document``: the consumer, whether it is certain that the claims do not fit, and why.
    """

    code = "placement.no_candidate"
    reason = "no_candidate"
    text = "No place was found for consumer {consumer}{beside}. {certainty}"
    consumer: str
    beside: str
    certainty: str
    document: Mapping[str, Any]

    def more(self) -> Mapping[str, Any]:
        """Return the claim with its explanation."""
        return self.document


class ClaimsGivenUp(errors.Unavailable):
    """Other claims kept taking the chosen places, until the deadline."""

    code = "placement.search_given_up"
    reason = "claims_given_up"
    text = "Others kept taking the places that were chosen. Nothing was written; please try again."


class ClaimsCutShort(errors.Unavailable):
    """The deadline passed before it was known whether all claims have places."""

    code = "placement.search_given_up"
    reason = "search_given_up"
    text = (
        "The search for places took too long and was given up; whether all claims fit is not known. Nothing "
        "was written. Fewer claims in one request, or more of them with equal queries, make it easier."
    )


def place(
    db: Database, picture: Picture, order: Order, work_factor: int, work: Work
) -> Granted | Unplaced:
    """Claim for all consumers, or for none with the reason.

    :param work: the budget for choosing and explaining, and the deadline.
    :raises ConsumerConflict: 409, a consumer has another generation than the one sent
    :raises GroupRuleDiffers: 409
    :raises GroupUndefined, UnknownNameInQuery: 400
    :raises ClaimsGivenUp, ClaimsCutShort: 503
    """
    retries = 0
    answer: Granted | Unplaced | LookAgain = try_quickly(db, picture, order, work)
    while isinstance(answer, LookAgain):
        if answer.overtaken:
            retries += 1
            if not work.check_time():
                raise ClaimsGivenUp
            # Without a random pause, requests that collided would collide again.
            time.sleep(DRAW.uniform(0, min(retries * PAUSE_S, LONGEST_PAUSE_S)))
        try:
            answer = _place_once(db, picture, order, work_factor, work)
        except WorkEnded:
            # The first choice found room, which other claims then took until the time ended.
            raise (ClaimsGivenUp if retries else ClaimsCutShort) from None
    if isinstance(answer, Unplaced):
        figures.CLAIMS.count("refused", number=len(order.claims))
    return answer


def _place_once(
    db: Database, picture: Picture, order: Order, work_factor: int, work: Work
) -> Granted | Unplaced | LookAgain:
    """Read the premises, choose places, and write them.

    :raises WorkEnded: with more time places might be found.
    """
    premises = db.snapshot(lambda tx: read_premises(tx, order))
    with refuse_unknown_names(), picture.look(order.names) as look:
        # The other half of the time is for the explanation.
        with work.part(2) as part:
            chosen = choose_places(look, order, premises, part)
        if isinstance(chosen, NoPlace):
            if chosen.timed_out:
                # Without a known result there is nothing to explain.
                raise WorkEnded
            # The explanation is made while the cloud is open, since it can be the cloud of the picture.
            # Earlier claims have their places on it, so the explanation is about the remaining room.
            claim = order.claims[chosen.number]
            searches, why = work_factor // len(claim.options), []
            for left, asked in zip(range(len(claim.options), 0, -1), claim.options, strict=True):
                with work.part(left) as part:
                    why.append(explain_on(chosen.cloud, look.known, asked, searches, part))
            avoided = len(look.cloud.list_avoided(order.avoid))
            refusal = Unplaced(claim, chosen.number, chosen.exact, chosen.kept_out, why, avoided)
    if isinstance(chosen, Chosen):
        # The write follows the reading of the cloud: it can wait for locks, and while a cloud is open each
        # change needs a copy of it.
        return write(db, order, chosen)
    # A client repeats a claim whose answer was lost. If the first claim took the room, this one is refused
    # for its generation, not for lack of room: so the generations are checked here.
    again = db.snapshot(lambda tx: read_premises(tx, order, requires_generations=True))
    # Premises that differ now are no reason to refuse: opening the cloud removes expired holds, and members
    # of groups with them; and a consumer that is claimed as new can have had the missing room itself, until
    # another request removed it. A consumer that was both made and removed meanwhile is not noticed.
    if again != premises and work.check_time():
        return LookAgain(overtaken=False)
    return refusal
