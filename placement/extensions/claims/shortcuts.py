"""Shortcuts that only save time: a quick try at a claim. Without them every answer would be as right.

The quick try grants the claim, or reports that it must be tried again. The quick try never refuses a claim
for lack of room, since that needs the present picture and other orders of the claims. The gains in processor
time are:

* *A picture that may be a little old*, ``AGE_S``: the changes are not read from the database. A single claim
  took 0.78 of the time, both of the service and of the database (1,000 hosts, PostgreSQL, alternating runs in
  one process, with half this age).
* *Together*: a claim of one consumer reads the picture and runs a transaction, and most of the cost is the
  same for ten consumers. So one thread of a process tries at a time, and claims that arrive meanwhile are
  tried as one gang. In a gang of four a claim takes 0.89 ms of the service and 0.64 of the database, alone
  3.1 and 2.35 (1,000 hosts, PostgreSQL, in process, one run on a busy machine). The price is that an unknown
  outcome of a COMMIT affects several requests. This needs threads.
* *One order* of the claims, within ``FIRST_TRY``: a gang with only just too few places is given up after
  1.6 ms instead of 125 (seven claims of 5 and seven of 3 on ten hosts with room for 7, among 1,000).

Two more shortcuts are in separate functions, with their figures: candidates that share no provider are used
directly as places (``choose_apart`` in :mod:`placement.placing.choose`), and a claim on one provider alone is
written as an everyday claim (:func:`placement.objects.ledger.try_claim`).
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from placement.db.database import Database
from placement.extensions.claims.choices import choose_places
from placement.extensions.claims.orders import Granted, LookAgain, Order
from placement.extensions.claims.premises import NO_PREMISES
from placement.extensions.claims.writing import write
from placement.objects.allocation_candidate import refuse_unknown_names
from placement.objects.batcher import Batcher
from placement.objects.picture import Picture
from placement.placing.remedies import RelaxableRequest
from placement.placing.turns import TreeOrder
from placement.placing.wishes import NoPlace
from placement.search.work import Work

FIRST_TRY = (10, 10_000)
"""The budget of a quick try, in time and placements, since other claims may wait for it."""

AGE_S, CALM_S = 0.1, 1.0
"""The allowed age of the picture, unless a claim was overtaken within ``CALM_S``: if all claims want the
same few hosts, a fresh picture is cheaper.
"""


@dataclass(slots=True)
class _Desk:
    """The state that the claiming threads of a process share.

    ``overtaken_s``: the time of the last choice that was overtaken, on the monotonic clock.
    """

    batchers: dict[TreeOrder, Batcher[Order, Granted | LookAgain]] = field(default_factory=dict)
    overtaken_s: float = -math.inf


_DESKS: WeakKeyDictionary[Picture, _Desk] = WeakKeyDictionary()


def try_quickly(db: Database, picture: Picture, order: Order, work: Work) -> Granted | LookAgain:
    """Claim for all consumers if that is possible at once; otherwise write nothing.

    :raises ConsumerConflict: 409
    :raises UnknownNameInQuery: 400
    :raises OutcomeUnknown: 503, also of the COMMIT of another thread.
    """
    if order.has_premises:
        # The premises are read from the database in any case, so one reading of the picture adds little.
        return LookAgain(overtaken=False)
    desk = _DESKS.setdefault(picture, _Desk())
    if not order.is_one_new_consumer:
        age_s = _tolerable_age_s(desk, order)
        return _try(db, picture, desk, order, work, age_s) if age_s else LookAgain(overtaken=False)
    batcher = desk.batchers.setdefault(order.strategy, Batcher())
    with batcher.take_turn(order) as mine:
        mine.answer_together(
            lambda orders: _try_together(db, picture, desk, orders, work),
            alone=LookAgain(overtaken=False),
        )
        answer = mine.result()
        if answer is not None:
            return answer
        return _try(db, picture, desk, order, work, _tolerable_age_s(desk, order))


def _tolerable_age_s(desk: _Desk, order: Order) -> float:
    """Return how old the picture for a choice can be."""
    # A grant is checked when it is written, and an old picture never refuses a claim. But no check finds the
    # emptiest or fullest tree, so "spread" and "pack" need the present state.
    is_calm = time.monotonic() - desk.overtaken_s > CALM_S
    return AGE_S if order.strategy == "any" and is_calm else 0.0


def _try(
    db: Database, picture: Picture, desk: _Desk, order: Order, work: Work, age_s: float
) -> Granted | LookAgain:
    """Choose on a picture that may be old, in one order of the claims, and write the choice."""
    with (
        refuse_unknown_names(),
        picture.look(order.names, age_s) as look,
        work.part(*FIRST_TRY) as part,
    ):
        chosen = choose_places(look, order, NO_PREMISES, part, in_one_order=True)
    if isinstance(chosen, NoPlace):
        return LookAgain(overtaken=False)
    answer = write(db, order, chosen)
    # A second attempt means that the provider differed from the picture.
    if isinstance(answer, LookAgain) or answer.attempts > 1:
        desk.overtaken_s = time.monotonic()
    return answer


def _try_together(
    db: Database, picture: Picture, desk: _Desk, orders: Sequence[Order], work: Work
) -> Sequence[Granted | LookAgain]:
    """Place the claims of several requests as one gang; if that fails, each tries again by itself.

    :raises OutcomeUnknown: 503, of all of them
    :raises PlacementError: the error of one of them
    """
    queries: dict[tuple[str, frozenset[str]], RelaxableRequest] = {}
    # Equal queries become one object, so that choosing makes one search of them. Each request avoids its own
    # trees.
    claims = [
        replace(claim, asked=queries.setdefault((claim.query, order.avoid), claim.asked))
        for order in orders
        for claim in order.claims
    ]
    each_alone = [LookAgain(overtaken=False)] * len(orders)
    if len({claim.consumer_uuid for claim in claims}) < len(claims):
        return each_alone
    gang = replace(orders[0], claims=claims)
    age_s = _tolerable_age_s(desk, gang)
    answer = _try(db, picture, desk, gang, work, age_s)
    if isinstance(answer, LookAgain) and (age_s or answer.overtaken):
        answer = _try(db, picture, desk, gang, work, 0.0)
    if isinstance(answer, LookAgain):
        return each_alone
    return [Granted([grant], None, answer.attempts) for grant in answer.grants]
