"""The small languages of query parameters.

Specification 02 section 3.4, specification 04 sections 3.3 to 3.5.
"""

import pytest

from placement.handlers import query_syntax
from placement.handlers.query_syntax import AggregateFilter, TraitFilter

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
    assert query_syntax.resources(value) == amounts


@pytest.mark.parametrize("digits", [19, 4299, 4301, 100_000])
def test_an_amount_of_any_length_is_a_number_that_fits_nowhere(digits: int) -> None:
    """Python refuses to read more than 4300 digits."""
    assert query_syntax.resources("VCPU:" + "9" * digits)["VCPU"] > 2**31 - 1


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        ("", query_syntax.MalformedResources, "Got: empty string."),
        (" \t", query_syntax.MalformedResources, "Got: empty string."),
        ("VCPU", query_syntax.MalformedResources, "Got: VCPU."),
        ("VCPU:1,", query_syntax.MalformedResources, "Got: ."),
        ("VCPU:1:2", query_syntax.MalformedResources, "Got: VCPU:1:2."),
        ("VCPU:", query_syntax.AmountNotInteger, "Got: ."),
        ("VCPU:1_0", query_syntax.AmountNotInteger, "Got: 1_0."),
        ("VCPU:१", query_syntax.AmountNotInteger, "positive integer amount. Got: १."),
        ("VCPU:0x1", query_syntax.AmountNotInteger, "Got: 0x1."),
        ("VCPU:1\n2", query_syntax.AmountNotInteger, "Requested resource VCPU expected"),
        ("VCPU:-0", query_syntax.AmountTooSmall, "requires amount >= 1. Got: 0."),
        ("VCPU:-12", query_syntax.AmountTooSmall, "requires amount >= 1. Got: -12."),
    ],
)
def test_mistakes_in_resources(value: str, error: type[Exception], text: str) -> None:
    """C1 to C4."""
    with pytest.raises(error) as caught:
        query_syntax.resources(value)
    assert text in str(caught.value)


def each(*names: str) -> tuple[frozenset[str], ...]:
    """Return demands of one name each."""
    return tuple(frozenset([name]) for name in names)


@pytest.mark.parametrize(
    ("values", "version", "wanted"),
    [
        (["A"], (1, 18), TraitFilter(each("A"))),
        ([" B , A "], (1, 18), TraitFilter(each("A", "B"))),
        (["in:,", "A"], (1, 38), TraitFilter(each("A"))),
        (["A", "B"], NEWEST, TraitFilter(each("A", "B"))),
        (["A,!B"], (1, 22), TraitFilter(each("A"), frozenset("B"))),
        (["!!!B"], (1, 22), TraitFilter((), frozenset("B"))),
        (["! B"], (1, 22), TraitFilter((), frozenset([" B"]))),
        (["in:A, B"], NEWEST, TraitFilter((frozenset("AB"),))),
        (["in:A", "!B", "!C"], NEWEST, TraitFilter(each("A"), frozenset("BC"))),
        (["A,in:B"], NEWEST, TraitFilter(each("A", "in:B"))),
        (["!in:B"], NEWEST, TraitFilter((), frozenset(["in:B"]))),
        ([" in:B"], NEWEST, TraitFilter(each("in:B"))),
    ],
)
def test_required(values: list[str], version: tuple[int, int], wanted: TraitFilter) -> None:
    """Before 1.39 the last value counts alone."""
    assert query_syntax.required(values, version) == wanted


