"""The parsing of the query string of GET /allocation_candidates.

The checks are in the order of specification 04 section 3.5, and its letters mark the functions here.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from oslo_config import cfg
from webob.multidict import MultiDict

from placement.handlers import query_syntax
from placement.handlers.query_syntax import MalformedQuery
from placement.search.filters import GROUP_PARAMETERS
from placement.search.request import CandidateRequest, Group
from placement.web.microversion import Version
from placement.web.request import Request
from placement.web.validation import Schema

GROUP_KEY = re.compile(rf"^({'|'.join(GROUP_PARAMETERS)})(.*)\Z", re.DOTALL)

NESTED_SINCE = (1, 29)
FIRST_VALUE_COUNTS = ("limit", "group_policy")
LARGEST_LIMIT_DIGITS = 18
"""The digits of the largest useful limit: no answer has more candidates."""

RESOURCELESS_GROUPS_SINCE = (1, 36)


def check(request: Request, allowed: Schema, text: str | None = None) -> MultiDict:
    """Return the query, from the URL or a body, with valid keys and plain values (3.5 A)."""
    query = request.read_query(allowed, text)
    # The schema has checked only the last value of each name.
    for name in FIRST_VALUE_COUNTS:
        for value in query.getall(name)[:-1]:
            request.check_query(allowed, {**query, name: value})
    return query


def parse(
    query: MultiDict, version: Version, options: cfg.ConfigOpts.GroupAttr
) -> CandidateRequest:
    """Return the parsed question; the checks are in the order of 3.5 B, C, G or H, K1, K2.

    :param options: the options of ``[placement]``.
    """
    required, forbidden = read_root_traits(query, version)
    subtrees = read_same_subtrees(query)
    wanted = read_groups(query, version, options.max_request_groups)
    group_policy = get_first(query, "group_policy")
    check_groups(wanted, subtrees, group_policy, version)
    return CandidateRequest(
        groups=wanted,
        isolate=group_policy == "isolate",
        same_subtrees=subtrees,
        root_required=required,
        root_forbidden=forbidden,
        limit=_read_limit(query, options.max_answered_candidates),
        maximum=options.max_allocation_candidates,
        strategy=options.allocation_candidates_generation_strategy,
        one_provider_per_tree=version < NESTED_SINCE,
    )


def get_first(query: MultiDict, name: str) -> str | None:
    """Return the first value of a parameter, which is the one that counts."""
    values: list[str] = query.getall(name)
    return values[0] if values else None


def _read_limit(query: MultiDict, most: int) -> int | None:
    text = get_first(query, "limit")
    if text is None:
        return None
    return most if len(text) > LARGEST_LIMIT_DIGITS else min(int(text), most)


def read_root_traits(query: MultiDict, version: Version) -> tuple[frozenset[str], frozenset[str]]:
    """Return the traits that the anchor must and must not have (B1 to B4)."""
    values = query.getall("root_required")
    if len(values) > 1:
        raise MalformedQuery.for_rule("B1", name="root_required")
    if not values:
        return frozenset(), frozenset()
    # This parameter has no any-of form at any version, and the refusal says so in these words.
    required, forbidden = query_syntax.parse_plain_traits(values[0], version)
    conflict = required & forbidden
    if conflict:
        raise MalformedQuery.for_rule("B4", traits=", ".join(sorted(conflict)))
    return required, forbidden


def read_same_subtrees(query: MultiDict) -> tuple[frozenset[str], ...]:
    """Return each demand's set of suffixes (B5)."""
    demands = []
    for value in query.getall("same_subtree"):
        suffixes = frozenset(item.strip() for item in value.split(","))
        if "" in suffixes:
            raise MalformedQuery.for_rule("B5")
        demands.append(suffixes)
    return tuple(demands)


