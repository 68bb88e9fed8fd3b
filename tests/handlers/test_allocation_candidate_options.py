"""The options of the allocation candidates, read for each request (specification 04 section 6.1)."""

import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from placement.handlers import allocation_candidate
from tests.support.service import Service, running
from tests.support.world import World

HOSTS = 7
PATH = "/allocation_candidates?resources=VCPU:1"


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """Seven equal hosts."""
    with running() as made:
        for number in range(HOSTS):
            World(made).host(f"{number:08x}-0000-4000-8000-000000000000", VCPU=4)
        yield made


@pytest.fixture(autouse=True)
def as_it_was(service: Service) -> Iterator[None]:
    """Take back what a test sets."""
    yield
    for name in (
        "max_allocation_candidates",
        "randomize_allocation_candidates",
        "allocation_candidates_generation_strategy",
    ):
        service.conf.clear_override(name, "placement")


def hosts(service: Service, more: str = "") -> list[str]:
    """Return the hosts of the answer in its order."""
    answer = service.request("GET", PATH + more, version="1.39")
    assert answer.status_int == 200, answer.text
    return [uuid for each in answer.json["allocation_requests"] for uuid in each["allocations"]]


@pytest.mark.parametrize(("bound", "left"), [(-5, 7), (-1, 7), (0, 1), (1, 1), (3, 3), (100, 7)])
@pytest.mark.parametrize("strategy", ["depth-first", "breadth-first"])
def test_bound(service: Service, strategy: str, bound: int, left: int) -> None:
    """Any negative number is none; 0 is taken for 1."""
    set_option(service, "allocation_candidates_generation_strategy", strategy)
    set_option(service, "max_allocation_candidates", bound)

    assert len(set(hosts(service))) == left
    assert len(hosts(service, "&limit=2")) == min(left, 2)


def test_same_order_without_a_limit(service: Service) -> None:
    """The same query on unchanged data has the same answer, byte for byte."""
    answers = {service.request("GET", PATH, version="1.39").body for _ in range(10)}

    assert len(answers) == 1


@pytest.mark.parametrize("strategy", ["depth-first", "breadth-first"])
@pytest.mark.parametrize(("more", "bound"), [("&limit=2", -1), ("&limit=2", 5), ("", 2)])
def test_each_request_for_a_part_begins_at_another_host(
    service: Service, strategy: str, more: str, bound: int
) -> None:
    """Schedulers do not all weigh the same hosts: fifty draws of two of seven miss none of them."""
    set_option(service, "allocation_candidates_generation_strategy", strategy)
    set_option(service, "max_allocation_candidates", bound)

    answers = [hosts(service, more) for _ in range(50)]

    assert all(len(set(answer)) == 2 for answer in answers)
    assert len({tuple(answer) for answer in answers}) > 10
    assert len({uuid for answer in answers for uuid in answer}) == HOSTS


def test_a_limit_beyond_what_there_is_answers_everything(service: Service) -> None:
    """Where the search begins decides about the order only."""
    answers = [hosts(service, "&limit=1000") for _ in range(20)]

    assert {frozenset(answer) for answer in answers} == {frozenset(hosts(service))}
    assert {len(answer) for answer in answers} == {HOSTS}


def test_the_same_start_has_the_same_answer(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the number drawn for the request makes answers differ."""
    monkeypatch.setattr(allocation_candidate.secrets, "randbits", lambda bits: 3**bits % 2**bits)

    assert len({tuple(hosts(service, "&limit=3")) for _ in range(10)}) == 1


def test_random_samples_and_random_order(service: Service) -> None:
    """Thirty of the 35 samples, or ten of the 5040 orders, are hardly ever all the same."""
    set_option(service, "randomize_allocation_candidates", True)

    assert len({frozenset(hosts(service, "&limit=3")) for _ in range(30)}) > 1
    assert len({tuple(hosts(service)) for _ in range(10)}) > 1
    assert len(hosts(service)) == HOSTS


def test_the_seed_that_is_logged_repeats_the_answer(
    service: Service, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator can have a random answer again."""
    caplog.set_level(logging.INFO, logger="placement")
    set_option(service, "randomize_allocation_candidates", True)
    orders = {}
    for _ in range(5):
        caplog.clear()
        order = hosts(service, "&limit=5")
        (seed,) = re.findall(r"random order, seed (\d+)", caplog.text)
        orders[int(seed)] = order

    for seed, order in orders.items():
        monkeypatch.setattr(allocation_candidate.secrets, "randbits", lambda _bits, seed=seed: seed)
        assert hosts(service, "&limit=5") == order


def test_nothing_found_is_one_line_with_the_reason(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """At INFO, once for each empty answer; what was found is not worth a line."""
    caplog.set_level(logging.INFO, logger="placement")
    name = "placement.objects.allocation_candidate"

    assert len(hosts(service)) == HOSTS
    assert [each for each in caplog.records if each.name == name] == []
    answer = service.request("GET", f"{PATH}&required=HW_CPU_X86_VMX", version="1.39")
    assert answer.json["allocation_requests"] == []
    (line,) = [each for each in caplog.records if each.name == name]

    assert line.levelno == logging.INFO
    assert line.getMessage().startswith("No allocation candidates: ")
    assert f"REQUIRED_TRAITS HW_CPU_X86_VMX: {HOSTS} removed, 0 left" in line.getMessage()


def set_option(service: Service, name: str, value: Any) -> None:
    """Change an option of the running service."""
    service.conf.set_override(name, value, "placement")
