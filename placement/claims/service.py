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
from placement.claims.together import Together
from placement.db import (
    cloud_rows,
    group_rows,
    hold_rows,
    ledger_rows,
    named_rows,
    tree_rows,
)
from placement.db.change_rows import Log
from placement.db.database import Access, Database, Transaction
from placement.db.group_rows import GroupRow, MemberRow
from placement.insight import questions
from placement.insight.choose import GroupState, Place, Refusal, Strategy, Wish, choose
from placement.insight.questions import Explanation
from placement.insight.remedies import RelaxableRequest
from placement.objects import ledger, replacement
from placement.objects.allocation_candidate import unknown_names_refused
from placement.objects.groups import aggregates_by_root, domains_by_member, remove_ended, rule_of
from placement.objects.picture import Picture, records_of
from placement.objects.replacement import ConsumerChange
from placement.search.cloud import Cloud
from placement.search.group_rules import GroupRule, Occupancy
from placement.search.request import NameSets
from placement.search.work import Work

DRAW = random.SystemRandom()

MOST_TOGETHER, SHARE_TOGETHER = 10_000, 50
"""What claims of several requests may cost, in placements, and as a part of the time."""

AGE_S, CALM_S = 0.1, 1.0
"""How old the picture may be on which is chosen, unless something was chosen in vain since ``CALM_S``."""

PAUSE_S, LONGEST_PAUSE_S = 0.001, 0.05
"""Before a further choice: so much for each one before it, with full jitter."""

ACTION = "Unable to allocate inventory"


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


class _Overtaken(errors.ConcurrentUpdate):
    """What was chosen is not so any more. No client reads this: it is chosen again."""


class _NotTogether(errors.Conflict):
    """Claims of several requests have no places together. No client reads this: each is placed alone."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One consumer with what it asks for. Equal queries are one object.

    :param generation: the one the client read; None for a new consumer.
    :param query: as it was sent.
    """

    consumer_uuid: str
    generation: int | None
    project: str
    user: str
    type: str
    query: str
    asked: RelaxableRequest
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """Claims that are granted together or not at all.

    :param rules: those that the request names, by group.
    :param hold_s: for how long the consumers are held; None for good.
    :param of_many: they are of several requests, which are placed alone if they have no places together.
    """

    claims: Sequence[Claim]
    rules: Mapping[str, GroupRule]
    strategy: Strategy
    hold_s: int | None = None
    of_many: bool = False

    @property
    def group_names(self) -> frozenset[str]:
        """The groups that some claim is to be a member of."""
        return frozenset(name for claim in self.claims for name in claim.groups)


class Granted(NamedTuple):
    """What a consumer was given: resources by provider, providers by request group, the root of its tree."""

    consumer_uuid: str
    consumer_generation: int
    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, Sequence[str]]
    root_provider_uuid: str


class Refused(NamedTuple):
    """The claim that could not be placed, and why. ``groups``: those whose rules kept it out of trees."""

    claim: Claim
    number: int
    exact: bool
    groups: tuple[str, ...]
    explanation: Explanation


class Outcome(NamedTuple):
    """What was granted, in the order asked; until when it is held, in milliseconds since the epoch."""

    granted: Sequence[Granted]
    expires_at: int | None


class _Seen(NamedTuple):
    """What was read without locks before choosing: what the consumers hold, and the groups."""

    held: Sequence[tree_rows.HeldBy]
    groups: Mapping[str, "_Group"]


class _Group(NamedTuple):
    """A group as the claims find it. ``roots``: of the trees of all members that stay.

    ``is_new``: no group of this name is stored.
    """

    state: GroupState
    roots: frozenset[str]
    is_new: bool


