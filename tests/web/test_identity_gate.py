"""How many threads ask the identity service at a time (specification 01 section 13.1)."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from keystonemiddleware.auth_token import InvalidToken, ServiceError

from placement.web.identity_gate import IdentityGate, IdentityUnavailable
from tests.support.processes import ENDS_S


def test_so_many_ask_and_others_are_refused_while_there_is_no_answer() -> None:
    gate = IdentityGate(2, waits_s=0.01)
    with gate, gate, pytest.raises(IdentityUnavailable), gate:
        pass
    # Nothing is left of those that have ended.
    with gate, gate:
        pass


def test_others_wait_while_there_are_answers() -> None:
    gate, at_once, most = IdentityGate(2, waits_s=ENDS_S), 0, 0
    lock = threading.Lock()

    def ask(_number: int) -> None:
        nonlocal at_once, most
        with gate:
            with lock:
                at_once += 1
                most = max(most, at_once)
            time.sleep(0.002)
            with lock:
                at_once -= 1

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(ask, range(100)))

    assert most == 2


@pytest.mark.parametrize(
    ("error", "is_answer"), [(InvalidToken("no such token"), True), (ServiceError("no answer"), False)]
)
def test_a_refusal_is_an_answer_and_an_error_is_none(error: Exception, is_answer: bool) -> None:
    gate = IdentityGate(2, waits_s=0.2)
    with gate:
        time.sleep(0.3)
        with pytest.raises(type(error)), gate:
            raise error
        with gate:
            began = time.monotonic()
            with pytest.raises(IdentityUnavailable), gate:
                pass
            waited_s = time.monotonic() - began

    assert (waited_s > 0.05) == is_answer


def test_a_first_request_after_an_error_finds_out_whether_it_answers_again() -> None:
    gate = IdentityGate(1, waits_s=ENDS_S)
    with pytest.raises(ServiceError), gate:
        raise ServiceError("no answer")

    entered, leave = threading.Event(), threading.Event()

    def ask() -> None:
        with gate:
            entered.set()
            leave.wait(ENDS_S)

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(ask)
        assert entered.wait(ENDS_S)
        second = threads.submit(ask)
        leave.set()
        first.result()
        second.result()
