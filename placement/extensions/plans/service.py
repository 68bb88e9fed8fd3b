"""The service of plans: read the ledger, plan on a copy of the picture, hold the destinations (10).

A plan can be outdated when its destinations are held. The transaction checks the conditions of the
destinations under its locks, as for claims; if a check fails, the service plans again, until the deadline.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from placement import errors
from placement.db.change_rows import Log
from placement.db.database import Database
from placement.extensions.claims.orders import LookAgain
from placement.extensions.claims.service import LONGEST_PAUSE_S, PAUSE_S, ClaimsGivenUp
from placement.extensions.plans import figures
from placement.extensions.plans.holding import hold_places, name_holders
from placement.extensions.plans.ledger import Ledger, Resident, hold_by_root, read_ledger
from placement.extensions.plans.planning.plan import list_trees, make_plan
from placement.extensions.plans.planning.values import (
    Empty,
    Fit,
    Goal,
    Keep,
    Limits,
    MoveStep,
    NoPlan,
    Occupant,
    Plan,
)
from placement.extensions.plans.steps import show_held, show_place, show_steps
from placement.extensions.plans.wanted import (
    EmptyWanted,
    FitWanted,
    KeepWanted,
    MoveShown,
    NoPlanShown,
    PlanShown,
    StayingShown,
    Wanted,
)
from placement.objects.allocation_candidate import refuse_unknown_names
from placement.objects.picture import NO_NAMES, Picture
from placement.objects.resource_provider import ProviderNotFound
from placement.placing.explain import explain_on
from placement.placing.packing import roots_by_aggregate
from placement.search.cloud import Cloud
from placement.search.feasible import check_classes
from placement.search.garbage import pause_collection
from placement.search.request import NameSets, UnknownClassName
from placement.search.work import Work, WorkEnded

DRAW = random.SystemRandom()

MOST_STUCK = 100
"""The most consumers without a place that are named."""


class AggregateNotFound(errors.NotFound):
    """The aggregate to empty does not contain a provider."""

    text = "No resource provider found in the aggregate {uuid}"
    uuid: str


class CountTooLarge(errors.BadRequest):
    """The count of domains to empty exceeds the number of named domains."""

    reason = "invalid_goal"
    about = "field"
    text = "goal.empty.count is {count}, and goal.empty.of names {domains} different domains."
    count: int
    domains: int
    field = "/goal/empty/count"


class UnknownCostClass(errors.BadRequest):
    """A cost per unit names an unknown resource class; ignoring a misspelt one would change the plan."""

    reason = "unknown_resource_class"
    about = "field"
    text = "cost.per_unit: No such resource class {name}."
    name: str

    @property
    def field(self) -> str:
        """Return the path of the price."""
        return f"/cost/per_unit/{self.name}"


class PlanCutShort(errors.Unavailable):
    """The deadline passed before it was known whether a plan exists."""

    code = "placement.search_given_up"
    reason = "search_given_up"
    text = (
        "The search for a plan took too long and was given up; whether there is one is not known. Nothing "
        "was written. Fewer domains to choose from, or fewer consumers that may move, make it easier."
    )


def make(
    db: Database, picture: Picture, wanted: Wanted, work_factor: int, most_held: int, work: Work
) -> PlanShown | NoPlanShown:
    """Return a plan, held on request, or the obstacles.

    :param most_held: the most steps of a held plan.
    :raises ProviderNotFound, AggregateNotFound, GroupNotFound: 404
    :raises CountTooLarge, UnknownCostClass, UnknownNameInQuery: 400
    :raises ClaimsGivenUp, PlanCutShort: 503
    """
    retries = 0
    while True:
        try:
            answer = _make_once(db, picture, wanted, work_factor, most_held, work)
        except WorkEnded:
            figures.PLANS.count("given_up")
            # The first plan existed, but other claims took its destinations until the time ended.
            raise (ClaimsGivenUp if retries else PlanCutShort) from None
        if not isinstance(answer, LookAgain):
            return answer
        retries += 1
        if not work.check_time():
            figures.PLANS.count("given_up")
            raise ClaimsGivenUp
        time.sleep(DRAW.uniform(0, min(retries * PAUSE_S, LONGEST_PAUSE_S)))


def _make_once(
    db: Database, picture: Picture, wanted: Wanted, work_factor: int, most_held: int, work: Work
) -> PlanShown | NoPlanShown | LookAgain:
    names = wanted.goal.asked.request.names if isinstance(wanted.goal, FitWanted) else NO_NAMES
    with picture.look(NameSets(names.traits, names.classes | wanted.costs.per_unit.keys())) as look:
        scene = _Scene(look.cloud.snapshot(), look.known, look.log, wanted, work)
    try:
        check_classes(scene.cloud, scene.known, sorted(wanted.costs.per_unit))
    except UnknownClassName as unknown:
        raise UnknownCostClass(name=unknown.name) from None
    domains = scene.find_domains()
    goal = _aim(wanted, [roots for _, roots in domains])
    if goal is None:
        too_few = _refuse(scene, NoPlan(exact=True), [], [], work_factor)
        return replace(too_few, domains=len(domains))
    with pause_collection():
        ledger = scene.read(db, goal)
        root_of: list[int] = scene.cloud.roots.tolist()
        occupants = [_occupy(root_of, wanted, ledger, holder) for holder in ledger.holders]
    most = wanted.permission.most
    limits = Limits(
        most if wanted.hold_s is None else min(most, most_held),
        wanted.hold_s is not None,
        scene.avoided | scene.find_refused_roots(),
    )
    # A plan to hold leaves time for that itself, once it is found.
    with refuse_unknown_names(), work.part(1) as part:
        plan = make_plan(
            scene.cloud,
            scene.known,
            occupants,
            ledger.members,
            goal,
            wanted.costs,
            limits,
            ledger.unread,
            part,
        )
    if isinstance(plan, NoPlan):
        if plan.timed_out:
            # Without a known result there is nothing to explain.
            raise WorkEnded
        roots = [root for _, roots in domains for root in roots]
        refused = _refuse(scene, plan, ledger.holders, roots, work_factor)
        return replace(refused, most=limits.most, fewest=plan.fewest_steps)
    return _show(db, scene, ledger, plan, [uuid for uuid, _ in domains])


@dataclass(slots=True)
class _Scene:
    """A copy of the picture for planning; ``log``: the log at the state of the cloud."""

    cloud: Cloud
    known: NameSets
    log: Log
    wanted: Wanted
    work: Work

    def find_domains(self) -> list[tuple[str, list[int]]]:
        """Return the domains to empty with the roots of their trees; other goals have none.

        :raises ProviderNotFound, AggregateNotFound: a named domain does not exist
        """
        goal, cloud = self.wanted.goal, self.cloud
        if not isinstance(goal, EmptyWanted):
            return []
        age = cloud.ids.__getitem__
        if goal.level == "aggregate":
            roots_of = roots_by_aggregate(cloud)
            for uuid in goal.uuids or ():
                if uuid not in roots_of:
                    raise AggregateNotFound(uuid=uuid)
            chosen = sorted(roots_of) if goal.uuids is None else goal.uuids
            return [(uuid, sorted(roots_of[uuid], key=age)) for uuid in chosen]
        roots = sorted(cloud.forest.roots.tolist(), key=age)
        if goal.uuids is not None:
            for uuid in goal.uuids:
                if uuid not in cloud.index_of_uuid:
                    raise ProviderNotFound(uuid=uuid)
            # Two providers can name the same tree.
            indexes = [cloud.index_of_uuid[uuid] for uuid in goal.uuids]
            roots = list(dict.fromkeys(int(cloud.roots[index]) for index in indexes))
        return [(str(cloud.uuids[root]), [root]) for root in roots]

    @property
    def avoided(self) -> frozenset[int]:
        """The roots of the avoided trees."""
        return frozenset(self.cloud.list_avoided(self.wanted.avoid))

    def find_refused_roots(self) -> set[int]:
        """Return the roots of the trees that the request excludes as destinations."""
        cloud = self.cloud
        # A uuid that does not exist is not an error, as in ``except``: it may have been deleted meanwhile.
        indexes = map(cloud.index_of_uuid.get, self.wanted.permission.not_to)
        return {int(cloud.roots[index]) for index in indexes if index is not None}

    def read(self, db: Database, goal: Goal) -> Ledger:
        """Read the ledger, the relevant trees first."""
        with refuse_unknown_names(), self.work.part(2) as part:
            first = list_trees(self.cloud, self.known, goal, part)
            groups = goal.groups if isinstance(goal, Keep) else ()
            return read_ledger(db, self.cloud, first, groups, part)


def _aim(wanted: Wanted, domains: list[list[int]]) -> Goal | None:
    """Return the goal on the cloud; None if there are fewer domains than to empty.

    :raises CountTooLarge: fewer domains are named than to empty
    """
    match wanted.goal:
        case FitWanted(asked, times):
            return Fit(asked.request, times)
        case KeepWanted(groups):
            return Keep(groups)
        case EmptyWanted(_, uuids, count):
            if count is not None and count > len(domains):
                if uuids is not None:
                    raise CountTooLarge(count=count, domains=len(domains))
                return None
            return Empty(domains, len(domains) if count is None else count)


def _occupy(root_of: Sequence[int], wanted: Wanted, ledger: Ledger, holder: Resident) -> Occupant:
    """Return a consumer with the permissions of a plan.

    :param root_of: the roots by provider index.
    """
    permission, owner = wanted.permission, holder.owner
    held = hold_by_root(root_of, holder.held, ledger.unread)
    is_free = not holder.is_fixed and holder.uuid not in permission.untouched
    return Occupant(
        holder.uuid,
        held,
        may_move=is_free and permission.lets_move(owner.type),
        may_remove=is_free and permission.lets_remove(owner.type, owner.project),
        elsewhere={
            index: amounts for index, amounts in holder.held.items() if root_of[index] not in held
        }
        if ledger.unread
        else {},
    )


# -- what comes of it ----------------------------------------------------------------------------


def _show(
    db: Database, scene: _Scene, ledger: Ledger, plan: Plan, domains: list[str]
) -> PlanShown | LookAgain:
    """Hold the destinations of a plan on request, and return the plan by uuids."""
    cloud, wanted = scene.cloud, scene.wanted
    steps, expires_at = show_steps(cloud, ledger.holders, plan.steps), None
    moves = [step for step in steps if isinstance(step, MoveShown)]
    if wanted.hold_s is not None and moves:
        places = [step.place for step in plan.steps if isinstance(step, MoveStep)]
        granted = hold_places(db, cloud, scene.log, moves, places, wanted.hold_s)
        if isinstance(granted, LookAgain):
            return granted
        steps, expires_at = name_holders(steps, granted), granted.expires_at
    figures.PLANS.count("minimal" if plan.minimal else "bounded")
    figures.PLAN_STEPS.count("move", number=len(moves))
    figures.PLAN_STEPS.count("remove", number=len(steps) - len(moves))
    is_fit, is_empty = isinstance(wanted.goal, FitWanted), isinstance(wanted.goal, EmptyWanted)
    return PlanShown(
        steps,
        plan.cost,
        plan.lower_bound,
        plan.minimal,
        plan.complete,
        len(scene.avoided),
        [show_place(cloud, place) for place in plan.placed] if is_fit else None,
        [domains[number] for number in plan.emptied] if is_empty else None,
        expires_at,
    )


def _refuse(
    scene: _Scene, plan: NoPlan, holders: Sequence[Resident], roots: list[int], work_factor: int
) -> NoPlanShown:
    """Return the obstacles to a plan.

    :param roots: the roots of the trees to empty, or of the choices for that.
    """
    figures.PLANS.count("refused")
    cloud, goal, stuck, explanation = scene.cloud, scene.wanted.goal, None, None
    if isinstance(goal, EmptyWanted):
        leaving, stuck = set(roots), []
        for number in list(plan.staying)[:MOST_STUCK]:
            holder = holders[number]
            there = {i: held for i, held in holder.held.items() if int(cloud.roots[i]) in leaving}
            stuck.append(StayingShown(holder.uuid, holder.owner, show_held(cloud, there)))
    if isinstance(goal, FitWanted):
        why = explain_on(cloud, scene.known, goal.asked, work_factor, scene.work)
        explanation = goal.asked, why
    return NoPlanShown(plan.exact, plan.groups, len(scene.avoided), stuck, explanation)