Shape = tuple[int | None, int, frozenset[str], frozenset[str]]
"""Of a provider: the ids of parent and root, traits and aggregates."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """Chosen places, and what they depend on: providers by id, as they were when the log was so.

    ``trees``: of each place, the uuids of the roots that count for groups.
    ``revision``: of the provider, if it is only one. ``begins_group``: some group is new.
    """

    granted: Sequence[Granted]
    trees: Sequence[Sequence[str]]
    rules: Mapping[str, GroupRule]
    member_roots: frozenset[str]
    shapes: Mapping[int, Shape]
    log: Log
    revision: int | None
    begins_group: bool


def place(
    db: Database, picture: Picture, order: Order, work_factor: int, work: Work
) -> Outcome | Refused:
    """Claim for all consumers, or for none and say why.

    :param work: what choosing and explaining may cost, and the deadline.
    :raises ConsumerConflict: 409, a consumer is not of the generation sent
    :raises GroupRuleDiffers: 409
    :raises GroupUndefined, UnknownNameInQuery: 400
    :raises ClaimsGivenUp: 503
    """
    placing = partial(_place, db, picture, work_factor)
    if len(order.claims) > 1 or order.hold_s or _depends_on_rows(order):
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

    meetings: dict[Strategy, Together[Order, Outcome | Refused]] = field(default_factory=dict)
    overtaken_s: float = -CALM_S

    @classmethod
    def of(cls, picture: Picture) -> "_Desk":
        """Return the desk beside a picture."""
        return _DESKS.setdefault(picture, cls())


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
        with work.part(SHARE_TOGETHER, MOST_TOGETHER) as part:
            outcome = placing(Order(claims, {}, orders[0].strategy, of_many=True), part)
    except errors.OutcomeUnknown:
        raise
    except errors.PlacementError:
        return None
    assert isinstance(outcome, Outcome), "there is no refusal of many"
    return [Outcome([granted], None) for granted in outcome.granted]


def _place(
    db: Database, picture: Picture, work_factor: int, order: Order, work: Work
) -> Outcome | Refused:
    trace, desk, retries = telemetry.current(), _Desk.of(picture), 0
    is_calm = time.monotonic() - desk.overtaken_s > CALM_S
    age_s = AGE_S if is_calm and order.strategy == "any" else 0.0
    while True:
        plan = _chosen(db, picture, order, work_factor, work, age_s)
        if plan is None:
            age_s = 0.0
            continue
        if isinstance(plan, Refused):
            if retries and not plan.exact and not work.look():
                # There was room when it was chosen first: the time has ended, not the room.
                raise ClaimsGivenUp
            trace.claims_refused += len(order.claims)
            return plan
        try:
            outcome = db.write(partial(_write, desk, order, plan), on_conflict=_Overtaken)
        except _Overtaken:
            desk.overtaken_s = time.monotonic()
            retries += 1
            trace.claim_retries += 1
            age_s = 0.0
            if not work.look():
                raise ClaimsGivenUp from None
            time.sleep(DRAW.uniform(0, min(retries * PAUSE_S, LONGEST_PAUSE_S)))
        else:
            if plan.begins_group:
                remove_ended(db)
            trace.claims_granted += len(outcome.granted)
            trace.holds_begun += len(outcome.granted) if order.hold_s else 0
            return outcome


# -- choosing ------------------------------------------------------------------------------------


def _chosen(
    db: Database, picture: Picture, order: Order, work_factor: int, work: Work, age_s: float
) -> _Plan | Refused | None:
    """Return places, or why there are none; None if there are none on a picture that may be old."""
    seen = db.snapshot(lambda tx: _see(tx, order)) if _depends_on_rows(order) else _Seen((), {})
    asked = {id(claim.asked): claim.asked for claim in order.claims}.values()
    names = NameSets(
        frozenset().union(*(each.request.names.traits for each in asked)),
        frozenset().union(*(each.request.names.classes for each in asked)),
    )

    def on_cloud(cloud: Cloud, known: NameSets, log: Log) -> _Plan | Refused | None:
        cloud = _with_room_of(cloud, seen.held)
        wishes = [Wish(claim.asked.request, claim.groups) for claim in order.claims]
        groups = {name: group.state for name, group in seen.groups.items()}
        with work.part(2) as part:
            found = choose(
                cloud, known, wishes, groups, order.strategy, part, DRAW, in_one_order=order.of_many
            )
        if isinstance(found, Refusal):
            if age_s:
                return None
            if order.of_many:
                raise _NotTogether
            claim = order.claims[found.number]
            why = questions.explain_on(found.cloud, known, claim.asked, work_factor, work)
            return Refused(claim, found.number, found.exact, found.kept_out, why)
        rules = {name: group.state.rule for name, group in seen.groups.items()}
        granted = [_granted(cloud, *each) for each in zip(order.claims, found, strict=True)]
        roots = frozenset[str]().union(*(group.roots for group in seen.groups.values()))
        shapes = _shapes(cloud, found, roots)
        revision = None
        if len(shapes) == 1:
            revision = int(cloud.revisions[found[0].root])
        trees = [[str(cloud.uuids[root]) for root in place.trees] for place in found]
        begins_group = any(group.is_new for group in seen.groups.values())
        return _Plan(granted, trees, rules, roots, shapes, log, revision, begins_group)

    with unknown_names_refused():
        found = picture.read_logged(names, on_cloud, age_s)
    if isinstance(found, Refused):
        # A refusal for lack of room is none for a consumer that cannot be written.
        db.snapshot(lambda tx: _require_generations(tx, order))
    return found


def _depends_on_rows(order: Order) -> bool:
    return bool(order.group_names) or any(claim.generation is not None for claim in order.claims)


def _see(tx: Access, order: Order) -> _Seen:
    replaced = [claim.consumer_uuid for claim in order.claims if claim.generation is not None]
    held = tree_rows.allocations_of_all(tx, replaced) if replaced else []
    rows = group_rows.of(tx, order.group_names) if order.group_names else {}
    members = group_rows.members(tx, [row.id for row in rows.values()]) if rows else []
    rules = _rules(order, rows, {member.group_id for member in members})
    return _Seen(held, _groups(tx, order, rules, rows, members))


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


def _groups(
    tx: Access,
    order: Order,
    rules: Mapping[str, GroupRule],
    rows: Mapping[str, GroupRow],
    members: Sequence[MemberRow],
) -> dict[str, _Group]:
    """Return the groups with those members that are not claimed for now: these leave and may come back."""
    claimed = {claim.consumer_uuid for claim in order.claims}
    stay = [member for member in members if member.consumer_uuid not in claimed]
    aggregates = aggregates_by_root(tx, rules.values())
    groups = {}
    for name, rule in rules.items():
        mine = [member for member in stay if name in rows and member.group_id == rows[name].id]
        domains = domains_by_member(rule, mine, aggregates)
        state = GroupState(rule, list(domains.values()), aggregates)
        groups[name] = _Group(
            state, frozenset(member.root_uuid for member in mine), name not in rows
        )
    return groups


def _with_room_of(cloud: Cloud, held: Sequence[tree_rows.HeldBy]) -> Cloud:
    """Return a cloud in which what the consumers hold is free; the same if they hold nothing."""
    if held:
        cloud = cloud.snapshot()
    for row in held:
        index = cloud.index_of.get(row.provider_id)
        if index is not None:
            cloud.use(index, {row.class_name: -row.used})
    return cloud


def _granted(cloud: Cloud, claim: Claim, place: Place) -> Granted:
    return Granted(
        claim.consumer_uuid,
        1 if claim.generation is None else claim.generation + 1,
        {str(cloud.uuids[index]): held for index, held in place.allocations.items()},
        {
            suffix: [str(cloud.uuids[index]) for index in indexes]
            for suffix, indexes in place.mappings.items()
        },
        str(cloud.uuids[place.root]),
    )


def _shapes(cloud: Cloud, places: Sequence[Place], member_roots: Iterable[str]) -> dict[int, Shape]:
    """Return the providers that the places depend on: all those of the trees that take part."""
    indexes = {place.root for place in places}
    for place in places:
        indexes.update(place.allocations, *place.mappings.values())
    indexes.update(cloud.index_of_uuid.get(root, -1) for root in member_roots)
    roots = {int(cloud.roots[index]) for index in indexes if index >= 0}
    trees = [index for root in roots for index in cloud.forest.tree(root).tolist()]
    return {
        int(cloud.ids[index]): (
            int(cloud.ids[parent]) if (parent := int(cloud.parents[index])) >= 0 else None,
            int(cloud.ids[cloud.roots[index]]),
            frozenset(cloud.traits[index]),
            frozenset(cloud.aggregates[index]),
        )
        for index in trees
    }


def _require_generations(tx: Access, order: Order) -> None:
    """Check the generations of the consumers without locks.

    :raises ConsumerConflict: 409
    """
    changes = [_change(claim, {}) for claim in order.claims]
    names = {"consumers": [change.uuid for change in changes]}
    replacement.checked_consumers(changes, ledger_rows.read(tx, names))


def _change(claim: Claim, allocations: Mapping[str, Mapping[str, int]]) -> ConsumerChange:
    return ConsumerChange(
        claim.consumer_uuid,
        allocations,
        project=claim.project,
        user=claim.user,
        generation=claim.generation,
        type=claim.type,
    )


# -- writing -------------------------------------------------------------------------------------


def _write(desk: _Desk, order: Order, plan: _Plan, tx: Transaction) -> Outcome:
    """Write what was chosen; locks are taken in the order of the maintainers' page on claims.

    :raises _Overtaken: something that it depends on is not as it was seen.
    """
    if tx.attempt > 1:
        desk.overtaken_s = time.monotonic()
    rows = _lock_groups(tx, plan.rules)
    changes = [
        _change(*each)
        for each in zip(order.claims, (g.allocations for g in plan.granted), strict=True)
    ]
    is_everyday = (
        plan.revision is not None
        and not (rows or order.hold_s or _depends_on_rows(order))
        and ledger.is_everyday(tx, changes)
    )
    reading = ledger.read(tx, changes, with_stock=is_everyday)
    try:
        replaced = replacement.checked(changes, reading, ACTION)
        owners = ledger.take_consumers(tx, replaced, reading)
        # One provider, of which nothing has changed: that is a condition of the statement. Five messages
        # to PostgreSQL instead of seven, and 0.87 of the service's processor time.
        if is_everyday and ledger.try_claim(tx, replaced, owners, reading, plan.revision):
            return Outcome(plan.granted, None)
        providers, inventories = ledger.write_then_hold(tx, replaced)
    except (replacement.DoesNotFit, replacement.ProviderMissing, replacement.ClassMissing):
        raise _Overtaken from None
    _require_rules(tx, order, plan, rows)
    _require_unmoved(tx, plan)
    expires_at = _write_rows(tx, order, plan, rows)
    stepped = {1: [providers[id_] for id_ in replaced.named | replaced.emptied]}
    ledger.finish_write(tx, replaced, owners, inventories, stepped=stepped, touched=replaced.left)
    return Outcome(plan.granted, expires_at)


def _lock_groups(tx: Transaction, rules: Mapping[str, GroupRule]) -> dict[str, GroupRow]:
    if not rules:
        return {}
    return group_rows.lock(
        tx, {name: (rule.rule, rule.at_most, rule.of) for name, rule in rules.items()}
    )


def _require_rules(
    tx: Transaction, order: Order, plan: _Plan, rows: Mapping[str, GroupRow]
) -> None:
    """Check that the groups, which are locked, keep their rules with the new members."""
    if not rows:
        return
    members = group_rows.members(tx, [row.id for row in rows.values()])
    alive = {member.group_id for member in members}
    for name, row in rows.items():
        if rule_of(row) != plan.rules[name]:
            if row.id in alive:
                raise _Overtaken
            rule = plan.rules[name]
            group_rows.redefine(tx, row.id, rule.rule, rule.at_most, rule.of)
    for name, group in _groups(tx, order, plan.rules, rows, members).items():
        occupied = Occupancy.of(group.state.rule, group.state.members)
        for claim, trees in zip(order.claims, plan.trees, strict=True):
            if name in claim.groups:
                occupied.add(group.state.rule.domains(trees, group.state.aggregates))
        if not occupied.kept or not group.roots <= plan.member_roots:
            raise _Overtaken


def _require_unmoved(tx: Transaction, plan: _Plan) -> None:
    """Check that of the trees that take part nothing has changed but inventories and usage.

    The providers are locked, so there is one committed state in which all is as it was chosen: that which
    this statement reads. Where the log does not say what has changed, it is compared.
    """
    log, _ = cloud_rows.log(tx)
    changed = log.changed_since(plan.log) if log is not None else None
    if changed is not None:
        if not changed.whole.isdisjoint(plan.shapes):
            raise _Overtaken
        return
    contents = cloud_rows.steady_contents(tx, plan.shapes)
    if contents is None or plan.shapes != {
        record.provider_id: (record.parent_id, record.root_id, record.traits, record.aggregates)
        for record in records_of(contents)
    }:
        raise _Overtaken


def _write_rows(
    tx: Transaction, order: Order, plan: _Plan, rows: Mapping[str, GroupRow]
) -> int | None:
    """Write who is a member of which group, and who is held; return until when."""
    replaced = [claim.consumer_uuid for claim in order.claims if claim.generation is not None]
    joining = [claim.consumer_uuid for claim in order.claims if claim.groups]
    named = (
        {claim.consumer_uuid for claim in order.claims} if order.hold_s else {*replaced, *joining}
    )
    if not named:
        return None
    ids = named_rows.ids(tx, named_rows.CONSUMERS, named)
    group_rows.leave(tx, [ids[uuid] for uuid in replaced])
    group_rows.join(
        tx,
        [
            (ids[claim.consumer_uuid], rows[name].id)
            for claim in order.claims
            for name in dict.fromkeys(claim.groups)
        ],
    )
    if order.hold_s is None:
        return None
    generations = [(ids[each.consumer_uuid], each.consumer_generation) for each in plan.granted]
    return hold_rows.add(tx, generations, order.hold_s)
