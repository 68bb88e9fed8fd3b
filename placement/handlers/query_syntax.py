"""The small languages of query parameters: resources, required, member_of, in_tree.

Specification 02 section 3.4 and 04 sections 3.3 to 3.5, whose letters name the checks.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from placement import errors
from placement.web.validation import is_uuid_like, normalized_uuid

FORBIDDEN_TRAITS_SINCE = (1, 22)
REPEATED_AGGREGATES_SINCE = (1, 24)
FORBIDDEN_AGGREGATES_SINCE = (1, 32)
ANY_TRAITS_SINCE = (1, 39)

ANY_PREFIX = "in:"
ANY_TRAITS_EXAMPLE = "in:HW_CPU_X86_VMX,CUSTOM_MAGIC"

AMOUNT = re.compile(r"\s*([+-]?)([0-9]+)\s*\Z")
# The bound is far beyond any real amount; longer texts are not worth converting to numbers.
MOST_DIGITS = 18


INVALID = "Invalid query string parameters: "
REQUIRED_FORM = INVALID + "Expected 'required' parameter value of the form: "


class MalformedQuery(errors.Malformed):
    """The query is malformed."""

    reason = "invalid_query"
    reasons = {
        "C3": "invalid_amount",
        "C4": "invalid_amount",
        "C11": "invalid_uuid",
        "C13": "invalid_uuid",
    }
    codes = {
        "B1": "placement.query.duplicate_key",
        "B4": "placement.query.bad_value",
        "B5": "placement.query.bad_value",
        "H1": "placement.query.missing_value",
        "H2": "placement.query.bad_value",
        "H3": "placement.query.bad_value",
    }
    texts = {
        "groups": "The query has {count} request groups, and at most {limit} are allowed.",
        "B1": "Query parameter '{name}' may be specified only once.",
        "B4": "Conflicting required and forbidden traits found in root_required: {traits}",
        "B5": "Empty string (unsuffixed group) can not be specified in `same_subtree` ",
        "C1": "Badly formed resources parameter. Expected resources query string parameter in form: "
        "?resources=VCPU:2,MEMORY_MB:1024. Got: {given}.",
        "C3": "Requested resource {name} expected positive integer amount. Got: {given}.",
        "C4": "Requested resource {name} requires amount >= 1. Got: {given}.",
        "C5": INVALID
        + f"The format '{ANY_TRAITS_EXAMPLE}' only supported since microversion 1.39. "
        "Got: {given}",
        "C6": REQUIRED_FORM + "{example}. Got an empty trait in: {given}",
        "C7": INVALID + f"The format '{ANY_TRAITS_EXAMPLE}' does not support forbidden traits. "
        "Got: {given}",
        "C8": REQUIRED_FORM + "HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: {given}",
        "C9": "Multiple member_of{suffix} parameters are not supported",
        "C10": "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword "
        "using the valid microversion. Got: {given}",
        "C11": INVALID + "Expected 'member_of' parameter to contain valid UUID(s). Got: {given}",
        "C12": "Forbidden member_of{suffix} parameters are not supported in the specified "
        "microversion",
        "C13": INVALID + "Expected 'in_tree' parameter to be a format of uuid. Got: {given}",
        "G1": "All traits parameters must be associated with resources.  "
        "Found the following orphaned traits keys: {keys}",
        "G2": "All member_of parameters must be associated with resources. "
        "Found the following orphaned member_of keys: {keys}",
        "G3": "All request groups must specify resources.",
        "G4": "At least one request group (`resources` or `resources{{$S}}`) is required.",
        "H1": "There must be at least one resources or resources[$S] parameter.",
        "H2": "Resourceless suffixed group request should be specified in `same_subtree` query "
        "param: bad group(s) - {suffixes}.",
        "H3": "Real suffixes should be specified in `same_subtree`: {given} not found in {real}.",
        "K1": "Conflicting required and forbidden traits found in the following traits keys: {keys}",
        "K2": 'The "group_policy" parameter is required when specifying more than one '
        '"resources{{N}}" parameter.',
    }
    """The keys are the letters that specification 04 section 3.5 gives the checks."""


class SetFilter(NamedTuple):
    """The requested traits or aggregates: one of each set in ``wanted``, and none of ``forbidden``."""

    wanted: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()


def parse_resources(value: str) -> dict[str, int]:
    """Return the amounts by class of ``CLASS:AMOUNT,…``; the last amount of a repeated class counts."""
    if not value.strip():
        raise MalformedQuery.for_rule("C1", given="empty string")
    amounts = {}
    for item in value.split(","):
        if item.count(":") != 1:
            raise MalformedQuery.for_rule("C1", given=item)
        name, _, text = item.partition(":")
        amounts[name] = _parse_amount(name, text)
    return amounts


def _parse_amount(name: str, text: str) -> int:
    parts = AMOUNT.match(text)
    if parts is None:
        raise MalformedQuery.for_rule("C3", name=name, given=text)
    sign, digits = parts.groups()
    digits = digits.lstrip("0")
    if sign == "-" or not digits:
        given = f"-{digits}" if sign == "-" and digits else digits or "0"
        raise MalformedQuery.for_rule("C4", name=name, given=given)
    return int(digits) if len(digits) <= MOST_DIGITS else 10**MOST_DIGITS


def parse_required(values: Sequence[str], version: tuple[int, int]) -> SetFilter:
    """Return the traits that the values of ``required`` request; before 1.39 only the last value counts."""
    if version < ANY_TRAITS_SINCE:
        values = values[-1:]
    demands: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values:
        if value.startswith(ANY_PREFIX) and version >= ANY_TRAITS_SINCE:
            demands.append(_parse_any(value))
        else:
            wanted, unwanted = parse_plain_traits(value, version)
            demands += [frozenset([trait]) for trait in sorted(wanted)]
            forbidden |= unwanted
    return SetFilter(tuple(demands), frozenset(forbidden))


def _parse_any(value: str) -> frozenset[str]:
    items = [item.strip() for item in value.removeprefix(ANY_PREFIX).split(",")]
    if "" in items:
        raise MalformedQuery.for_rule("C6", example=ANY_TRAITS_EXAMPLE, given=value)
    if any(item.startswith("!") for item in items):
        raise MalformedQuery.for_rule("C7", given=value)
    return frozenset(items)


def parse_plain_traits(
    value: str, version: tuple[int, int]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the wanted and the forbidden traits of ``T1,!T2,…``, which has no any-of form."""
    if value.startswith(ANY_PREFIX):
        raise MalformedQuery.for_rule("C5", given=value)
    items = [item.strip() for item in value.split(",")]
    may_forbid = version >= FORBIDDEN_TRAITS_SINCE
    if not all(item.lstrip("!") for item in items):
        example = "HW_CPU_X86_VMX,!CUSTOM_MAGIC" if may_forbid else "HW_CPU_X86_VMX,CUSTOM_MAGIC"
        raise MalformedQuery.for_rule("C6", example=example, given=value)
    unwanted = frozenset(item.lstrip("!") for item in items if item.startswith("!"))
    if unwanted and not may_forbid:
        raise MalformedQuery.for_rule("C8", given=value)
    return frozenset(item for item in items if not item.startswith("!")), unwanted


