"""``openstack placement plan run`` (specification 10 section 7)."""

import argparse
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from osc_lib import exceptions
from osc_lib.command import command

from placement.client.argument_types import LARGEST, number, whole_number
from placement.client.exceptions import PlacementClientError
from placement.client.moving import PlanAround, PlanRun, RunStopped, Watcher
from placement.client.nova_moves import STEP_S, NovaMover
from placement.client.osc import nova_steps, plans
from placement.client.plans import MadePlan, NoPlanFound, PlansClient, Step, consumer_of
from placement.cmd.progress import Bar
from placement.printable import escape_unprintable

PARALLEL_MOST = 32

LEFT_OUT = "Left out: "

ALL_OR_NOTHING = (
    "cannot be empty while what stays is there, and nothing was moved: do for each what is said of it, and "
    "run it again."
)


class RunPlan(command.Command):
    """Let Nova move servers until a goal holds: the fewest steps, in an order that works.

    After a refusal the command plans again. After Ctrl-C, SIGTERM or SIGHUP it begins no more steps and ends
    when the steps under way are done; a second Ctrl-C does not wait for them. A new run continues the work.
    Needs a service that has ``[insight]/enabled``, and an administrator of Nova.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the options."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        plans.add_goal_options(parser)
        plans.add_permission_options(parser)
        parser.add_argument(
            "--parallel",
            metavar="<number>",
            type=whole_number(1, PARALLEL_MOST),
            default=1,
            help=f"So many steps at once, 1 to {PARALLEL_MOST}, where their order allows it. Default: 1.",
        )
        parser.add_argument(
            "--step-timeout",
            metavar="<seconds>",
            type=number(lowest=1),
            default=STEP_S,
            help=f"How long one step may take, 1 to {int(LARGEST):,}. Default: {STEP_S:g}.",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="Say what would be done, and do nothing."
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Plan, move, and report the steps done."""
        body = plans.make_body(self.app, parsed_args)
        wanted = body["goal"], body.get("may"), body.get("cost")
        client = PlansClient(nova_steps.placement_adapter(self.app))
        mover = nova_steps.nova_mover(self.app, parsed_args.step_timeout)
        with nova_steps.failures_as_command_errors(), Bar("steps") as bar:
            run = PlanRun(
                client,
                mover,
                mover.names.root_of,
                parallel=parsed_args.parallel,
                watcher=_Printer(bar, mover),
            )
            with (
                _refusals_completed(parsed_args.empty or (), run.around),
                plans.refusals_explained(run.around),
            ):
                if parsed_args.dry_run:
                    plan = run.around.make(*wanted)
                    plans.print_knowledge(plan, run.around)
                    for step in plan.steps:
                        print(_word_step(mover, step))
                    return
                with _stopped_by_signal(run):
                    try:
                        done = run.carry_out(*wanted)
                    except RunStopped as stopped:
                        words = [*_word_stop(stopped), *_word_left_out(run.around)]
                        words += _word_unshelved(mover)
                        raise exceptions.CommandError("\n".join(words)) from stopped
        for line in _word_unshelved(mover):
            print(line, file=sys.stderr)
        print(f"Done: {_count_steps(len(done))}, and the goal holds.")


@contextmanager
def _refusals_completed(hosts: Sequence[str], around: PlanAround) -> Iterator[None]:
    """Add to a refusal what was left out, and that a host is emptied completely or not at all."""
    try:
        yield
    except exceptions.CommandError as refused:
        if not isinstance(refused.__cause__, NoPlanFound):
            raise
        words = [str(refused), *_word_left_out(around)]
        if hosts and around.stays:
            words.append(escape_unprintable(f"{', '.join(hosts)} {ALL_OR_NOTHING}"))
        raise exceptions.CommandError("\n".join(words)) from refused


