"""The obstacles at providers: examples for the steps of a search, and one host's verdict (07 section 2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from placement.inventory_record import InventoryRecord
from placement.search.cloud import Cloud
from placement.search.filters import (
    BY_REASON,
    ROOT_FILTERS,
    Scope,
    conditions,
    fits,
    list_group_conditions,
    words,
)
from placement.search.index_set import Indexes, Mask
from placement.search.request import CandidateRequest, Group
from placement.search.tally import Reason, Step, Unit

Example = dict[str, Any]

UNITS = ("min_unit", "max_unit", "step_size")
OF_CAPACITY = frozenset({Reason.CAPACITY, Reason.ALL_CLASSES})


def examples(cloud: Cloud, request: CandidateRequest, step: Step, most: int) -> list[Example]:
    """Return up to ``most`` providers or roots that a step of an explained search removed, closest first."""
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

    Equal ones are ordered by name, or, if room decides, by age, since the order in memory is the database's.
    """
    if step.test in OF_CAPACITY and step.subject in cloud.classes:
        room = cloud.room(step.subject)[removed]
        closest = np.lexsort((cloud.ids[removed], -room.astype(np.int64)))
        order: list[int] = removed[closest].tolist()
        enough = int(np.count_nonzero(room > 0))
        # The providers without room that have inventory come first.
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
"""The free amount of a class without inventory: below any real amount."""


def _free(cloud: Cloud, index: int, name: str) -> int:
    held = cloud.find_held(index, name)
    return LACKING if held is None else held[1] - held[2]


def _in_the_way(
    cloud: Cloud, request: CandidateRequest, group: Group | None, step: Step, index: int
) -> Example:
    if step.test in OF_CAPACITY and group is not None and step.subject is not None:
        return _capacity(cloud, index, step.subject, group.amounts[step.subject])
    if step.test is Reason.AVOIDED:
        return {"present": sorted(request.avoid.intersection(cloud.traits[cloud.roots[index]]))}
    if step.test not in BY_REASON:
        return {}
    asked_by = BY_REASON[step.test]
    asked = frozenset().union(*asked_by.asked(request if group is None else group))
    held = frozenset(asked_by.attribute.names(cloud, index))
    return asked_by.example(step.subject or "", asked, held)


def _capacity(cloud: Cloud, index: int, name: str, asked: int) -> Example:
    held = cloud.find_held(index, name)
    if held is None:
        nothing = dict.fromkeys(("total", "reserved", "used", "allocation_ratio"))
        return {"asked": asked, "free": 0, **nothing}
    _, capacity, used, terms = held
    record = InventoryRecord._make(terms)
    shown = {
        "total": record.total,
        "reserved": record.reserved,
        "used": used,
        "allocation_ratio": record.allocation_ratio,
    }
    if not record.admits(asked):
        shown |= {name: getattr(record, name) for name in UNITS}
    return {"asked": asked, "free": capacity - used, **shown}


# -- one host ----------------------------------------------------------------------------------


def verdict(
    cloud: Cloud, request: CandidateRequest, provider: int, has_candidate: bool | None
) -> str:
    """Return in one sentence whether the tree of a provider could take a request, and why not.

    :param has_candidate: None if the search ended before that was known.
    """
    name = cloud.names[provider]
    if has_candidate is None:
        return f"It is not known whether {name} could take this: the search reached a bound of its work."
    if has_candidate:
        return f"{name} could take this."
    reasons = "; ".join(_reasons(cloud, request, int(cloud.roots[provider])))
    together = "it meets each demand by itself, but not all of them together"
    return f"{name} cannot take this: {reasons or together}."


def _reasons(cloud: Cloud, request: CandidateRequest, root: int) -> Iterator[str]:
    """Yield each demand that no provider in reach of the root meets, by the tests of the search."""
    reach = np.zeros(cloud.size, np.bool_)
    reach[cloud.roots == root] = True
    reach[list(cloud.sharing.away(root))] = True
    for each, names in conditions(ROOT_FILTERS, request):
        if not each.test(cloud, names)[root]:
            yield each.unmet.format(names=words(names))
    for group in request.groups:
        yield from _of_group(cloud, group, root, reach)


def _of_group(cloud: Cloud, group: Group, root: int, reach: Mask) -> Iterator[str]:
    where = f" for group {group.suffix}" if group.suffix else ""
    of_tree: list[str] = []
    others: list[str] = []
    for each, names in list_group_conditions(group):
        met = each.test(cloud, names)
        # The root itself must meet some conditions; other providers of the tree do not help.
        by_root = each.scope in (Scope.TREE, Scope.EACH_AND_ROOT)
        if not (met[root] if by_root else (reach & met).any()):
            said = each.unmet.format(names=words(names), suffix=group.suffix, where=where)
            (of_tree if each.scope is Scope.TREE else others).append(said)
    yield from of_tree
    for name, asked in group.amounts.items():
        if not (reach & fits(cloud, name, asked)).any():
            yield _lacking(cloud, name, asked, root, np.flatnonzero(reach)) + where
    yield from others


def _lacking(cloud: Cloud, name: str, asked: int, root: int, reach: Iterable[int]) -> str:
    """Return a sentence on how much of a class the best provider in reach could give."""
    best = max(reach, key=lambda index: _free(cloud, int(index), name), default=root)
    held = cloud.find_held(best, name)
    if held is None:
        return f"no provider of the tree has {name}"
    place = "the root provider" if best == root else cloud.names[best]
    if held[1] - held[2] >= asked:
        record = InventoryRecord._make(held[3])
        units = ", ".join(f"{name} {getattr(record, name)}" for name in UNITS)
        return f"{name} on {place} cannot be given as {asked} ({units})"
    return f"{name} has {max(held[1] - held[2], 0)} free of {asked} asked on {place}"
