"""Claims of many consumers: chosen on the picture, written in one transaction (specification 09).

What is chosen may be out of date when it is written. The transaction checks it under its locks: room and
units by the inventories, all else by the log of changes, groups by their members. If something does not hold,
it is chosen again on the refreshed picture, until the deadline. New consumers of several requests are placed
together if they come at the same time.
"""

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from placement import errors, telemetry
from placement.claims import writing
from placement.claims.orders import (
    Assigned,
    Claim,
    FoundGroup,
    Order,
    Outcome,
    Overtaken,
    Plan,
    Refused,
    Shape,
    change,
    found_groups,
    shape,
)
from placement.claims.together import Together
from placement.db import group_rows, ledger_rows, tree_rows
from placement.db.change_rows import Log
from placement.db.database import Access, Database, Transaction
from placement.db.group_rows import GroupRow
from placement.objects import replacement
from placement.objects.allocation_candidate import refuse_unknown_names
from placement.objects.groups import remove_ended, rule_of
from placement.objects.picture import Picture
from placement.placing.choose import choose
from placement.placing.explain import explain_on
from placement.placing.remedies import RelaxableRequest
from placement.placing.turns import TreeOrder
from placement.placing.wishes import ChosenPlace, NoPlace, Wish
from placement.search.cloud import Cloud
from placement.search.group_rules import GroupRule
from placement.search.request import NameSets
from placement.search.work import Work, WorkEnded

DRAW = random.SystemRandom()

FIRST_TRY = (10, 10_000)
"""What a try may cost that is not the last: a part of the time, and placements. Others may wait for it."""

AGE_S, CALM_S = 0.1, 1.0
"""How old the picture may be on which is chosen, unless something was chosen in vain since ``CALM_S``.

For it a single claim took 0.78 of the processor time, of the service as of the database (1,000 hosts,
PostgreSQL, in turns in one process, with half this age).
"""

PAUSE_S, LONGEST_PAUSE_S = 0.001, 0.05
"""Before a further choice: so much for each one before it, with full jitter."""


class NoCandidate(errors.Conflict):
    """A claim that could not be placed; nothing was written.

    ``document``: the consumer, whether it is certain that the claims do not fit, and why.
    """

    code = "placement.no_candidate"
    reason = "no_candidate"
    text = "No place was found for consumer {consumer}, with those before it placed. {certainty}"
    consumer: str
    certainty: str
    document: Mapping[str, Any]

    def more(self) -> Mapping[str, Any]:
        """Return the claim with its explanation."""
        return self.document


class GroupRuleDiffers(errors.Conflict):
    """A claim names a group that has another rule."""

    code = "placement.group_rule"
    reason = "group_rule"
    of_consumers = True
    text = "The group {name} exists with another rule: {rule}, at most {at_most} per {level}"
    name: str
    rule: str
    at_most: int
    level: str


class GroupUndefined(errors.BadRequest):
    """A claim names a group that does not exist, and no rule for it."""

    reason = "unknown_group"
    about = "name"
    text = 'The group {name} does not exist: its rule must be given in "groups".'
    name: str


class ClaimsGivenUp(errors.Unavailable):
    """Others kept taking what was chosen, until the deadline."""

    code = "placement.search_given_up"
    reason = "claims_given_up"
    text = "Others kept taking the places that were chosen. Nothing was written; please try again."


class ClaimsCutShort(errors.Unavailable):
    """The deadline came before places for all claims were found, or it was clear that there are none."""

    code = "placement.search_given_up"
    reason = "search_given_up"
    text = (
        "The search for places took too long and was given up; whether all claims fit is not known. Nothing "
        "was written. Fewer claims in one request, or more of them with equal queries, make it easier."
    )


class _NotTogether(Exception):
    """Claims of several requests have no places together: each is placed alone."""


class _Seen(NamedTuple):
    """What was read without locks before choosing: what the consumers hold, and the groups."""

    held: Sequence[tree_rows.HeldBy]
    groups: Mapping[str, FoundGroup]


def place(
    db: Database, picture: Picture, order: Order, work_factor: int, work: Work
) -> Outcome | Refused:
    """Claim for all consumers, or for none and say why.

    :param work: what choosing and explaining may cost, and the deadline.
    :raises ConsumerConflict: 409, a consumer is not of the generation sent
    :raises GroupRuleDiffers: 409
    :raises GroupUndefined, UnknownNameInQuery: 400
    :raises ClaimsGivenUp, ClaimsCutShort: 503
    """
    placing = partial(_place, db, picture, work_factor)
    if not order.is_one_new_consumer:
        return placing(order, work)
    meeting = _Desk.of(picture).meetings.setdefault(order.strategy, Together())
    return meeting.answer(
        order, partial(placing, order, work), partial(_place_together, placing, work)
    )


