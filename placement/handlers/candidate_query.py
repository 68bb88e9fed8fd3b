"""The query string of GET /allocation_candidates: from parameters to a parsed question.

The checks come in the order of specification 04 section 3.5, whose letters name the functions here.
"""

import re
from collections.abc import Iterable

from webob.multidict import MultiDict

from placement import errors
from placement.handlers import query_syntax
from placement.search.request import Group
from placement.web.microversion import Version

GROUP_KEY = re.compile(r"^(resources|required|member_of|in_tree)(.*)\Z", re.DOTALL)

RESOURCELESS_GROUPS_SINCE = (1, 36)


class DuplicateKey(errors.BadRequest):
    """B1: a parameter that may come once came twice."""

    code = "placement.query.duplicate_key"
    text = "Query parameter '{name}' may be specified only once."
    name: str


class BadValue(errors.BadRequest):
    """Parameters that contradict one another or name what is not there."""

    code = "placement.query.bad_value"


class RootTraitConflict(BadValue):
    """B4: the anchor must have and must not have one trait."""

    text = "Conflicting required and forbidden traits found in root_required: {traits}"
    traits: str


class EmptySubtreeSuffix(BadValue):
    """B5: the unsuffixed group is in every subtree, and cannot be asked into one."""

    text = "Empty string (unsuffixed group) can not be specified in `same_subtree` "


class MissingValue(errors.BadRequest):
    """H1: nothing is asked for."""

    code = "placement.query.missing_value"
    text = "There must be at least one resources or resources[$S] parameter."


class TooManyGroups(errors.BadRequest):
    """More request groups than ``[placement]/max_request_groups``."""

    text = "The query has {count} request groups, and at most {limit} are allowed."
    count: int
    limit: int


class OrphanedTraits(errors.BadRequest):
    """G1: traits are required of a group that asks for no resources."""

    text = (
        "All traits parameters must be associated with resources.  "
        "Found the following orphaned traits keys: {keys}"
    )
    keys: str


class OrphanedAggregates(errors.BadRequest):
    """G2: aggregates are named for a group that asks for no resources."""

    text = (
        "All member_of parameters must be associated with resources. "
        "Found the following orphaned member_of keys: {keys}"
    )
    keys: str


class GroupWithoutResources(errors.BadRequest):
    """G3: a group asks for no resources, before 1.36 allowed it."""

    text = "All request groups must specify resources."


class NoGroup(errors.BadRequest):
    """G4: nothing is asked for, before 1.36."""

    text = "At least one request group (`resources` or `resources{{$S}}`) is required."


class UntiedGroups(BadValue):
    """H2: groups without resources that no ``same_subtree`` ties to others."""

    text = (
        "Resourceless suffixed group request should be specified in `same_subtree` query param: "
        "bad group(s) - {suffixes}."
    )
    suffixes: str


class UnknownSuffixes(BadValue):
    """H3: ``same_subtree`` names groups that are not there."""

    text = "Real suffixes should be specified in `same_subtree`: {given} not found in {real}."
    given: str
    real: str


class TraitConflicts(errors.BadRequest):
    """K1: a group must have and must not have one trait."""

    text = "Conflicting required and forbidden traits found in the following traits keys: {keys}"
    keys: str


class GroupPolicyMissing(errors.BadRequest):
    """K2: several suffixed groups, and nobody says whether they may share a provider."""

    text = (
        'The "group_policy" parameter is required when specifying '
        'more than one "resources{{N}}" parameter.'
    )


def root_traits(query: MultiDict, version: Version) -> tuple[frozenset[str], frozenset[str]]:
    """Return the traits that the anchor must and must not have (B1 to B4)."""
    values = query.getall("root_required")
    if len(values) > 1:
        raise DuplicateKey(name="root_required")
    if not values:
        return frozenset(), frozenset()
    # The any-of form is not known here at any version, and the refusal says so in these words.
    required, forbidden = query_syntax.plain_traits(values[0], version)
    conflict = required & forbidden
    if conflict:
        raise RootTraitConflict(traits=", ".join(sorted(conflict)))
    return required, forbidden


