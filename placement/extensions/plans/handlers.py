"""The handler of plans: parse, ask once, render (specification 10)."""

from collections.abc import Mapping
from typing import Any

from webob import Response

from placement import errors
from placement.extensions.claims.schemas import CANDIDATES
from placement.extensions.plans import schemas, service
from placement.extensions.plans.planning.values import Costs
from placement.extensions.plans.wanted import (
    ConsumerNow,
    EmptyWanted,
    FitWanted,
    GoalWanted,
    Held,
    KeepWanted,
    MoveShown,
    NoPlanShown,
    Permission,
    PlaceShown,
    PlanShown,
    Removable,
    RemovalShown,
    StepShown,
    Wanted,
)
from placement.handlers import candidate_query
from placement.handlers.allocation import NO_TYPE
from placement.handlers.avoided import read_avoid
from placement.handlers.explanation import read_relaxable, render_explanation
from placement.objects.allocation_candidate import UnknownNameInQuery
from placement.printable import show_time
from placement.schemas.questions import DEFAULT_EXAMPLES, NOTHING
from placement.web.microversion import MAXIMUM
from placement.web.request import Request
from placement.web.response import json_response
from placement.web.search_bounds import bound_reading, bound_search
from placement.web.validation import normalized_uuid

CERTAINTY = {True: "There is none.", False: "It is not certain that there is none."}


class MalformedPlan(errors.Malformed):
    """The request for a plan contradicts itself."""

    reasons = {
        "goal": "invalid_goal",
        "times": "invalid_goal",
        "empty": "invalid_goal",
        "count": "invalid_goal",
        "query": "invalid_query",
        "held": "holds_off",
        "avoid": "repeated_avoid",
    }
    texts = {
        "goal": 'The goal must have exactly one of "place", "empty" and "keep".',
        "times": 'goal.times is for "place" alone.',
        "empty": 'goal.empty must have either "trees" or "count".',
        "count": 'goal.empty has "{name}", which is for "count" alone.',
        "query": "The query of goal.place: {detail}",
        "avoid": "may.move.avoid is another name of avoid: only one of them may be there.",
        "held": "hold_s: nothing can be held here, since [insight]claims is off.",
    }


class NoPlanFound(errors.Conflict):
    """The service found no plan, and wrote nothing. ``document``: whether that is certain, and why."""

    code = "placement.no_plan"
    reason = "no_plan"
    text = "No plan was found. {certainty}"
    certainty: str
    document: Mapping[str, Any]

    def more(self) -> Mapping[str, Any]:
        """Return the obstacles."""
        return self.document


# The names of handlers are the operations of the OpenAPI document: clients are generated from them.
def make_plan(request: Request) -> Response:
    """Return what must move or be removed, and in which order; hold the destinations on request."""
    request.read_query(NOTHING)
    body = request.read_json(schemas.PLAN)
    if "hold_s" in body:
        if not request.conf.insight.claims:
            raise MalformedPlan.for_rule("held", field="/hold_s")
        request.authorize("claims:create")
    wanted = _read_wanted(request, body)
    try:
        with bound_search(request) as work:
            insight = request.conf.insight
            answer = service.make(
                request.db,
                request.picture,
                wanted,
                insight.work_factor,
                insight.claims_most,
                work,
            )
    except UnknownNameInQuery as refused:
        raise _name_query(refused) from None
    if isinstance(answer, NoPlanShown):
        certainty = _say_why(wanted, answer)
        raise NoPlanFound(certainty=certainty, document=_render_refusal(answer))
    return json_response(request, _render_plan(answer))


# -- what is asked -------------------------------------------------------------------------------


def _read_wanted(request: Request, body: Mapping[str, Any]) -> Wanted:
    may, cost = body.get("may", {}), body.get("cost", {})
    move, remove = may.get("move", {}), may.get("remove")
    permission = Permission(
        _read_types(move),
        frozenset(map(normalized_uuid, move.get("except", ()))),
        frozenset(map(normalized_uuid, move.get("not_to", ()))),
        int(move.get("most", schemas.MOST_STEPS)),
        None
        if remove is None
        else Removable(_read_types(remove), _read_projects(remove)),
    )
    if "avoid" in move and "avoid" in body:
        raise MalformedPlan.for_rule("avoid", field="/may/move/avoid")
    avoid = read_avoid(request, body if "avoid" in body else move)
    default = Costs()
    costs = Costs(
        cost.get("move", default.move), cost.get("remove", default.remove), cost.get("per_unit", {})
    )
    hold_s = body.get("hold_s")
    goal = _read_goal(request, body["goal"], avoid)
    return Wanted(goal, permission, costs, avoid, None if hold_s is None else int(hold_s))


def _read_types(given: Mapping[str, Any]) -> frozenset[str | None] | None:
    types = given.get("consumer_types")
    return None if types is None else frozenset(None if each == NO_TYPE else each for each in types)


def _read_projects(given: Mapping[str, Any]) -> frozenset[str] | None:
    return frozenset(given["projects"]) if "projects" in given else None