@dataclass(slots=True)
class _Desk:
    """What the threads of a process share that place claims.

    ``overtaken_s``: when something was last chosen in vain, by the monotonic clock.
    """

    meetings: dict[TreeOrder, Together[Order, Outcome | Refused]] = field(default_factory=dict)
    overtaken_s: float = -CALM_S

    @classmethod
    def of(cls, picture: Picture) -> "_Desk":
        """Return the desk beside a picture."""
        return _DESKS.setdefault(picture, cls())

    def tolerable_age_s(self) -> float:
        """Return how old the picture may be on which is chosen; what is granted is checked in any case."""
        return AGE_S if time.monotonic() - self.overtaken_s > CALM_S else 0.0


_DESKS: WeakKeyDictionary[Picture, _Desk] = WeakKeyDictionary()


def _place_together(
    placing: Callable[[Order, Work], Outcome | Refused], work: Work, orders: Sequence[Order]
) -> list[Outcome] | None:
    """Place the claims of several requests; None if each is to be placed alone.

    :raises OutcomeUnknown: 503
    """
    queries: dict[str, RelaxableRequest] = {}
    claims = [
        replace(claim, asked=queries.setdefault(claim.query, claim.asked))
        for order in orders
        for claim in order.claims
    ]
    if len({claim.consumer_uuid for claim in claims}) < len(claims):
        return None
    try:
        with work.part(*FIRST_TRY) as part:
            outcome = placing(Order(claims, {}, orders[0].strategy, of_many=True), part)
    except errors.OutcomeUnknown:
        raise
    except (errors.PlacementError, _NotTogether):
        return None
    assert isinstance(outcome, Outcome), "claims of many requests are granted, or placed alone"
    return [Outcome([granted], None) for granted in outcome.granted]


def _place(
    db: Database, picture: Picture, work_factor: int, order: Order, work: Work
) -> Outcome | Refused:
    desk, retries = _Desk.of(picture), 0
    age_s = 0.0
    if order.strategy == "any" and not order.depends_on_rows:
        age_s = desk.tolerable_age_s()
    while True:
        try:
            plan = _chosen(db, picture, order, work_factor, work, age_s)
        except WorkEnded:
            # There was room when it was chosen first: then others took it, and the time has ended.
            raise (ClaimsGivenUp if retries else ClaimsCutShort) from None
        if plan is None:
            age_s = 0.0
            continue
        if isinstance(plan, Refused):
            telemetry.CLAIMS.count("refused", number=len(order.claims))
            return plan
        try:
            outcome = db.write(partial(_write, desk, order, plan), on_conflict=Overtaken)
        except Overtaken:
            desk.overtaken_s = time.monotonic()
            retries += 1
            telemetry.CLAIM_RETRIES.count()
            age_s = 0.0
            if not work.look():
                raise ClaimsGivenUp from None
            time.sleep(DRAW.uniform(0, min(retries * PAUSE_S, LONGEST_PAUSE_S)))
        else:
            if plan.begun:
                remove_ended(db, plan.begun)
            telemetry.CLAIMS.count("granted", number=len(outcome.granted))
            if order.hold_s:
                telemetry.HOLDS.count("held", number=len(outcome.granted))
            return outcome


# -- choosing ------------------------------------------------------------------------------------


def _chosen(
    db: Database, picture: Picture, order: Order, work_factor: int, work: Work, age_s: float
) -> Plan | Refused | None:
    """Return places, or why there are none; None if that was said of what may be old or has changed.

    :raises WorkEnded: with more time there might be places.
    """
    seen = db.snapshot(lambda tx: _see(tx, order)) if order.depends_on_rows else _Seen((), {})
    asked = {id(claim.asked): claim.asked for claim in order.claims}.values()
    names = NameSets(
        frozenset().union(*(each.request.names.traits for each in asked)),
        frozenset().union(*(each.request.names.classes for each in asked)),
    )

    def on_cloud(cloud: Cloud, known: NameSets, log: Log) -> Plan | Refused | None:
        cloud = _with_room_of(cloud, seen.held)
        wishes = [Wish(claim.asked.request, claim.groups) for claim in order.claims]
        groups = {name: group.state for name, group in seen.groups.items()}
        is_first_try = order.of_many or age_s > 0
        if order.of_many:
            # All of it is a part already.
            bounds = work.part(1)
        else:
            bounds = work.part(*FIRST_TRY) if is_first_try else work.part(2)
        with bounds as part:
            found = choose(
                cloud, known, wishes, groups, order.strategy, part, DRAW, in_one_order=is_first_try
            )
        if isinstance(found, NoPlace):
            if age_s:
                return None
            if order.of_many:
                raise _NotTogether
            if found.timed_out:
                raise WorkEnded
            claim = order.claims[found.number]
            why = explain_on(found.cloud, known, claim.asked, work_factor, work)
            return Refused(claim, found.number, found.exact, found.kept_out, why)
        rules = {name: group.state.rule for name, group in seen.groups.items()}
        assigned = [_assigned(cloud, *each) for each in zip(order.claims, found, strict=True)]
        roots = frozenset[str]().union(*(group.roots for group in seen.groups.values()))
        shapes = _shapes(cloud, found, roots)
        revision = None
        if len(shapes) == 1:
            revision = int(cloud.revisions[found[0].root])
        trees = [[str(cloud.uuids[root]) for root in place.trees] for place in found]
        begun = sum(group.is_new for group in seen.groups.values())
        return Plan(assigned, trees, rules, roots, shapes, log, revision, begun)

    with refuse_unknown_names(), picture.look(names, age_s) as look:
        found = on_cloud(look.cloud, look.known, look.log)
    if isinstance(found, Refused):
        again = db.snapshot(lambda tx: _seen_at_refusal(tx, order))
        if again != seen and work.look():
            return None
    return found