@contextmanager
def _stopped_by_signal(run: PlanRun) -> Iterator[None]:
    """Stop the run after a signal such as Ctrl-C, instead of ending in the middle of a step.

    The handlers do not print: a signal can arrive in the middle of a line.
    """

    def stop_once(*_: object) -> None:
        # A terminal that closes can signal its processes more than once.
        if not run.is_stopping:
            run.stop()

    handlers = {
        signal.SIGINT: lambda *_: run.stop(),
        signal.SIGTERM: stop_once,
        signal.SIGHUP: stop_once,
    }
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # Under nohup the run continues when its terminal closes.
        del handlers[signal.SIGHUP]
    before = {which: signal.signal(which, handler) for which, handler in handlers.items()}
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


class _Printer(Watcher):
    """A watcher that prints each consumer that stays and each step that ends, with a progress bar."""

    def __init__(self, bar: Bar, mover: NovaMover) -> None:
        self._bar, self._mover, self._told = bar, mover, set[str]()
        self._done = self._total = 0
        self._refused: dict[str, str] = {}

    def tell_plan(self, plan: MadePlan, stays: Mapping[str, str]) -> None:
        fresh = {uuid: why for uuid, why in stays.items() if uuid not in self._told}
        self._told |= fresh.keys()
        for line in plans.word_stays(fresh):
            self._print(line)
        if plan.steps:
            self._print(plans.word_plan(vars(plan)))
        self._total = self._done + len(plan.steps)

    def tell_left_out(self, why: str) -> None:
        if why not in self._told:
            self._told.add(why)
            self._print(f"{LEFT_OUT}{why}")

    def tell_trying_again(self) -> None:
        self._print(
            "There is no plan without the hosts that have refused a server: they are tried once more."
        )

    def tell_beginning(self, step: Step) -> None:
        self._show(step)

    def tell_end(self, step: Step, failure: PlacementClientError | None) -> None:
        self._done += failure is None
        if failure is None:
            self._print(f"{self._done} of {self._total}: {_word_step(self._mover, step)}")
        elif self._refused.get(consumer_of(step)) == str(failure):
            self._print(f"Not moved: consumer {consumer_of(step)}: the same again")
        else:
            self._print(str(failure))
            self._refused[consumer_of(step)] = str(failure)
        self._show(step)

    def tell_stopping(self) -> None:
        self._print(
            "Stopping: no more steps begin. Ctrl-C again does not wait for those under way."
        )

    def _print(self, line: str) -> None:
        # A closed terminal must not end a run before its steps.
        with suppress(OSError):
            self._bar.print(line)

    def _show(self, step: Step) -> None:
        with suppress(OSError):
            self._bar.show(consumer_of(step), self._done, self._total)


def _word_step(mover: NovaMover, step: Step) -> str:
    """Return a step in words."""
    source = escape_unprintable(mover.names.name_of(mover.names.root_of(next(iter(step["from"])))))
    way = mover.find_way(step).value
    if "remove" in step:
        return f"{step['remove']} on {source}: {way}"
    target = escape_unprintable(mover.names.name_of(step["root_provider_uuid"]))
    return f"{step['consumer_uuid']} from {source} to {target}: {way}"


def _word_stop(stopped: RunStopped) -> list[str]:
    """Return the text on what is done and left. The refusals and their reasons are printed already."""
    refused = dict.fromkeys(each.consumer_uuid for each in stopped.refusals)
    lines = [
        f"{stopped.summary}: {stopped.error}",
        f"Done: {_count_steps(len(stopped.done))}. Left of the last plan: {len(stopped.left)}.",
    ]
    lines += [f"Left: {consumer_of(step)}" for step in stopped.left]
    lines += [f"Refused, see above: {uuid}" for uuid in refused]
    lines += [f"May still be under way: {uuid}" for uuid in stopped.under_way]
    return [*lines, *plans.word_stays(stopped.stays)]


def _word_left_out(around: PlanAround) -> list[str]:
    return [escape_unprintable(LEFT_OUT + why) for why in dict(around.left_out).values()]


def _word_unshelved(mover: NovaMover) -> list[str]:
    return [
        f"Was shelved, and may run now: openstack server shelve {server}"
        for server in sorted(mover.unshelved)
    ]


def _count_steps(count: int) -> str:
    return f"{count} step{'' if count == 1 else 's'}"