def _read_goal(request: Request, given: Mapping[str, Any], avoid: frozenset[str]) -> GoalWanted:
    if len(given.keys() & {"place", "empty", "keep"}) != 1:
        raise MalformedPlan.for_rule("goal", field="/goal")
    if "times" in given and "place" not in given:
        raise MalformedPlan.for_rule("times", field="/goal/times")
    if "keep" in given:
        return KeepWanted(list(dict.fromkeys(given["keep"])))
    if "empty" in given:
        return _read_empty(given["empty"])
    try:
        with bound_reading(request):
            query = candidate_query.check(request, CANDIDATES, given["place"])
            asked = read_relaxable(query, MAXIMUM, request.conf.placement, avoid)
    except errors.BadRequest as refused:
        raise _name_query(refused) from None
    return FitWanted(asked, int(given.get("times", 1)))


def _read_empty(given: Mapping[str, Any]) -> EmptyWanted:
    if ("trees" in given) == ("count" in given):
        raise MalformedPlan.for_rule("empty", field="/goal/empty")
    for name in ("level", "of"):
        if "trees" in given and name in given:
            raise MalformedPlan.for_rule("count", name=name, field=f"/goal/empty/{name}")
    named = given.get("trees", given.get("of"))
    uuids = None if named is None else list(dict.fromkeys(map(normalized_uuid, named)))
    count = int(given["count"]) if "count" in given else None
    return EmptyWanted(given.get("level", "tree"), uuids, count)


def _name_query(refused: errors.BadRequest) -> MalformedPlan:
    """Return the error of the query, with code and reason as a search has them."""
    error = MalformedPlan.for_rule("query", detail=refused)
    told = {"code": refused.code, "reason": refused.reason, "broken": refused.details}
    vars(error).update(told)
    return error


# -- what is answered ----------------------------------------------------------------------------


def _render_plan(plan: PlanShown) -> dict[str, Any]:
    document: dict[str, Any] = {
        "steps": [_render_step(step) for step in plan.steps],
        "cost": plan.cost,
        "lower_bound": plan.lower_bound,
        "minimal": plan.minimal,
        "complete": plan.complete,
        "avoided": plan.avoided,
    }
    if plan.placed is not None:
        document["placed"] = [_render_place(place) for place in plan.placed]
    if plan.emptied is not None:
        document["emptied"] = plan.emptied
    if plan.expires_at is not None:
        document["hold"] = {"expires_at": show_time(plan.expires_at)}
    return document


def _render_step(step: StepShown) -> dict[str, Any]:
    owner = {
        "consumer_generation": step.consumer.generation,
        "project_id": step.owner.project,
        "user_id": step.owner.user,
        "consumer_type": step.owner.type or NO_TYPE,
        "from": _render_held(step.left),
    }
    if isinstance(step, RemovalShown):
        return {"remove": step.consumer.uuid, **owner}
    return _render_move(step, owner)


def _render_move(move: MoveShown, owner: Mapping[str, Any]) -> dict[str, Any]:
    document = {
        "consumer_uuid": move.consumer.uuid,
        **owner,
        **_render_place(move.place),
        "allocations": _render_held(move.after),
    }
    if move.held_by is not None:
        document["held_by"] = _render_consumer(move.held_by)
    return document


def _render_consumer(consumer: ConsumerNow) -> dict[str, Any]:
    return {"consumer_uuid": consumer.uuid, "consumer_generation": consumer.generation}


def _render_place(place: PlaceShown) -> dict[str, Any]:
    return {
        "allocations": _render_held(place.allocations),
        "mappings": place.mappings,
        "root_provider_uuid": place.root_uuid,
    }


def _render_held(held: Held) -> dict[str, Any]:
    return {uuid: {"resources": amounts} for uuid, amounts in held.items()}


def _say_why(wanted: Wanted, refusal: NoPlanShown) -> str:
    """Return a sentence that says whether a plan may exist nevertheless."""
    goal = wanted.goal
    if refusal.domains is not None and isinstance(goal, EmptyWanted):
        kind, all_ = {"tree": "trees", "aggregate": "aggregates"}[goal.level], refusal.domains
        return f"There is none: the number of {kind} to be empty is {goal.count}, of {all_} in all."
    if not refusal.exact or not (refusal.fewest or refusal.most < schemas.MOST_STEPS):
        return CERTAINTY[refusal.exact]
    why = f": it takes {refusal.fewest} steps at least" if refusal.fewest else ""
    source = "may.move.most" if refusal.most == wanted.permission.most else "[insight]/claims_most"
    return f"There is none of at most {refusal.most} steps ({source}){why}."


def _render_refusal(refusal: NoPlanShown) -> dict[str, Any]:
    document: dict[str, Any] = {
        "exact": refusal.exact,
        "groups": sorted(refusal.groups),
        "avoided": refusal.avoided,
    }
    if refusal.stuck is not None:
        document["homeless"] = [
            {
                "uuid": each.uuid,
                "type": each.owner.type,
                "project": each.owner.project,
                "user": each.owner.user,
                "allocations": each.held,
            }
            for each in refusal.stuck
        ]
    if refusal.explanation is not None:
        asked, why = refusal.explanation
        document["explanation"] = render_explanation(why, asked.request, DEFAULT_EXAMPLES)
    return document
