"""The whole cloud in a few numbers: what operators draw over time (specification 07 section 6)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np

from placement.search.cloud import Cloud

SAMPLE = 64
"""Members of a container that are measured; the others are taken to be like them."""


@dataclass(slots=True)
class ClassTotals:
    """One resource class over all providers; ``over``: how many have given out more than they have."""

    total: int = 0
    reserved: int = 0
    used: int = 0
    capacity: int = 0
    over: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """``over``: the number of providers that are over capacity for some class."""

    by_class: Mapping[str, ClassTotals]
    providers: int
    trees: int
    over: int


def totals(cloud: Cloud) -> Totals:
    """Add up the cloud. Some 2 ms for a thousand providers."""
    by_class: dict[str, ClassTotals] = {}
    over = 0
    # Hosts are alike: each kind of inventory is added up once, with the number of those that have it.
    for held, number in Counter(cloud.inventories).items():
        is_over = 0
        for name, capacity, used, (total, reserved, *_units) in held:
            sums = by_class.get(name) or by_class.setdefault(name, ClassTotals())
            sums.total += number * total
            sums.reserved += number * reserved
            sums.used += number * used
            sums.capacity += number * capacity
            if used > max(capacity, 0):
                sums.over += number
                is_over = 1
        over += number * is_over
    return Totals(by_class, len(cloud), len(cloud.forest.roots), over)


def memory(cloud: Cloud) -> int:
    """Estimate the bytes that a cloud and what is kept beside it take, from samples."""
    return _bytes(vars(cloud))


def _bytes(value: Any) -> int:
    if isinstance(value, np.ndarray):
        kept = _sampled(value.ravel()[:: max(value.size // SAMPLE, 1)], value.size)
        return value.nbytes + (kept if value.dtype == np.object_ else 0)
    own = sys.getsizeof(value)
    if isinstance(value, Mapping):
        return own + _sampled(chain.from_iterable(islice(value.items(), SAMPLE)), 2 * len(value))
    if isinstance(value, list | tuple | set | frozenset):
        return own + _sampled(_spread(value), len(value))
    names: Any = getattr(value, "__slots__", None) or getattr(value, "__dict__", ())
    return own + sum(_bytes(getattr(value, name, None)) for name in names)


def _spread(members: Collection[Any]) -> Iterable[Any]:
    return islice(members, 0, None, max(len(members) // SAMPLE, 1))


def _sampled(members: Iterable[Any], number: int) -> int:
    sample = list(islice(members, 2 * SAMPLE))
    # What many share is there once.
    distinct = {id(member): member for member in sample}.values()
    return round(sum(map(_bytes, distinct)) / len(sample) * number) if sample else 0