@pytest.mark.parametrize(
    ("value", "version", "error"),
    [
        ("in:A", (1, 38), query_syntax.AnyTraitsTooEarly),
        ("in:", NEWEST, query_syntax.EmptyTrait),
        ("in:A,,B", NEWEST, query_syntax.EmptyTrait),
        ("in:!A", NEWEST, query_syntax.ForbiddenInAny),
        ("", NEWEST, query_syntax.EmptyTrait),
        ("A,", NEWEST, query_syntax.EmptyTrait),
        ("!", NEWEST, query_syntax.EmptyTrait),
        ("A,!!", (1, 21), query_syntax.EmptyTrait),
        ("!A", (1, 21), query_syntax.ForbiddenTraitTooEarly),
    ],
)
def test_mistakes_in_required(value: str, version: tuple[int, int], error: type[Exception]) -> None:
    """C5 to C8; each names the value."""
    with pytest.raises(error) as caught:
        query_syntax.required([value], version)
    assert str(caught.value).endswith(value)


@pytest.mark.parametrize(
    ("values", "version", "wanted"),
    [
        ([A], (1, 3), AggregateFilter(each(A))),
        ([f"in:{A}"], (1, 3), AggregateFilter(each(A))),
        ([f"in:{A},{B}"], (1, 3), AggregateFilter((frozenset([A, B]),))),
        ([A, f"in:{B}"], (1, 24), AggregateFilter(each(A, B))),
        ([f"!{A}", f"!in:{B}"], (1, 32), AggregateFilter((), frozenset([A, B]))),
        ([A, f"!{A}"], (1, 32), AggregateFilter(each(A), frozenset([A]))),
        ([A.replace("-", "").upper()], (1, 3), AggregateFilter(each(A.replace("-", "").upper()))),
    ],
)
def test_member_of(values: list[str], version: tuple[int, int], wanted: AggregateFilter) -> None:
    """Spellings are kept as they are."""
    assert query_syntax.member_of(values, version) == wanted


@pytest.mark.parametrize(
    ("values", "version", "error"),
    [
        (["wat", "so"], (1, 23), query_syntax.RepeatedAggregates),
        ([f"{A},{B}"], NEWEST, query_syntax.UnprefixedAggregates),
        ([f"!{A},{B}"], NEWEST, query_syntax.UnprefixedAggregates),
        ([f"In:{A}"], NEWEST, query_syntax.MalformedAggregate),
        ([""], NEWEST, query_syntax.MalformedAggregate),
        (["!"], NEWEST, query_syntax.MalformedAggregate),
        ([f"!!{A}"], NEWEST, query_syntax.MalformedAggregate),
        ([f"in:{A},"], NEWEST, query_syntax.MalformedAggregate),
        ([f"in:in:{A}"], NEWEST, query_syntax.MalformedAggregate),
        ([f"in:!{A}"], NEWEST, query_syntax.MalformedAggregate),
        ([f" {A}"], NEWEST, query_syntax.MalformedAggregate),
        (["!wat"], (1, 31), query_syntax.MalformedAggregate),
        ([f"!{A}"], (1, 31), query_syntax.ForbiddenAggregateTooEarly),
        ([A, f"!{A}", "wat"], (1, 31), query_syntax.ForbiddenAggregateTooEarly),
    ],
)
def test_mistakes_in_member_of(
    values: list[str], version: tuple[int, int], error: type[Exception]
) -> None:
    """C9 to C12, the first on the whole request and the others value by value."""
    with pytest.raises(error):
        query_syntax.member_of(values, version)


def test_the_suffix_is_named() -> None:
    """Where the parameter of a group is repeated or forbids too early."""
    with pytest.raises(query_syntax.RepeatedAggregates, match="Multiple member_of3 parameters"):
        query_syntax.member_of([A, B], (1, 23), "3")
    with pytest.raises(query_syntax.ForbiddenAggregateTooEarly, match="Forbidden member_of_X "):
        query_syntax.member_of([f"!{A}"], (1, 31), "_X")


def test_in_tree() -> None:
    """Blanks around it are dropped, what is left is compared as it is."""
    assert query_syntax.in_tree(f" {A.upper()} ") == A.upper()
    with pytest.raises(query_syntax.MalformedTree, match="Got: wat"):
        query_syntax.in_tree("wat")
