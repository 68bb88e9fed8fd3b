"""Specification 01 section 9.2: which names an error calls near, and what that costs."""

import difflib

import pytest

from placement.web.near_names import MOST, MOST_COMPARED, find_near

MANY = [f"CUSTOM_SHORT_{number}" for number in range(20_000)]
ALIKE = [f"CUSTOM_T_{number:05}_{'AB' * 100}" for number in range(20_000)]
FEW = ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_CPU_X86_VMX", "STORAGE_DISK_SSD", "", "A"]


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("CUSTOM_SHORT_1234X", "CUSTOM_SHORT_1234"),
        ("CUSTOM_SHRT_19876", "CUSTOM_SHORT_19876"),
        ("CUSTM_SHORT_19876", "CUSTOM_SHORT_19876"),
        ("USTOM_SHORT_19876", "CUSTOM_SHORT_19876"),
        ("CUSTOM_SHORT_99_", "CUSTOM_SHORT_99"),
    ],
)
def test_a_name_with_one_error_is_found_among_many(typed: str, first: str) -> None:
    """Whichever place it has in the list, and wherever in the name the error is."""
    for existing in (MANY, MANY[::-1]):
        found = find_near(typed, [*FEW, *existing])
        assert found[0] == first
        assert len(found) <= MOST


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "A",
        "HW_CPU_X86_AVX3",
        "HW_CPU_X86_AVX" * 5,
        "HW\n_CPU",
        "\U0001f600",
        "X" * 65_536,
        "İß",
    ],
)
def test_few_names_are_all_compared(typed: str) -> None:
    """What length excludes is what difflib would exclude."""
    assert find_near(typed, FEW) == difflib.get_close_matches(typed, FEW, MOST, 0.75)


@pytest.mark.parametrize("typed", [f"CUSTOM_T_1234_{'AB' * 100}", f"CUSTOM_T_1234_{'BA' * 100}"])
def test_names_that_are_hard_to_compare_cost_little(
    typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparing each pair of long names took a second of all threads for a refused request."""
    compared: list[int] = []
    compare = difflib.get_close_matches

    def count(name: str, existing: list[str], *rest: float) -> list[str]:
        compared.append(len(existing))
        return compare(name, existing, *rest)

    monkeypatch.setattr(difflib, "get_close_matches", count)

    find_near(typed, ALIKE)

    assert compared[0] <= MOST_COMPARED