def same_subtrees(query: MultiDict) -> tuple[frozenset[str], ...]:
    """Return each demand's set of suffixes (B5)."""
    demands = []
    for value in query.getall("same_subtree"):
        suffixes = frozenset(item.strip() for item in value.split(","))
        if "" in suffixes:
            raise EmptySubtreeSuffix()
        demands.append(suffixes)
    return tuple(demands)


def groups(query: MultiDict, version: Version, most: int) -> tuple[Group, ...]:
    """Return the request groups in the order of their first keys (C1 to C13)."""
    suffixes: dict[str, None] = {}
    for key in query:
        parts = GROUP_KEY.match(key)
        if parts:
            suffixes[parts[2]] = None
    if len(suffixes) > most:
        raise TooManyGroups(count=len(suffixes), limit=most)
    amounts: dict[str, dict[str, int]] = {suffix: {} for suffix in suffixes}
    traits: dict[str, query_syntax.TraitFilter] = {}
    aggregates: dict[str, query_syntax.AggregateFilter] = {}
    trees: dict[str, str] = {}
    for key in dict.fromkeys(query):
        parts = GROUP_KEY.match(key)
        if not parts:
            continue
        name, suffix = parts.groups()
        values = query.getall(key)
        if name == "resources":
            amounts[suffix] = [query_syntax.resources(value) for value in values][-1]
        elif name == "required":
            traits[suffix] = query_syntax.required(values, version)
        elif name == "member_of":
            aggregates[suffix] = query_syntax.member_of(values, version, suffix)
        else:
            trees[suffix] = [query_syntax.in_tree(value) for value in values][-1]
    no_traits = query_syntax.TraitFilter()
    no_aggregates = query_syntax.AggregateFilter()
    return tuple(
        Group(
            suffix=suffix,
            amounts=amounts[suffix],
            required=traits.get(suffix, no_traits).required,
            forbidden=traits.get(suffix, no_traits).forbidden,
            member_of=aggregates.get(suffix, no_aggregates).member_of,
            forbidden_aggregates=aggregates.get(suffix, no_aggregates).forbidden,
            in_tree=trees.get(suffix),
        )
        for suffix in suffixes
    )


def check_groups(
    wanted: tuple[Group, ...],
    subtrees: tuple[frozenset[str], ...],
    group_policy: str | None,
    version: Version,
) -> None:
    """Refuse groups that do not hang together: G or H, then K1 and K2."""
    if version >= RESOURCELESS_GROUPS_SINCE:
        _check_subtrees(wanted, subtrees)
    else:
        _check_resources_everywhere(wanted)
    _check_trait_conflicts(wanted)
    granular = [group for group in wanted if group.suffix]
    if len(granular) > 1 and group_policy is None:
        raise GroupPolicyMissing()


def _check_resources_everywhere(wanted: tuple[Group, ...]) -> None:
    """G1 to G4."""
    empty = [group for group in wanted if not group.amounts]
    orphaned = [f"required{group.suffix}" for group in empty if group.required]
    if orphaned:
        raise OrphanedTraits(keys=", ".join(orphaned))
    orphaned = [
        f"member_of{group.suffix}"
        for group in empty
        if group.member_of or group.forbidden_aggregates
    ]
    if orphaned:
        raise OrphanedAggregates(keys=", ".join(orphaned))
    if empty:
        raise GroupWithoutResources()
    if not wanted:
        raise NoGroup()


def _check_subtrees(wanted: tuple[Group, ...], subtrees: tuple[frozenset[str], ...]) -> None:
    """H1 to H3."""
    if not any(group.amounts for group in wanted):
        raise MissingValue()
    named: frozenset[str] = frozenset().union(*subtrees)
    untied = [group.suffix for group in wanted if not group.amounts and group.suffix not in named]
    if untied:
        raise UntiedGroups(suffixes=_listed(untied))
    real = {group.suffix for group in wanted if group.suffix}
    if named - real:
        raise UnknownSuffixes(given=_listed(sorted(named - real)), real=_listed(sorted(real)))


def _check_trait_conflicts(wanted: tuple[Group, ...]) -> None:
    """K1: a demand all of whose traits are forbidden in the same group."""
    conflicts = sorted(
        f"required{group.suffix}: ({', '.join(sorted(demand))})"
        for group in wanted
        for demand in group.required
        if demand <= group.forbidden
    )
    if conflicts:
        raise TraitConflicts(keys=", ".join(conflicts))


def _listed(names: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"
