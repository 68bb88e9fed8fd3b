"""``openstack placement plan run`` (specification 10 section 7)."""

import argparse
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from osc_lib import exceptions
from osc_lib.command import command

from placement.client.argument_types import number, whole_number
from placement.client.exceptions import PlacementClientError
from placement.client.moving import PlanRun, RunStopped, Watcher
from placement.client.nova_moves import STEP_S, NovaMover
from placement.client.osc import nova_steps, plans
from placement.client.plans import MadePlan, PlansClient, Step, consumer_of
from placement.cmd.progress import Bar
from placement.printable import escape_unprintable

PARALLEL_MOST = 32


class RunPlan(command.Command):
    """Let Nova move servers until a goal holds: the fewest steps, in an order that works.

    On a refusal it plans again from there. Ctrl-C begins no more steps and ends when those under way are
    done; a second one does not wait for them. Run again, it goes on. Needs a service that has
    ``[insight]/enabled``, and an administrator of Nova.
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
            help="So many steps at once, where their order allows it. Default: 1.",
        )
        parser.add_argument(
            "--step-timeout",
            metavar="<seconds>",
            type=number(lowest=1),
            default=STEP_S,
            help=f"How long one step may take. Default: {STEP_S:g}.",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="Say what would be done, and do nothing."
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Plan, move, and say what is done."""
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
            with plans.refusals_explained(run.around):
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
                        raise exceptions.CommandError(_word_stop(stopped)) from stopped
        print(f"Done: {len(done)} step{'' if len(done) == 1 else 's'}, and the goal holds.")


@contextmanager
def _stopped_by_signal(run: PlanRun) -> Iterator[None]:
    """Stop the run at Ctrl-C, instead of ending in the middle of a step.

    Nothing is printed by the handler: it may have come in the middle of a line.
    """
    before = signal.signal(signal.SIGINT, lambda *_: run.stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Printer(Watcher):
    """Prints a line for what stays and for each step that ends; on a terminal with a bar below."""

    def __init__(self, bar: Bar, mover: NovaMover) -> None:
        self._bar, self._mover, self._told = bar, mover, set[str]()
        self._done = self._total = 0

    def tell_plan(self, plan: MadePlan, stays: Mapping[str, str]) -> None:
        fresh = {uuid: why for uuid, why in stays.items() if uuid not in self._told}
        self._told |= fresh.keys()
        for line in plans.word_stays(fresh):
            self._bar.print(line)
        if plan.steps:
            self._bar.print(plans.word_plan(vars(plan)))
        self._total = self._done + len(plan.steps)

    def tell_beginning(self, step: Step) -> None:
        self._bar.show(consumer_of(step), self._done, self._total)

    def tell_end(self, step: Step, failure: PlacementClientError | None) -> None:
        self._done += failure is None
        self._bar.print(
            f"{self._done} of {self._total}: {_word_step(self._mover, step)}"
            if failure is None
            else str(failure)
        )
        self._bar.show(consumer_of(step), self._done, self._total)

    def tell_stopping(self) -> None:
        self._bar.print(
            "Stopping: no more steps begin. Ctrl-C again does not wait for those under way."
        )


def _word_step(mover: NovaMover, step: Step) -> str:
    """Return a step in words."""
    source = escape_unprintable(mover.names.of(mover.names.root_of(next(iter(step["from"])))))
    way = mover.find_way(step).value
    if "remove" in step:
        return f"{step['remove']} on {source}: {way}"
    target = escape_unprintable(mover.names.of(step["root_provider_uuid"]))
    return f"{step['consumer_uuid']} from {source} to {target}: {way}"


def _word_stop(stopped: RunStopped) -> str:
    lines = [
        str(stopped),
        f"Done: {len(stopped.done)} steps. Left of the last plan: {len(stopped.left)}.",
    ]
    lines += [f"Left: {consumer_of(step)}" for step in stopped.left]
    lines += [f"May still be under way: {uuid}" for uuid in stopped.under_way]
    return "\n".join([*lines, *plans.word_stays(stopped.stays)])
