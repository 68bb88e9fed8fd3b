"""The small languages of query parameters.

Specification 02 section 3.4, specification 04 sections 3.3 to 3.5.
"""

import pytest

from placement.handlers import query_syntax
from placement.handlers.query_syntax import MalformedQuery, SetFilter

A = "11110000-0000-4000-8000-000000000001"
B = "11110000-0000-4000-8000-000000000002"
NEWEST = (1, 39)


@pytest.mark.parametrize(
    ("value", "amounts"),
    [
        ("VCPU:1", {"VCPU": 1}),
        ("VCPU:2,MEMORY_MB:1024", {"VCPU": 2, "MEMORY_MB": 1024}),
        ("VCPU:1,VCPU:3", {"VCPU": 3}),
        ("VCPU: +4 ", {"VCPU": 4}),
        ("VCPU:007", {"VCPU": 7}),
        (" VCPU:1", {" VCPU": 1}),
        (":1", {"": 1}),
    ],
)
def test_resources(value: str, amounts: dict[str, int]) -> None:
    """Blanks belong to the amount, not to the class."""
    assert query_syntax.parse_resources(value) == amounts


@pytest.mark.parametrize("digits", [19, 4299, 4301, 100_000])
def test_an_amount_of_any_length_is_a_number_that_fits_nowhere(digits: int) -> None:
    """Python refuses to read more than 4300 digits."""
    assert query_syntax.parse_resources("VCPU:" + "9" * digits)["VCPU"] > 2**31 - 1


@pytest.mark.parametrize(
    ("value", "rule", "text"),
    [
        ("", "C1", "Got: empty string."),
        (" \t", "C1", "Got: empty string."),
        ("VCPU", "C1", "Got: VCPU."),
        ("VCPU:1,", "C1", "Got: ."),
        ("VCPU:1:2", "C1", "Got: VCPU:1:2."),
        ("VCPU:", "C3", "Got: ."),
        ("VCPU:1_0", "C3", "Got: 1_0."),
        ("VCPU:१", "C3", "positive integer amount. Got: १."),
        ("VCPU:0x1", "C3", "Got: 0x1."),
        ("VCPU:1\n2", "C3", "Requested resource VCPU expected"),
        ("VCPU:-0", "C4", "requires amount >= 1. Got: 0."),
        ("VCPU:-12", "C4", "requires amount >= 1. Got: -12."),
    ],
)
def test_mistakes_in_resources(value: str, rule: str, text: str) -> None:
    """C1 to C4."""
    with pytest.raises(MalformedQuery) as caught:
        query_syntax.parse_resources(value)
    assert text in str(caught.value)
    assert caught.value.rule == rule


def each(*names: str) -> tuple[frozenset[str], ...]:
    """Return demands of one name each."""
    return tuple(frozenset([name]) for name in names)


@pytest.mark.parametrize(
    ("values", "version", "wanted"),
    [
        (["A"], (1, 18), SetFilter(each("A"))),
        ([" B , A "], (1, 18), SetFilter(each("A", "B"))),
        (["in:,", "A"], (1, 38), SetFilter(each("A"))),
        (["A", "B"], NEWEST, SetFilter(each("A", "B"))),
        (["A,!B"], (1, 22), SetFilter(each("A"), frozenset("B"))),
        (["!!!B"], (1, 22), SetFilter((), frozenset("B"))),
        (["! B"], (1, 22), SetFilter((), frozenset([" B"]))),
        (["in:A, B"], NEWEST, SetFilter((frozenset("AB"),))),
        (["in:A", "!B", "!C"], NEWEST, SetFilter(each("A"), frozenset("BC"))),
        (["A,in:B"], NEWEST, SetFilter(each("A", "in:B"))),
        (["!in:B"], NEWEST, SetFilter((), frozenset(["in:B"]))),
        ([" in:B"], NEWEST, SetFilter(each("in:B"))),
    ],
)
def test_required(values: list[str], version: tuple[int, int], wanted: SetFilter) -> None:
    """Before 1.39 the last value counts alone."""
    assert query_syntax.parse_required(values, version) == wanted