def _seen_at_refusal(tx: Access, order: Order) -> _Seen:
    """Return what is to be seen now: the refresh may have removed holds that were over, members of groups.

    :raises ConsumerConflict: 409. It comes before a refusal for lack of room.
    """
    _require_generations(tx, order)
    return _see(tx, order) if order.depends_on_rows else _Seen((), {})


def _see(tx: Access, order: Order) -> _Seen:
    replaced = [claim.consumer_uuid for claim in order.claims if claim.generation is not None]
    held = tree_rows.allocations_of_all(tx, replaced) if replaced else []
    rows = group_rows.of(tx, order.group_names) if order.group_names else {}
    members = group_rows.read_members(tx, [row.id for row in rows.values()]) if rows else []
    rules = _rules(order, rows, {member.group_id for member in members})
    return _Seen(held, found_groups(tx, order, rules, rows, members))


def _rules(order: Order, rows: Mapping[str, GroupRow], alive: set[int]) -> dict[str, GroupRule]:
    """Return the rules of the groups that the claims name.

    :param alive: ids of the groups with members: the rule of any other may be another one now.
    """
    rules = {}
    for name in order.group_names:
        row, given = rows.get(name), order.rules.get(name)
        old = rule_of(row) if row is not None and row.id in alive else None
        if old is None and given is None:
            raise GroupUndefined(name=name)
        if old is not None and given not in (None, old):
            raise GroupRuleDiffers(name=name, rule=old.rule, at_most=old.at_most, level=old.level)
        rules[name] = old or given
    return {name: rule for name, rule in rules.items() if rule is not None}


def _with_room_of(cloud: Cloud, held: Sequence[tree_rows.HeldBy]) -> Cloud:
    """Return a cloud in which what the consumers hold is free; the same if they hold nothing."""
    if held:
        cloud = cloud.snapshot()
    for row in held:
        index = cloud.index_of.get(row.provider_id)
        if index is not None:
            cloud.use(index, {row.class_name: -row.used})
    return cloud


def _assigned(cloud: Cloud, claim: Claim, place: ChosenPlace) -> Assigned:
    return Assigned(
        claim.consumer_uuid,
        {str(cloud.uuids[index]): held for index, held in place.allocations.items()},
        {
            suffix: [str(cloud.uuids[index]) for index in indexes]
            for suffix, indexes in place.mappings.items()
        },
        str(cloud.uuids[place.root]),
    )


def _shapes(cloud: Cloud, places: Sequence[ChosenPlace], member_roots: Iterable[str]) -> dict[int, Shape]:
    """Return the providers that the places depend on: all those of the trees that take part."""
    indexes = {place.root for place in places}
    for place in places:
        indexes.update(place.allocations, *place.mappings.values())
    indexes.update(cloud.index_of_uuid.get(root, -1) for root in member_roots)
    roots = {int(cloud.roots[index]) for index in indexes if index >= 0}
    trees = [index for root in roots for index in cloud.forest.tree(root).tolist()]
    return {int(cloud.ids[index]): shape(cloud, index) for index in trees}


def _require_generations(tx: Access, order: Order) -> None:
    """Check the generations of the consumers without locks.

    :raises ConsumerConflict: 409
    """
    changes = [change(claim, {}) for claim in order.claims]
    names = {"consumers": [claim.consumer_uuid for claim in order.claims]}
    replacement.require_generations(changes, ledger_rows.read(tx, names))


def _write(desk: _Desk, order: Order, plan: Plan, tx: Transaction) -> Outcome:
    if tx.attempt > 1:
        desk.overtaken_s = time.monotonic()
    return writing.write(tx, order, plan)
