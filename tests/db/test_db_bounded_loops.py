"""No loop of the service goes on because another piece of code says so again and again.

Each is given a partner that is never done, and has to end after as many turns as it allows.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from placement import errors
from placement.db import freshness, invariants
from placement.db.coexistence import adoption, state
from placement.db.queues import WriterQueue
from placement.extensions.claims import expiry
from tests.extensions.claims.test_claims import claim, place
from tests.support import bodies
from tests.support.clock import let_holds_end
from tests.support.service import Service, running
from tests.support.world import World, new_uuid

MOST = 3


class TurnsCounted(Exception):
    """A loop has had many more turns than it may."""


class Partner:
    """Says the same again and again; gives up on a loop that believes it for too long."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, 0

    def __call__(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        if self.asked > 10 * MOST:
            raise TurnsCounted
        return self.answer


@pytest.fixture
def service() -> Iterator[Service]:
    """The service on an empty database of SQLite."""
    with running("sqlite", insight__enabled=True) as made:
        yield made


def hold_one_that_is_over(service: Service) -> str:
    host = World(service).provider(inventory={"VCPU": 4})
    assert place(service, claim(4), hold_s=900).status_int == 200
    let_holds_end(service.db)
    return host


def search(service: Service, _: str) -> int:
    return service.send("GET", "/allocation_candidates?resources=VCPU:1").status


def ask_for_a_token(service: Service, _: str) -> int:
    return service.send("GET", "/-/changes").status


def claim_the_same(service: Service, host: str) -> int:
    return service.send(
        "PUT", f"/allocations/{new_uuid()}", bodies.entry({host: {"VCPU": 4}})
    ).status


@pytest.mark.parametrize(
    ("ask", "status"), [(search, 200), (ask_for_a_token, 200), (claim_the_same, 409)]
)
def test_a_request_ends_though_holds_are_said_to_be_gone_and_are_not(
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[Service, str], int],
    status: int,
) -> None:
    host = hold_one_that_is_over(service)
    partner = Partner(True)
    monkeypatch.setattr(freshness, "remove_expired", partner)
    monkeypatch.setattr(freshness, "MOST_ROUNDS", MOST)

    assert ask(service, host) == status

    assert partner.asked == MOST


def test_a_request_ends_after_a_time(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many holds there are, and however long one round takes."""
    monkeypatch.setattr(freshness, "MOST_S", 0.0)
    assert len(list(freshness.rounds())) == 1


def repair(service: Service) -> object:
    return invariants.repair(
        service.db, invariants.Invariant("none", invariants.SLOTS.query, Partner(1))
    )


def adopt(service: Service) -> object:
    return adoption.adopt_foreign(service.db)


def note(service: Service) -> object:
    return state.note_generations(service.db, lambda what, done, total: None)


def end_holds(service: Service) -> object:
    return expiry.end_all(service.db)


TURNS = {
    repair: (invariants, None, None),
    adopt: (adoption, "adopt_some", ["a provider"]),
    note: (state, "note_some_generations", 1),
    end_holds: (expiry, "_end_some", (1, [])),
}


@pytest.mark.parametrize("run", TURNS, ids=[run.__name__ for run in TURNS])
def test_a_work_in_batches_ends(
    service: Service, monkeypatch: pytest.MonkeyPatch, run: Callable[[Service], object]
) -> None:
    """Though each batch says that it has done something."""
    module, name, answer = TURNS[run]
    monkeypatch.setattr(module, "MOST_TURNS", MOST)
    if name is not None:
        monkeypatch.setattr(module, name, Partner(answer))

    run(service)


def test_a_writer_waits_no_longer_than_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that sees others get their turns all the time, for each of which its wait begins anew."""

    class Busy:
        """A lock that another thread has had a moment ago, whenever it is asked."""

        def __init__(self, queue: WriterQueue) -> None:
            self.queue, self.asked = queue, Partner(False)

        def acquire(self, timeout: float) -> bool:
            self.queue._writing_since = next(clock)
            return bool(self.asked())

    clock = iter(range(1, 1000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    queue = WriterQueue(deadline_s=20.0)
    queue._turn = Busy(queue)  # type: ignore[assignment]

    with pytest.raises(errors.DatabaseBusy):
        queue._wait(patient=False)
