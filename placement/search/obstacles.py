"""What was in the way of providers: examples for the steps of a search, and one host's verdict (07 2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from placement.search import feasible
from placement.search.cloud import Cloud
from placement.search.index_set import Indexes, Mask
from placement.search.inventory_table import Terms
from placement.search.request import CandidateRequest, Group
from placement.search.tally import Reason, Step, Unit

Example = dict[str, Any]

OF_CAPACITY = frozenset({Reason.CAPACITY, Reason.ALL_CLASSES})
OF_WANTED_TRAITS = frozenset({Reason.REQUIRED_TRAITS, Reason.ROOT_REQUIRED})
OF_UNWANTED_TRAITS = frozenset({Reason.FORBIDDEN_TRAITS, Reason.ROOT_FORBIDDEN})
ANY_OF = " or "
"""Between the traits of a step's subject of which one would do."""


def examples(cloud: Cloud, request: CandidateRequest, step: Step, most: int) -> list[Example]:
    """Return up to ``most`` of those that a step of an explained search removed, closest first."""
    if step.removed is None or not most:
        return []
    group = next((group for group in request.groups if group.suffix == step.group), None)
    removed = np.flatnonzero(step.removed)
    return [
        {
            "uuid": cloud.uuids[index],
            "name": cloud.names[index],
            "root": cloud.uuids[int(cloud.roots[index])],
            **_in_the_way(cloud, request, group, step, index),
        }
        for index in _closest(cloud, group, step, removed)[:most]
    ]


def _closest(cloud: Cloud, group: Group | None, step: Step, removed: Indexes) -> list[int]:
    """Return providers, or roots, in the order of how little was missing.

    Equals are ordered by name, or, where room decides, by age: the order in memory is the database's.
    """
    if step.test in OF_CAPACITY and step.subject in cloud.classes:
        room = cloud.room(step.subject)[removed]
        closest = np.lexsort((cloud.ids[removed], -room.astype(np.int64)))
        order: list[int] = removed[closest].tolist()
        enough = int(np.count_nonzero(room > 0))
        # Of those without room the ones that have inventory come first.
        rest = sorted(
            order[enough:],
            key=lambda index: (-_free(cloud, index, str(step.subject)), cloud.names[index]),
        )
        return order[:enough] + rest
    wanted = [] if group is None or step.unit is Unit.TREES else group.required

    def distance(index: int) -> tuple[int, str]:
        missing = sum(not names.intersection(cloud.traits[index]) for names in wanted)
        return missing, cloud.names[index]

    return sorted(removed.tolist(), key=distance)


LACKING = -(2**62)
"""Free of a class of which a provider has no inventory: less than any."""


def _free(cloud: Cloud, index: int, name: str) -> int:
    return next(
        (held[1] - held[2] for held in cloud.inventories[index] if held[0] == name), LACKING
    )


def _in_the_way(
    cloud: Cloud, request: CandidateRequest, group: Group | None, step: Step, index: int
) -> Example:
    traits, aggregates = set(cloud.traits[index]), set(cloud.aggregates[index])
    if step.test in OF_CAPACITY and group is not None and step.subject is not None:
        return _capacity(cloud, index, step.subject, group.amounts[step.subject])
    if step.test in OF_WANTED_TRAITS and step.subject is not None:
        return {"missing": step.subject.split(ANY_OF)}
    if step.test in OF_UNWANTED_TRAITS:
        unwanted = request.root_forbidden if group is None else group.forbidden
        return {"present": sorted(unwanted & traits)}
    if step.test is Reason.MEMBER_OF:
        return {"member_of": sorted(aggregates)}
    if step.test is Reason.NOT_MEMBER_OF and group is not None:
        return {"member_of": sorted(group.forbidden_aggregates & aggregates)}
    return {}


