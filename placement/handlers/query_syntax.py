"""The small languages of query parameters: resources, required, member_of, in_tree.

One grammar for the list of providers (specification 02 section 3.4) and for the allocation candidates
(specification 04 sections 3.3 to 3.5, whose letters name the faults here).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from placement import errors
from placement.web.validation import is_uuid_like

FORBIDDEN_TRAITS_SINCE = (1, 22)
REPEATED_AGGREGATES_SINCE = (1, 24)
FORBIDDEN_AGGREGATES_SINCE = (1, 32)
ANY_TRAITS_SINCE = (1, 39)

ANY_PREFIX = "in:"
ANY_TRAITS_EXAMPLE = "in:HW_CPU_X86_VMX,CUSTOM_MAGIC"

AMOUNT = re.compile(r"\s*([+-]?)([0-9]+)\s*\Z")
# Far beyond what fits anywhere; longer texts are not worth turning into numbers.
MOST_DIGITS = 18


class MalformedResources(errors.BadRequest):
    """C1, C2: not of the form ``CLASS:AMOUNT,CLASS:AMOUNT``."""

    text = (
        "Badly formed resources parameter. Expected resources query string parameter in form: "
        "?resources=VCPU:2,MEMORY_MB:1024. Got: {given}."
    )
    given: str


class AmountNotInteger(errors.BadRequest):
    """C3: the amount is no decimal integer."""

    text = "Requested resource {name} expected positive integer amount. Got: {given}."
    name: str
    given: str


class AmountTooSmall(errors.BadRequest):
    """C4: nothing, or less, is asked for."""

    text = "Requested resource {name} requires amount >= 1. Got: {given}."
    name: str
    given: str


class AnyTraitsTooEarly(errors.BadRequest):
    """C5: the any-of form of ``required`` before it was introduced."""

    text = (
        "Invalid query string parameters: The format '" + ANY_TRAITS_EXAMPLE + "' only supported "
        "since microversion 1.39. Got: {given}"
    )
    given: str


class EmptyTrait(errors.BadRequest):
    """C6: nothing between two commas. ``example``: the form that the version knows."""

    text = (
        "Invalid query string parameters: Expected 'required' parameter value of the form: "
        "{example}. Got an empty trait in: {given}"
    )
    example: str
    given: str


class ForbiddenInAny(errors.BadRequest):
    """C7: ``!`` inside an any-of list."""

    text = (
        "Invalid query string parameters: The format '" + ANY_TRAITS_EXAMPLE + "' does not support "
        "forbidden traits. Got: {given}"
    )
    given: str


class ForbiddenTraitTooEarly(errors.BadRequest):
    """C8: a forbidden trait before they were introduced."""

    text = (
        "Invalid query string parameters: Expected 'required' parameter value of the form: "
        "HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: {given}"
    )
    given: str


class RepeatedAggregates(errors.BadRequest):
    """C9: several ``member_of`` before they were ANDed."""

    text = "Multiple member_of{suffix} parameters are not supported"
    suffix: str


class UnprefixedAggregates(errors.BadRequest):
    """C10: a list of aggregates without a word that says what to do with it."""

    text = (
        "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword using "
        "the valid microversion. Got: {given}"
    )
    given: str


class MalformedAggregate(errors.BadRequest):
    """C11: what should be an aggregate is no UUID."""

    text = (
        "Invalid query string parameters: Expected 'member_of' parameter to contain valid UUID(s). "
        "Got: {given}"
    )
    given: str


class ForbiddenAggregateTooEarly(errors.BadRequest):
    """C12: a forbidden aggregate before they were introduced."""

    text = "Forbidden member_of{suffix} parameters are not supported in the specified microversion"
    suffix: str


class MalformedTree(errors.BadRequest):
    """C13: what should be a provider is no UUID."""

    text = (
        "Invalid query string parameters: Expected 'in_tree' parameter to be a format of uuid. "
        "Got: {given}"
    )
    given: str


@dataclass(frozen=True, slots=True)
class TraitFilter:
    """``required``: sets that are ANDed, of each of which one trait is enough."""

    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AggregateFilter:
    """``member_of``: sets that are ANDed, of each of which one aggregate is enough."""

    member_of: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()


def resources(value: str) -> dict[str, int]:
    """Return the amounts by class of ``CLASS:AMOUNT,…``; of a class given twice the last.

    Amounts that no inventory can have come back as some number that fits nowhere.

    :raises MalformedResources:
    :raises AmountNotInteger:
    :raises AmountTooSmall:
    """
    if not value.strip():
        raise MalformedResources(given="empty string")
    amounts = {}
    for item in value.split(","):
        if item.count(":") != 1:
            raise MalformedResources(given=item)
        name, _, text = item.partition(":")
        amounts[name] = _amount(name, text)
    return amounts


def _amount(name: str, text: str) -> int:
    parts = AMOUNT.match(text)
    if parts is None:
        raise AmountNotInteger(name=name, given=text)
    sign, digits = parts.groups()
    digits = digits.lstrip("0")
    if sign == "-" or not digits:
        raise AmountTooSmall(name=name, given="-" * bool(sign == "-" and digits) + (digits or "0"))
    return int(digits) if len(digits) <= MOST_DIGITS else 10**MOST_DIGITS


def required(values: Sequence[str], version: tuple[int, int]) -> TraitFilter:
    """Return the traits that the values of one ``required`` parameter ask for.

    Before 1.39 only the last value counts, and the others are not looked at.

    :raises AnyTraitsTooEarly:
    :raises EmptyTrait:
    :raises ForbiddenInAny:
    :raises ForbiddenTraitTooEarly:
    """
    if version < ANY_TRAITS_SINCE:
        values = values[-1:]
    demands: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values:
        if value.startswith(ANY_PREFIX) and version >= ANY_TRAITS_SINCE:
            demands.append(_any_of(value))
        else:
            wanted, unwanted = plain_traits(value, version)
            demands += [frozenset([trait]) for trait in sorted(wanted)]
            forbidden |= unwanted
    return TraitFilter(tuple(demands), frozenset(forbidden))


def _any_of(value: str) -> frozenset[str]:
    items = [item.strip() for item in value.removeprefix(ANY_PREFIX).split(",")]
    if "" in items:
        raise EmptyTrait(example=ANY_TRAITS_EXAMPLE, given=value)
    if any(item.startswith("!") for item in items):
        raise ForbiddenInAny(given=value)
    return frozenset(items)


def plain_traits(value: str, version: tuple[int, int]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the traits that are wanted and those that are not in ``T1,!T2,…``.

    The any-of form is refused, with the words for a version that has not got it.

    :raises AnyTraitsTooEarly:
    :raises EmptyTrait:
    :raises ForbiddenTraitTooEarly:
    """
    if value.startswith(ANY_PREFIX):
        raise AnyTraitsTooEarly(given=value)
    items = [item.strip() for item in value.split(",")]
    may_forbid = version >= FORBIDDEN_TRAITS_SINCE
    if not all(item.lstrip("!") for item in items):
        example = "HW_CPU_X86_VMX,!CUSTOM_MAGIC" if may_forbid else "HW_CPU_X86_VMX,CUSTOM_MAGIC"
        raise EmptyTrait(example=example, given=value)
    unwanted = frozenset(item.lstrip("!") for item in items if item.startswith("!"))
    if unwanted and not may_forbid:
        raise ForbiddenTraitTooEarly(given=value)
    return frozenset(item for item in items if not item.startswith("!")), unwanted


