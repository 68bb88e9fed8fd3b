"""Plans, which say what must move or be removed so that a goal holds (specification 10).

The service must have ``[insight]/enabled``. ::

    plans = PlansClient(adapter)
    plan = plans.make({"empty": {"trees": [host]}}, hold_s=600)
    try:
        plans.carry_out(plan)
    except CarryOutStopped as stopped:
        plans.release(stopped.left)

If Nova moves the servers, it also claims: use the steps without ``hold_s``, and do not call ``carry_out``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from placement.client import exceptions as exc
from placement.client.api import PlacementAPI, problem_of, read_document
from placement.client.claims import ATTEMPTS, choose_pause, wrote_nothing

Step = Mapping[str, Any]
"""A step as in the answer: a move has ``consumer_uuid``, a removal ``remove``."""


PLAN_MEMBERS = ("steps", "cost", "lower_bound", "minimal", "complete")
"""The members that the document of every plan has."""


class PlanFailed(exc.PlacementClientError):
    """No plan was made, and nothing was written.

    Without a complete answer (``status`` is None or 200), destinations may be held for ``hold_s`` seconds.
    """

    summary = "Plan failed"


class NoPlanFound(PlanFailed):
    """No plan was found.

    ``exact``: it is certain that no plan exists. ``groups``: the groups whose rules were obstacles.
    ``homeless``: the consumers that cannot leave, for a goal of empty trees. ``explanation``: the document of
    ``/-/explain``, for a goal of a request that fits. ``avoided``: how many trees were avoided. ``sentence``:
    the text of the service.
    """

    summary = "No plan"

    def __init__(self, error: object = "", **subject: Any) -> None:
        self.sentence: str = subject.pop("sentence", str(error))
        self.avoided: int = subject.pop("avoided", 0)
        self.exact: bool = subject.pop("exact")
        self.groups: list[str] = subject.pop("groups")
        self.homeless: list[dict[str, Any]] = subject.pop("homeless")
        self.explanation: dict[str, Any] | None = subject.pop("explanation")
        super().__init__(error, **subject)


class CarryOutStopped(exc.PlacementClientError):
    """A step was refused and changed nothing, or was not answered (``status`` is None).

    ``done``: the steps that were carried out; ``left``: this step and the later ones, whose destinations stay
    held until the hold of the plan expires. Call again when the service answers: the call notices a step that
    was carried out although its answer was lost.
    """

    summary = "Stopped at the step of consumer"

    def __init__(self, error: object = "", **subject: Any) -> None:
        self.done: Sequence[Step] = subject.pop("done")
        self.left: Sequence[Step] = subject.pop("left")
        super().__init__(error, **subject)

    @property
    def held_by(self) -> list[str]:
        """The consumers that hold the destinations of the remaining steps."""
        return _list_holders(self.left)


@dataclass(frozen=True)
class MadePlan:
    """Steps in an order that works.

    ``minimal``: it is certain that no plan costs less. ``lower_bound``: no plan costs less than this.
    ``complete``: the search for a cheaper plan was completed. ``placed``: where the request fits afterwards.
    ``emptied``: the uuids of the trees or aggregates that are empty afterwards. ``expires_at``: the end of
    the holds on destinations, ISO 8601 in UTC; None if they are not held. ``avoid``: the traits that the
    request named; None if the service's own apply. ``avoided``: how many trees were avoided because their
    root has such a trait.
    """

    steps: Sequence[Step]
    cost: float
    lower_bound: float
    minimal: bool
    complete: bool
    placed: Sequence[Mapping[str, Any]] = ()
    emptied: Sequence[str] = ()
    expires_at: str | None = None
    avoid: Sequence[str] | None = None
    avoided: int = 0


class PlansClient:
    """Plans of a service behind a keystoneauth1 adapter, or behind an object that acts like one.

    :param wait: a function that sleeps for a number of seconds.
    """

    def __init__(self, adapter: Any, wait: Callable[[float], object] = time.sleep) -> None:
        self._api = PlacementAPI(adapter, unanswered=PlanFailed)
        self._wait = wait

    def make(
        self,
        goal: Mapping[str, Any],
        *,
        may: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
        avoid: Sequence[str] | None = None,
        hold_s: int | None = None,
        context: Any = None,
    ) -> MadePlan:
        """Ask for a plan; hold the destinations for ``hold_s`` seconds if that is given.

        The arguments are the members of the body of ``POST /-/plans``; None leaves a member out.

        :raises NoPlanFound: a plan does not exist, or was not found
        """
        given = {"goal": goal, "may": may, "cost": cost, "avoid": avoid, "hold_s": hold_s}
        body = {name: value for name, value in given.items() if value is not None}
        told = self._send("post", "/-/plans", context, body)
        if told.status_code >= 300:
            raise _read_failure(told)
        answer = read_document(told, PlanFailed, *PLAN_MEMBERS)
        return MadePlan(
            answer["steps"],
            answer["cost"],
            answer["lower_bound"],
            answer["minimal"],
            answer["complete"],
            answer.get("placed", ()),
            answer.get("emptied", ()),
            answer.get("hold", {}).get("expires_at"),
            (may or {}).get("move", {}).get("avoid") if avoid is None else avoid,
            answer.get("avoided", 0),
        )

    def carry_out(
        self,
        plan: MadePlan,
        progress: Callable[[int], object] = lambda done: None,
        context: Any = None,
    ) -> None:
        """Carry out the steps one after the other.

        A second call with the same plan, even by another process, continues where the first stopped.

        :param progress: called after each step with the number of steps done.
        :raises CarryOutStopped: a step was refused or not answered; the earlier steps are done
        """
        for number, step in enumerate(plan.steps):
            try:
                self._take(step, plan.steps, context)
            except PlanFailed as error:
                raise CarryOutStopped(
                    error.error,
                    consumer_uuid=consumer_of(step),
                    request_id=error.request_id,
                    status=error.status,
                    done=plan.steps[:number],
                    left=plan.steps[number:],
                ) from error
            progress(number + 1)

    def release(self, steps: Sequence[Step], context: Any = None) -> None:
        """Release the destinations that are still held for steps that will not be carried out.

        :raises PlanFailed: a destination is still held
        """
        for uuid in _list_holders(steps):
            answer = self._send("delete", f"/allocations/{quote(uuid)}", context)
            if answer.status_code not in (204, 404):
                raise problem_of(answer).as_failure(PlanFailed, consumer_uuid=uuid)

    def _send(self, method: str, url: str, context: Any, body: Any = None) -> Any:
        """Send a request; repeat it if the service was not available and says that nothing was written."""
        for _ in range(ATTEMPTS - 1):
            response = self._api.send(method, url, context, body)
            if not wrote_nothing(response):
                return response
            self._wait(choose_pause(response))
        return self._api.send(method, url, context, body)

    def _take(self, step: Step, steps: Sequence[Step], context: Any) -> None:
        """Carry out a step unless it is already done, perhaps by a request whose answer was lost."""
        try:
            answer = self._send("post", "/allocations", context, _make_body(step))
            if answer.status_code != 204:
                raise problem_of(answer).as_failure(PlanFailed)
        except PlanFailed:
            if not self._is_done(step, steps, context):
                raise

    def _is_done(self, step: Step, steps: Sequence[Step], context: Any) -> bool:
        """Return whether a consumer is in the state after this step, or after a later step of its own."""
        uuid = consumer_of(step)
        answer = self._api.send("get", f"/allocations/{quote(uuid)}", context)
        if answer.status_code >= 300:
            return False
        now = read_document(answer, PlanFailed, "allocations")
        if not now["allocations"]:
            return "remove" in step
        # Each step moves the generation by one.
        last = now["consumer_generation"] - 1
        return last >= step["consumer_generation"] and any(
            consumer_of(each) == uuid
            and each["consumer_generation"] == last
            and _amounts(each.get("allocations", {})) == _amounts(now["allocations"])
            for each in steps
        )


def _make_body(step: Step) -> dict[str, Any]:
    """Return the body of ``POST /allocations`` that carries out a step.

    The request is sent at a version without consumer types, so the types stay unchanged.
    """
    owner = {"project_id": step["project_id"], "user_id": step["user_id"]}
    body = {
        consumer_of(step): {
            **owner,
            "consumer_generation": step["consumer_generation"],
            "allocations": step.get("allocations", {}),
        }
    }
    if "held_by" in step:
        body[step["held_by"]["consumer_uuid"]] = {
            **owner,
            "consumer_generation": step["held_by"]["consumer_generation"],
            "allocations": {},
        }
    return body


def consumer_of(step: Step) -> str:
    """Return the consumer that a step moves or removes."""
    uuid: str = step["remove"] if "remove" in step else step["consumer_uuid"]
    return uuid


def _list_holders(steps: Sequence[Step]) -> list[str]:
    return [step["held_by"]["consumer_uuid"] for step in steps if "held_by" in step]


def _amounts(allocations: Mapping[str, Any]) -> dict[str, Any]:
    """Return the amounts without the provider generations that ``GET`` also shows."""
    return {uuid: each["resources"] for uuid, each in allocations.items()}


def _read_failure(response: Any) -> PlanFailed:
    problem = problem_of(response)
    if problem.code != "placement.no_plan":
        return problem.as_failure(PlanFailed)
    error = response.json()["errors"][0]
    return problem.as_failure(
        NoPlanFound,
        sentence=problem.sentence,
        avoided=error.get("avoided", 0),
        exact=error["exact"],
        groups=error["groups"],
        homeless=error.get("homeless", []),
        explanation=error.get("explanation"),
    )
