"""The rules of specification 03 section 8, without a database."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import pytest

from placement.db.inventory_rows import InventoryRow
from placement.inventory_record import InventoryRecord
from placement.objects import replacement
from placement.objects.replacement import (
    CapacityExceeded,
    NewAllocation,
    NoInventory,
    UnitsViolated,
)

HOST, OTHER = 1, 2
VCPU, DISK = 0, 2
NAMES = {VCPU: "VCPU", DISK: "DISK_GB"}


def inventory(used: int = 0, host: int = HOST, kind: int = VCPU, **given: Any) -> InventoryRow:
    """Return a record of ten units without limits but for what is given."""
    record = InventoryRecord(**{"total": 10, **given})
    return InventoryRow(1, host, kind, NAMES[kind], record, used=used)


def demand(amount: int, host: int = HOST, kind: int = VCPU, consumer: str = "a") -> NewAllocation:
    """Return one allocation of a request."""
    return NewAllocation(consumer, (host, kind), f"host-{host}", NAMES[kind], amount)


def require(
    *demands: NewAllocation, stock: list[InventoryRow], freed: Mapping[tuple[int, int], int] | None = None
) -> None:
    """Check the demands against these records."""
    replacement.require_room(demands, replacement.by_place(stock), freed or {})


@pytest.mark.parametrize(
    ("given", "amount", "fits"),
    [
        ({}, 10, True),
        ({}, 11, False),
        ({"reserved": 4}, 6, True),
        ({"reserved": 4}, 7, False),
        ({"reserved": 10}, 1, False),
        ({"reserved": 12}, 1, False),
        ({"allocation_ratio": 1.55}, 15, True),
        ({"allocation_ratio": 1.55}, 16, False),
        ({"allocation_ratio": 0.05}, 1, False),
        ({"allocation_ratio": -1.0}, 1, False),
        ({"allocation_ratio": 3.4e38}, 2**200, False),
    ],
)
def test_capacity_is_a_number_that_is_not_rounded(given: Any, amount: int, fits: bool) -> None:
    """(total - reserved) * allocation_ratio, compared as it is."""
    with nullcontext() if fits else pytest.raises((CapacityExceeded, UnitsViolated)):
        require(demand(amount), stock=[inventory(**given)])


@pytest.mark.parametrize(
    ("given", "amount"),
    [
        ({"min_unit": 2}, 1),
        ({"max_unit": 4}, 5),
        ({"step_size": 3}, 4),
        # The step counts from 0, not from the smallest unit.
        ({"min_unit": 2, "step_size": 4}, 6),
        ({}, 2**31),
    ],
)
def test_units_are_broken(given: Any, amount: int) -> None:
    """Also where there would be room."""
    with pytest.raises(UnitsViolated, match="would violate inventory constraints"):
        require(demand(amount), stock=[inventory(total=2147483647, **given)])


def test_units_hold_for_each_amount_alone() -> None:
    """Two of two are four together, and each of them is above the largest unit of one."""
    with pytest.raises(UnitsViolated):
        require(demand(2), demand(1, consumer="b"), stock=[inventory(max_unit=1)])


@pytest.mark.parametrize(
    ("used", "freed", "amount", "fits"),
    [
        (14, 0, 1, False),
        (14, 7, 7, True),
        (14, 7, 8, False),
        (14, 7, 6, True),
        (10, 0, 1, False),
        (10, 1, 1, True),
    ],
)
def test_over_capacity_nothing_may_be_added(used: int, freed: int, amount: int, fits: bool) -> None:
    """What does not add to the total of an over-committed provider is let through."""
    refused = pytest.raises(CapacityExceeded, match="would exceed the capacity")
    with nullcontext() if fits else refused:
        require(demand(amount), stock=[inventory(used)], freed={(HOST, VCPU): freed})


def test_demands_of_several_consumers_are_added_up() -> None:
    """Three times four is more than ten, though each four fits."""
    demands = [demand(4, consumer=name) for name in "abc"]

    with pytest.raises(CapacityExceeded):
        require(*demands, stock=[inventory()])


def test_a_provider_with_none_of_the_classes_comes_first() -> None:
    """Before any finding about others; classes and providers are named in one list each."""
    demands = [demand(99), demand(1, host=OTHER), demand(1, kind=DISK)]

    with pytest.raises(NoInventory) as refusal:
        require(*demands, stock=[inventory()])

    assert (refusal.value.classes, refusal.value.providers) == ("VCPU, DISK_GB", "host-2")


def test_the_first_finding_in_order_is_reported() -> None:
    """A missing record of the second allocation waits for the capacity of the first."""
    with pytest.raises(CapacityExceeded):
        require(demand(99), demand(1, kind=DISK), stock=[inventory()])
    with pytest.raises(NoInventory, match="Inventory for 'DISK_GB' on resource provider 'host-1'"):
        require(demand(1, kind=DISK), demand(99), stock=[inventory()])