def read_groups(query: MultiDict, version: Version, most: int) -> tuple[Group, ...]:
    """Return the request groups in the order of their first keys (C1 to C13)."""
    fields: dict[str, dict[str, Any]] = {}
    for key in query:
        parts = GROUP_KEY.match(key)
        if parts:
            fields[parts[2]] = {}
    if len(fields) > most:
        raise MalformedQuery.for_rule("groups", count=len(fields), limit=most)
    # ``getall`` would search all parameters for each of them.
    for key, values in query.dict_of_lists().items():
        parts = GROUP_KEY.match(key)
        if parts:
            name, suffix = parts.groups()
            fields[suffix] |= READERS[name](values, version, suffix)
    return tuple(Group(suffix, **given) for suffix, given in fields.items())


def _read_required(values: list[str], version: Version, _suffix: str) -> dict[str, Any]:
    traits = query_syntax.parse_required(values, version)
    return {"required": traits.wanted, "forbidden": traits.forbidden}


def _read_member_of(values: list[str], version: Version, suffix: str) -> dict[str, Any]:
    aggregates = query_syntax.parse_member_of(values, version, suffix)
    return {"member_of": aggregates.wanted, "forbidden_aggregates": aggregates.forbidden}


READERS: dict[str, Callable[[list[str], Version, str], dict[str, Any]]] = {
    "resources": lambda values, *_: {"amounts": [*map(query_syntax.parse_resources, values)][-1]},
    "required": _read_required,
    "member_of": _read_member_of,
    "in_tree": lambda values, *_: {"in_tree": [*map(query_syntax.parse_in_tree, values)][-1]},
}
"""The readers by parameter: each returns members of a ``Group``. All values are checked, the last counts."""


def check_groups(
    wanted: tuple[Group, ...],
    subtrees: tuple[frozenset[str], ...],
    group_policy: str | None,
    version: Version,
) -> None:
    """Refuse groups that contradict each other: G or H, then K1 and K2."""
    if version >= RESOURCELESS_GROUPS_SINCE:
        _check_subtrees(wanted, subtrees)
    else:
        _check_resources_everywhere(wanted)
    _check_trait_conflicts(wanted)
    granular = [group for group in wanted if group.suffix]
    if len(granular) > 1 and group_policy is None:
        raise MalformedQuery.for_rule("K2")


def _check_resources_everywhere(wanted: tuple[Group, ...]) -> None:
    """Check G1 to G4: resources in every group."""
    empty = [group for group in wanted if not group.amounts]
    orphaned = [f"required{group.suffix}" for group in empty if group.required]
    if orphaned:
        raise MalformedQuery.for_rule("G1", keys=", ".join(orphaned))
    orphaned = [
        f"member_of{group.suffix}"
        for group in empty
        if group.member_of or group.forbidden_aggregates
    ]
    if orphaned:
        raise MalformedQuery.for_rule("G2", keys=", ".join(orphaned))
    if empty:
        raise MalformedQuery.for_rule("G3")
    if not wanted:
        raise MalformedQuery.for_rule("G4")


def _check_subtrees(wanted: tuple[Group, ...], subtrees: tuple[frozenset[str], ...]) -> None:
    """Check H1 to H3: subtrees."""
    if not any(group.amounts for group in wanted):
        raise MalformedQuery.for_rule("H1")
    named: frozenset[str] = frozenset().union(*subtrees)
    untied = [group.suffix for group in wanted if not group.amounts and group.suffix not in named]
    if untied:
        raise MalformedQuery.for_rule("H2", suffixes=_quote_names(untied))
    real = {group.suffix for group in wanted if group.suffix}
    if named - real:
        raise MalformedQuery.for_rule(
            "H3", given=_quote_names(sorted(named - real)), real=_quote_names(sorted(real))
        )


def _check_trait_conflicts(wanted: tuple[Group, ...]) -> None:
    """Check K1: a demand whose traits are all forbidden in the same group."""
    conflicts = sorted(
        f"required{group.suffix}: ({', '.join(sorted(demand))})"
        for group in wanted
        for demand in group.required
        if demand <= group.forbidden
    )
    if conflicts:
        raise MalformedQuery.for_rule("K1", keys=", ".join(conflicts))


def _quote_names(names: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"