def parse_member_of(values: Sequence[str], version: tuple[int, int], suffix: str = "") -> SetFilter:
    """Return the aggregates that the values of ``member_of`` with this suffix request."""
    if len(values) > 1 and version < REPEATED_AGGREGATES_SINCE:
        raise MalformedQuery.for_rule("C9", suffix=suffix)
    wanted: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values:
        aggregates = _parse_aggregates(value)
        if not value.startswith("!"):
            wanted.append(aggregates)
        elif version >= FORBIDDEN_AGGREGATES_SINCE:
            forbidden |= aggregates
        else:
            raise MalformedQuery.for_rule("C12", suffix=suffix)
    return SetFilter(tuple(wanted), frozenset(forbidden))


def _parse_aggregates(value: str) -> frozenset[str]:
    plain = value.removeprefix("!")
    if plain.startswith(ANY_PREFIX):
        items = plain.removeprefix(ANY_PREFIX).split(",")
    elif "," in value:
        raise MalformedQuery.for_rule("C10", given=value)
    else:
        items = [plain]
    for item in items:
        if not is_uuid_like(item):
            raise MalformedQuery.for_rule("C11", given=item)
    return frozenset(items)


def parse_in_tree(value: str) -> str:
    """Return the provider that ``in_tree`` of the allocation candidates names."""
    uuid = value.strip()
    if not is_uuid_like(uuid):
        raise MalformedQuery.for_rule("C13", given=value)
    return normalized_uuid(uuid)
