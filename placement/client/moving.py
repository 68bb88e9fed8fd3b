"""Plans carried out by a driver that moves consumers, such as Nova (specification 10 section 7). ::

run = PlanRun(PlansClient(adapter), NovaMover(Nova(compute), adapter), ProviderNames(adapter).root_of)
run.carry_out({"empty": {"trees": [host]}})
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, ParamSpec, Protocol, TypeVar

from placement.client import exceptions as exc
from placement.client.plans import MadePlan, NoPlanFound, PlanFailed, PlansClient, Step, consumer_of

P = ParamSpec("P")
T = TypeVar("T")

PLANS = 10
"""The most plans of a run; the last plan of a successful run has no steps."""

PLANS_AROUND = 100
"""The most repetitions of one plan because it names a consumer that cannot move or an unusable tree."""

EXCEPT_MOST = 10_000
"""The most consumers that a plan can leave in place. The service sets this limit."""

NOT_TO_MOST = 1_000
"""The most trees that a plan can leave out as destinations. The service sets this limit."""

REFUSALS = 2
"""The number of refused moves after which a consumer stays."""

TOLD_TO_STOP = "it was told to stop; run it again to continue"


class MoveRefused(exc.PlacementClientError):
    """A step was not carried out completely.

    ``destination``: the root of the tree that caused the refusal, so that a new plan can avoid it; None if
    the destination is not the cause.
    """

    summary = "Not moved: consumer"

    def __init__(self, error: object = "", **subject: Any) -> None:
        self.destination: str | None = subject.pop("destination", None)
        super().__init__(error, **subject)


class RunAbandoned(exc.PlacementClientError):
    """The run was abandoned while a step was under way."""

    summary = "Left while this was under way: consumer"


class RunStopped(exc.PlacementClientError):
    """A run ended before its goal held.

    ``done``: the steps that were carried out; ``left``: the steps of the last plan that were not. ``stays``:
    why each of these consumers cannot move. ``under_way``: the consumers that may still be moving.
    ``refusals``: the refusals of the last plan that met any. The watcher was notified of each, and the text
    has them too.
    """

    summary = "The plan is not carried out"

    def __init__(self, error: object = "", **subject: Any) -> None:
        self.done: Sequence[Step] = subject.pop("done")
        self.left: Sequence[Step] = subject.pop("left")
        self.stays: Mapping[str, str] = subject.pop("stays")
        self.under_way: Sequence[str] = subject.pop("under_way", ())
        self.refusals: Sequence[exc.PlacementClientError] = subject.pop("refusals", ())
        super().__init__(error, **subject)

    def __str__(self) -> str:
        return " ".join(map(str, (super().__str__(), *self.refusals)))


class StepMover(Protocol):
    """The driver that moves consumers. Any method can raise a PlacementClientError, which ends the run."""

    def read_states(self) -> None:
        """Read again which consumers exist, and their states."""

    def list_unmovable(self) -> Mapping[str, str]:
        """Return the known consumers that cannot move, each with the reason."""

    def find_obstacle(self, step: Step) -> str | None:
        """Return why the consumer of this step cannot move; None if it can."""

    def find_obstacle_of_place(self, step: Step) -> str | None:
        """Return why no consumer can move to the destination of this step; None if one can."""

    def carry_out(self, step: Step, pause: Callable[[float], None]) -> None:
        """Carry out a step to its end.

        :param pause: waits for a number of seconds; it raises RunAbandoned if the run was given up.
        :raises MoveRefused:
        """


class PlainMover:
    """A mover that sends the plain requests of specification 10 section 6 and moves nothing else."""

    def __init__(self, plans: PlansClient) -> None:
        self._plans = plans

    def read_states(self) -> None:
        """Do nothing: a plan already rests on all that the service knows."""

    def list_unmovable(self) -> Mapping[str, str]:
        """Return an empty mapping: all consumers can move."""
        return {}

    def find_obstacle(self, step: Step) -> str | None:
        """Return None: every step can be carried out."""
        return None

    def find_obstacle_of_place(self, step: Step) -> str | None:
        """Return None: every destination can be used."""
        return None

    def carry_out(self, step: Step, pause: Callable[[float], None]) -> None:
        """Send the request of one step."""
        try:
            self._plans.carry_out(MadePlan([step], 0, 0, False, False))
        except exc.PlacementClientError as error:
            raise MoveRefused(error.error, consumer_uuid=consumer_of(step)) from error


class PlanAround:
    """A planner that makes plans whose steps a mover can carry out.

    ``stays``: the consumers that cannot move although plans used them, each with the reason. ``left_out``:
    the roots of trees that cannot be destinations although plans used them, each with the reason.
    """

    def __init__(self, plans: PlansClient, mover: StepMover) -> None:
        self._plans, self._mover = plans, mover
        self.stays: dict[str, str] = {}
        self.left_out: dict[str, str] = {}

    def make(
        self,
        goal: Mapping[str, Any],
        may: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
    ) -> MadePlan:
        """Read the state of the consumers and make a plan; takes the arguments of :meth:`PlansClient.make`.

        :raises NoPlanFound: no plan exists without the consumers that cannot move (``stays``)
        :raises PlanFailed: too many plans in a row used one of them, or an unusable destination
        """
        self._mover.read_states()
        self.stays, self.left_out = {}, {}
        unmovable: Mapping[str, str] = {}
        # The reason why each consumer cannot go to the last place that a plan had for it.
        turned_away: dict[str, str] = {}
        for _ in range(PLANS_AROUND):
            without = leave_out(may, (*self.stays, *unmovable), self.left_out)
            try:
                plan = self._plans.make(goal, may=without, cost=cost)
            except NoPlanFound as none:
                reasons = {**turned_away, **unmovable, **self.stays}
                homeless = {each["uuid"] for each in none.homeless}
                self.stays |= {uuid: why for uuid, why in reasons.items() if uuid in homeless}
                raise
            moves = [step for step in plan.steps if "remove" not in step]
            stays = _find_reasons(plan.steps, self._mover.find_obstacle)
            places = _find_reasons(moves, self._mover.find_obstacle_of_place)
            if not stays and not places:
                return plan
            self.stays |= {consumer_of(step): why for step, why in stays}
            self.left_out |= {step["root_provider_uuid"]: why for step, why in places}
            turned_away |= {
                consumer_of(step): f"it would move there: {why}" for step, why in places
            }
            # This list is read late because it can be long, and most plans do not use a consumer in it.
            unmovable = unmovable or (self._mover.list_unmovable() if stays else {})
        raise PlanFailed(
            f"{PLANS_AROUND} plans in a row used a consumer that cannot move, or an unusable destination"
        )


def _find_reasons(
    steps: Iterable[Step], find: Callable[[Step], str | None]
) -> list[tuple[Step, str]]:
    return [(step, why) for step in steps if (why := find(step)) is not None]


def leave_out(
    may: Mapping[str, Any] | None, consumers: Iterable[str], places: Iterable[str] = ()
) -> Mapping[str, Any] | None:
    """Return the permissions without some consumers and destinations; only the first ones, up to a bound."""
    move = dict((may or {}).get("move", {}))
    for name, more, most in (
        ("except", consumers, EXCEPT_MOST),
        ("not_to", places, NOT_TO_MOST),
    ):
        if kept := list(dict.fromkeys((*move.get(name, ()), *more)))[:most]:
            move[name] = kept
    return {**(may or {}), "move": move} if move else may


def order_steps(steps: Sequence[Step], root_of: Callable[[str], str]) -> list[set[int]]:
    """Return for each step the earlier ones that must have ended before it begins.

    A step waits for the earlier steps of its consumer, and for the steps that leave its destination tree,
    whose room it may need. All other steps may end in any order. Proof: among the steps into a tree that have
    begun, the last one in the order of the plan had room there together with all the others, after the same
    consumers had left.

    :param root_of: returns the root of a provider's tree.
    """
    left = [set(map(root_of, step["from"])) for step in steps]
    taken = [set(map(root_of, step.get("allocations", {}))) for step in steps]
    consumers = [consumer_of(step) for step in steps]
    return [
        {
            earlier
            for earlier in range(number)
            if consumers[earlier] == consumers[number] or left[earlier] & taken[number]
        }
        for number in range(len(steps))
    ]


class Watcher:
    """An observer of a run, called by the thread that calls ``carry_out``. This base class does nothing."""

    def tell_plan(self, plan: MadePlan, stays: Mapping[str, str]) -> None:
        """Note a plan; the last plan of a run may have no steps."""

    def tell_left_out(self, why: str) -> None:
        """Note that a tree is no longer used as a destination; called before the plan is noted."""

    def tell_trying_again(self) -> None:
        """Note that the trees that refused a move are tried again, since no plan was found without them."""

    def tell_beginning(self, step: Step) -> None:
        """Note that a step begins."""

    def tell_end(self, step: Step, failure: exc.PlacementClientError | None) -> None:
        """Note that a step is done; ``failure`` is set if it was refused."""

    def tell_stopping(self) -> None:
        """Note that no more steps begin and the run waits for the steps under way."""


class PlanRun:
    """Plans, lets a mover carry the plan out, and plans again, until the goal holds.

    ``around``: the planner of the run, which also knows the consumers that stay.

    :param root_of: returns the root of a provider's tree.
    :param parallel: the number of steps at once, where their order allows it.
    """

    def __init__(
        self,
        plans: PlansClient,
        mover: StepMover,
        root_of: Callable[[str], str],
        *,
        parallel: int = 1,
        watcher: Watcher | None = None,
    ) -> None:
        self.around = PlanAround(plans, mover)
        self._mover, self._root_of, self._parallel = mover, root_of, parallel
        self._watcher = watcher or Watcher()
        self._stopping, self._leaving = False, threading.Event()
        # The queue has each step that ended, and None for each call of stop. A signal handler can put into a
        # SimpleQueue while the interrupted thread does the same.
        self._told: SimpleQueue[Future[Any] | None] = SimpleQueue()
        self._stops = 0
        self._done: list[Step] = []
        self._under_way: list[str] = []
        self._refusals: list[exc.PlacementClientError] = []
        # The roots of the trees that refused a consumer.
        self._refused_places = set[str]()

    def stop(self) -> None:
        """Begin no more steps. A second call gives up the steps under way, even if Nova does not answer.

        Any thread and any signal handler can call this.
        """
        self._stopping = True
        self._told.put(None)

    @property
    def is_stopping(self) -> bool:
        """Return whether :meth:`stop` was called."""
        return self._stopping

    def carry_out(
        self,
        goal: Mapping[str, Any],
        may: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
    ) -> list[Step]:
        """Plan and move until the goal holds; return the steps that were carried out.

        :raises RunStopped: the run was stopped, a plan does not exist, or steps were refused too often
        """
        refused: Counter[str] = Counter()
        left: Sequence[Step] = ()
        for _ in range(PLANS):
            stubborn = [uuid for uuid, times in refused.items() if times >= REFUSALS]
            plan, waits_for = self._plan(goal, leave_out(may, stubborn), cost, left)
            for why in self.around.left_out.values():
                self._watcher.tell_left_out(why)
            self._watcher.tell_plan(plan, self.around.stays)
            if not plan.steps:
                return self._done
            failures, left = self._take(plan.steps, waits_for)
            self._refusals = failures or self._refusals
            if self._stopping:
                raise self._make_stop(TOLD_TO_STOP, left)
            refused.update(failure.consumer_uuid for failure in failures)
            self._refused_places |= {
                each.destination
                for each in failures
                if isinstance(each, MoveRefused) and each.destination is not None
            }
        raise self._make_stop(f"{PLANS} plans did not reach the goal.", left)

    def _plan(
        self,
        goal: Mapping[str, Any],
        may: Mapping[str, Any] | None,
        cost: Mapping[str, Any] | None,
        left: Sequence[Step],
    ) -> tuple[MadePlan, list[set[int]]]:
        """Return a plan, and for each step the earlier steps for which it waits."""

        def plan() -> tuple[MadePlan, list[set[int]]]:
            made = self.around.make(goal, leave_out(may, (), self._refused_places), cost)
            return made, order_steps(made.steps, self._root_of)

        while True:
            planning = self._begin(plan)
            if self._wait_for_one() is None:
                raise self._make_stop(TOLD_TO_STOP, left)
            try:
                return planning.result()
            except exc.PlacementClientError as error:
                if isinstance(error, NoPlanFound) and self._refused_places and not self._stopping:
                    # A host that refused one server may accept another, or the same server later.
                    self._watcher.tell_trying_again()
                    self._refused_places = set()
                    continue
                if not self._done and not self._refusals:
                    raise
                raise self._make_stop(str(error), left) from error

    def _make_stop(self, why: str, left: Sequence[Step]) -> RunStopped:
        # An abandoned plan may still be adding to this list.
        stays = dict(self.around.stays)
        return RunStopped(
            why,
            done=self._done,
            left=left,
            stays=stays,
            under_way=self._under_way,
            refusals=self._refusals,
        )

    def _take(
        self, steps: Sequence[Step], waits_for: Sequence[set[int]]
    ) -> tuple[list[exc.PlacementClientError], list[Step]]:
        """Carry out steps until one is refused or the run stops; return refusals and remaining steps."""
        waiting, done = list(range(len(steps))), set[int]()
        running: dict[Future[None], int] = {}
        failures: list[exc.PlacementClientError] = []
        while True:
            ready = [each for each in waiting if waits_for[each] <= done]
            if failures or self._stopping:
                ready = []
            for number in ready[: self._parallel - len(running)]:
                waiting.remove(number)
                self._watcher.tell_beginning(steps[number])
                running[self._begin(self._mover.carry_out, steps[number], self._pause)] = number
            if not running:
                break
            ended = self._wait_for_one()
            if ended is None:
                self._under_way += [consumer_of(steps[number]) for number in running.values()]
                break
            number = running.pop(ended)
            failure = _read_failure(ended, steps[number])
            if failure is None:
                done.add(number)
                self._done.append(steps[number])
            else:
                failures.append(failure)
            self._watcher.tell_end(steps[number], failure)
        return failures, [step for number, step in enumerate(steps) if number not in done]

    def _begin(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start a step in its own thread, which does not keep the process alive."""
        future: Future[T] = Future()

        def do() -> None:
            try:
                future.set_result(work(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)
            self._told.put(future)

        # A pool thread would keep the process alive until it has an answer.
        threading.Thread(target=do, daemon=True).start()
        return future

    def _wait_for_one(self) -> Future[Any] | None:
        """Return the next step that has ended; None if the run is abandoned."""
        while (ended := self._told.get()) is None:
            self._stops += 1
            if self._stops > 1:
                self._leaving.set()
                return None
            self._watcher.tell_stopping()
        return ended

    def _pause(self, seconds: float) -> None:
        if self._leaving.wait(seconds):
            raise RunAbandoned("it continues, and this command does not wait for it")


def _read_failure(ended: Future[None], step: Step) -> exc.PlacementClientError | None:
    """Return why a step failed; None if it did not."""
    try:
        ended.result()
    except exc.PlacementClientError as error:
        error.consumer_uuid = error.consumer_uuid or consumer_of(step)
        return error
    return None