def member_of(values: Sequence[str], version: tuple[int, int], suffix: str = "") -> AggregateFilter:
    """Return the aggregates that the values of one ``member_of`` parameter ask for.

    :param suffix: of the parameter's name, for the messages.
    :raises RepeatedAggregates:
    :raises UnprefixedAggregates:
    :raises MalformedAggregate:
    :raises ForbiddenAggregateTooEarly:
    """
    if len(values) > 1 and version < REPEATED_AGGREGATES_SINCE:
        raise RepeatedAggregates(suffix=suffix)
    wanted: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values:
        aggregates = _aggregates(value)
        if not value.startswith("!"):
            wanted.append(aggregates)
        elif version >= FORBIDDEN_AGGREGATES_SINCE:
            forbidden |= aggregates
        else:
            raise ForbiddenAggregateTooEarly(suffix=suffix)
    return AggregateFilter(tuple(wanted), frozenset(forbidden))


def _aggregates(value: str) -> frozenset[str]:
    plain = value.removeprefix("!")
    if plain.startswith(ANY_PREFIX):
        items = plain.removeprefix(ANY_PREFIX).split(",")
    elif "," in value:
        raise UnprefixedAggregates(given=value)
    else:
        items = [plain]
    for item in items:
        if not is_uuid_like(item):
            raise MalformedAggregate(given=item)
    return frozenset(items)


def in_tree(value: str) -> str:
    """Return the provider that ``in_tree`` of the allocation candidates names, blanks dropped.

    :raises MalformedTree:
    """
    uuid = value.strip()
    if not is_uuid_like(uuid):
        raise MalformedTree(given=value)
    return uuid