@pytest.mark.parametrize(
    ("value", "version", "rule"),
    [
        ("in:A", (1, 38), "C5"),
        ("in:", NEWEST, "C6"),
        ("in:A,,B", NEWEST, "C6"),
        ("in:!A", NEWEST, "C7"),
        ("", NEWEST, "C6"),
        ("A,", NEWEST, "C6"),
        ("!", NEWEST, "C6"),
        ("A,!!", (1, 21), "C6"),
        ("!A", (1, 21), "C8"),
    ],
)
def test_mistakes_in_required(value: str, version: tuple[int, int], rule: str) -> None:
    """C5 to C8; each names the value."""
    with pytest.raises(MalformedQuery) as caught:
        query_syntax.parse_required([value], version)
    assert str(caught.value).endswith(value)
    assert caught.value.rule == rule


@pytest.mark.parametrize(
    ("values", "version", "wanted"),
    [
        ([A], (1, 3), SetFilter(each(A))),
        ([f"in:{A}"], (1, 3), SetFilter(each(A))),
        ([f"in:{A},{B}"], (1, 3), SetFilter((frozenset([A, B]),))),
        ([A, f"in:{B}"], (1, 24), SetFilter(each(A, B))),
        ([f"!{A}", f"!in:{B}"], (1, 32), SetFilter((), frozenset([A, B]))),
        ([A, f"!{A}"], (1, 32), SetFilter(each(A), frozenset([A]))),
        ([A.replace("-", "").upper()], (1, 3), SetFilter(each(A.replace("-", "").upper()))),
    ],
)
def test_member_of(values: list[str], version: tuple[int, int], wanted: SetFilter) -> None:
    """Spellings are kept as they are."""
    assert query_syntax.parse_member_of(values, version) == wanted


@pytest.mark.parametrize(
    ("values", "version", "rule"),
    [
        (["wat", "so"], (1, 23), "C9"),
        ([f"{A},{B}"], NEWEST, "C10"),
        ([f"!{A},{B}"], NEWEST, "C10"),
        ([f"In:{A}"], NEWEST, "C11"),
        ([""], NEWEST, "C11"),
        (["!"], NEWEST, "C11"),
        ([f"!!{A}"], NEWEST, "C11"),
        ([f"in:{A},"], NEWEST, "C11"),
        ([f"in:in:{A}"], NEWEST, "C11"),
        ([f"in:!{A}"], NEWEST, "C11"),
        ([f" {A}"], NEWEST, "C11"),
        (["!wat"], (1, 31), "C11"),
        ([f"!{A}"], (1, 31), "C12"),
        ([A, f"!{A}", "wat"], (1, 31), "C12"),
    ],
)
def test_mistakes_in_member_of(values: list[str], version: tuple[int, int], rule: str) -> None:
    """C9 to C12, the first on the whole request and the others value by value."""
    with pytest.raises(MalformedQuery) as caught:
        query_syntax.parse_member_of(values, version)
    assert caught.value.rule == rule


def test_the_suffix_is_named() -> None:
    """Where the parameter of a group is repeated or forbids too early."""
    with pytest.raises(MalformedQuery, match="Multiple member_of3 parameters"):
        query_syntax.parse_member_of([A, B], (1, 23), "3")
    with pytest.raises(MalformedQuery, match="Forbidden member_of_X "):
        query_syntax.parse_member_of([f"!{A}"], (1, 31), "_X")


def test_in_tree() -> None:
    """Blanks around it are dropped, what is left is compared as it is."""
    assert query_syntax.parse_in_tree(f" {A.upper()} ") == A
    with pytest.raises(MalformedQuery, match="Got: wat"):
        query_syntax.parse_in_tree("wat")
