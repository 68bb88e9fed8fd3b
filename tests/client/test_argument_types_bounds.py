"""Commands refuse numbers that are out of range, and do not wait without end for a silent service."""

import argparse
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from placement.client.osc import candidates, claims, history, plan_run, plans, survival
from placement.cmd import api, audit, compare, migrate_inventory, tree
from placement.printable import escape_unprintable, quote_word
from tests.support.processes import ENDS_S

COMPARE = ("http://127.0.0.1:1", "http://127.0.0.1:1")

PARSERS = {
    "placement-api": api._make_parser,
    "placement-compare": compare._make_parser,
    "placement-tree": tree._make_parser,
    "placement-migrate-compute-inventory": migrate_inventory._make_parser,
    "audit": lambda: audit.add_parser(argparse.ArgumentParser().add_subparsers()),
    **{
        each.__name__: lambda each=each: each(None, None).get_parser("x")
        for each in (
            candidates.ExplainAllocationCandidate,
            candidates.AllocationCandidateCapacity,
            claims.CreateClaim,
            history.ShowPlacementHistory,
            plans.CreatePlan,
            plan_run.RunPlan,
            survival.ShowPlacementSurvival,
        )
    },
}

NUMBERS = ("<number>", "<seconds>", "<limit>", "N", "S", "SECONDS")


def list_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for under in action.choices.values():
                yield from list_actions(under)


@pytest.mark.parametrize("given", ["-1", "many", "1_0", "nan", "inf", "9" * 50, ""])
@pytest.mark.parametrize("name", PARSERS)
def test_numbers_out_of_range_are_refused(name: str, given: str) -> None:
    """Every option whose value is a number, by its placeholder or the type of its default."""
    found = [
        each
        for each in list_actions(PARSERS[name]())
        if each.option_strings
        and each.dest != "max_width"  # of cliff
        and each.nargs != 0
        and (each.metavar in NUMBERS or isinstance(each.default, int | float))
    ]
    assert found
    for each in found:
        assert callable(each.type), each.option_strings
        with pytest.raises(argparse.ArgumentTypeError, match="must be"):
            each.type(given)


def test_a_number_out_of_range_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--searches", "-1"), ("--at-once", "0"), ("--timeout", "0")):
        with pytest.raises(SystemExit) as ended:
            compare.main([*COMPARE, *words])
        assert ended.value.code == 2
        assert f"argument {words[0]}: must be" in capsys.readouterr().err


def test_a_silent_side_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """It accepts connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        code = compare.main([url, url, "--os-auth-type", "none", "--timeout", "0.05"])
    assert code == 2
    assert "OLD: GET /" in capsys.readouterr().err


def test_names_do_not_steer_a_terminal() -> None:
    assert escape_unprintable("a\x1b[2J\nb") == "a\\x1b[2J\\nb"
    assert quote_word("a\x1b1\n'") == "$'a\\0331\\012\\''"


LISTENING = """
import signal
from placement.web import stopping
signal.signal(signal.SIGINT, signal.default_int_handler)
stopping.listen_for_stop()
try:
    print("listens", flush=True)
    signal.pause()
finally:
    print(stopping.is_told_to_stop())
"""


def test_ctrl_c_still_ends_a_process_that_listens_for_a_stop() -> None:
    """The handler is Python's own, which raises KeyboardInterrupt."""
    with subprocess.Popen(
        [sys.executable, "-c", LISTENING], stdout=-1, stderr=-1, text=True
    ) as process:
        assert process.stdout
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        said, error = process.communicate(timeout=ENDS_S)
    assert (process.returncode, said) == (-signal.SIGINT, "True\n")
    assert error.endswith("KeyboardInterrupt\n")


READING = "from placement.cmd import audit; list(audit._read_list('-'))"


def test_a_closed_standard_input_is_said_in_a_sentence() -> None:
    closed = ["bash", "-c", 'exec "$@" <&-', "x", sys.executable, "-c", READING]
    done = subprocess.run(closed, capture_output=True, text=True, check=False)
    assert done.stderr.endswith("AuditError: -: standard input is closed, so there is no list\n")