def _capacity(cloud: Cloud, index: int, name: str, asked: int) -> Example:
    held = next((held for held in cloud.inventories[index] if held[0] == name), None)
    if held is None:
        nothing = dict.fromkeys(("total", "reserved", "used", "allocation_ratio"))
        return {"asked": asked, "free": 0, **nothing}
    _, capacity, used, terms = held
    total, reserved, min_unit, max_unit, step_size, ratio = terms
    shown = {"total": total, "reserved": reserved, "used": used, "allocation_ratio": ratio}
    if _violates_units(asked, terms):
        shown |= {"min_unit": min_unit, "max_unit": max_unit, "step_size": step_size}
    return {"asked": asked, "free": capacity - used, **shown}


def _violates_units(asked: int, terms: Terms) -> bool:
    _, _, min_unit, max_unit, step_size, _ = terms
    return not min_unit <= asked <= max_unit or asked % step_size != 0


# -- one host ----------------------------------------------------------------------------------


def verdict(cloud: Cloud, request: CandidateRequest, provider: int, has_candidate: bool) -> str:
    """Return in one sentence whether the tree of a provider could take a request, and why not."""
    name = cloud.names[provider]
    if has_candidate:
        return f"{name} could take this."
    reasons = list(_reasons(cloud, request, int(cloud.roots[provider])))
    return f"{name} cannot take this: {'; '.join(reasons)}."


def _reasons(cloud: Cloud, request: CandidateRequest, root: int) -> Iterator[str]:
    """Yield each demand that nobody in reach of the root meets, by the tests of the search."""
    traits = set(cloud.traits[root])
    for trait in sorted(request.root_required - traits):
        yield f"trait {trait} is missing on the root provider"
    for trait in sorted(request.root_forbidden & traits):
        yield f"the root provider has trait {trait}, which is not wanted"
    reach = np.zeros(cloud.size, np.bool_)
    reach[cloud.roots == root] = True
    reach[list(cloud.sharing.away(root))] = True
    found = bool((request.root_required - traits) or (request.root_forbidden & traits))
    for group in request.groups:
        for reason in _of_group(cloud, group, root, reach):
            found = True
            yield reason
    if not found:
        yield "it meets each demand by itself, but not all of them together"


def _of_group(cloud: Cloud, group: Group, root: int, reach: Mask) -> Iterator[str]:
    where = f" for group {group.suffix}" if group.suffix else ""
    if group.in_tree is not None:
        tree = feasible.in_tree(cloud, group.in_tree)
        if tree is None or not tree[root]:
            yield f"in_tree{group.suffix} asks for another tree"
    capable = reach
    for name, asked in group.amounts.items():
        fits = reach & feasible.fits(cloud, name, asked)
        capable = capable & fits if group.suffix else capable
        if not fits.any():
            yield _lacking(cloud, name, asked, root, np.flatnonzero(reach)) + where
    for names in group.required:
        if not (reach & feasible.has_any(cloud, names)).any():
            yield f"trait {ANY_OF.join(sorted(names))} is missing on every provider of the tree{where}"
    for trait in sorted(group.forbidden):
        if not (reach & ~cloud.with_trait(trait)).any():
            yield f"every provider of the tree has trait {trait}, which is not wanted{where}"
    for uuids in group.member_of:
        if not (reach & feasible.in_any(cloud, uuids)).any():
            yield f"no provider of the tree is in aggregate {ANY_OF.join(sorted(uuids))}{where}"
    for uuid in sorted(group.forbidden_aggregates):
        if cloud.in_aggregate(uuid)[root]:
            yield f"the root provider is in aggregate {uuid}, which is not wanted{where}"


def _lacking(cloud: Cloud, name: str, asked: int, root: int, reach: Iterable[int]) -> str:
    """Say how much the provider in reach that has most of a class could give of it."""
    best = max(reach, key=lambda index: _free(cloud, int(index), name), default=root)
    held = next((held for held in cloud.inventories[best] if held[0] == name), None)
    if held is None:
        return f"no provider of the tree has {name}"
    place = "the root provider" if best == root else cloud.names[best]
    if held[1] - held[2] >= asked:
        _, _, low, high, step, _ = held[3]
        units = f"min_unit {low}, max_unit {high}, step_size {step}"
        return f"{name} on {place} cannot be given as {asked} ({units})"
    return f"{name} has {max(held[1] - held[2], 0)} free of {asked} asked on {place}"
