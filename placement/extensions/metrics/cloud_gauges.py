"""Gauges of the cloud, computed from the picture (specification 07 section 6)."""

import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from itertools import chain, islice
from typing import Any

import numpy as np
from prometheus_client.core import GaugeMetricFamily

from placement import errors
from placement.inventory_record import InventoryRecord
from placement.objects.picture import Picture
from placement.search.cloud import Cloud

LOG = logging.getLogger(__name__)

FRESH_S = 15.0
PATIENCE_S = 60.0
"""How long the cloud is left out after the database did not answer: the other metrics must be served in
time, and each attempt can take as long as a request waits for the database.
"""


@dataclass(frozen=True, slots=True)
class CloudFigures:
    """Gauges of the cloud; ``memory`` is None if the picture could not be read."""

    families: list[GaugeMetricFamily]
    memory: int | None


NOTHING = CloudFigures([], None)


class CloudGauges:
    """Gauges that are at most 15 seconds old."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next_s = 0.0
        self._shown = NOTHING

    def read(self, picture: Picture) -> CloudFigures:
        """Return the gauges; while one thread makes new gauges, the others get the old ones."""
        if self._lock.acquire(blocking=False):
            try:
                if time.monotonic() >= self._next_s:
                    self._shown, lasts_s = _make(picture)
                    self._next_s = time.monotonic() + lasts_s
            finally:
                self._lock.release()
        return self._shown


def _make(picture: Picture) -> tuple[CloudFigures, float]:
    try:
        # A snapshot is added up, so that the picture can be refreshed meanwhile without a copy.
        cloud = picture.copy_cloud()
        since = picture.shared_since()
    except errors.Unavailable as error:
        LOG.warning("Metrics without the cloud for %.0f s: %s", PATIENCE_S, error)
        return NOTHING, PATIENCE_S
    shared_since = GaugeMetricFamily(
        "placement_shared_since_timestamp_seconds",
        "Since when the OpenStack service may write to the database too, 0 if it may not.",
        value=since.replace(tzinfo=UTC).timestamp() if since else 0,
    )
    families = [*_make_families(cloud), shared_since]
    return CloudFigures(families, _estimate_bytes(vars(cloud))), FRESH_S


# -- added up ------------------------------------------------------------------------------------


def _add_up(cloud: Cloud) -> tuple[dict[str, Counter[str]], int]:
    """Add up the cloud by class, and count the providers that are over capacity."""
    by_class: dict[str, Counter[str]] = {}
    over = 0
    # Many hosts have equal inventories, so each set is added up once, times the number of its hosts.
    for held, number in Counter(cloud.inventories).items():
        is_over = 0
        for name, capacity, used, terms in held:
            record = InventoryRecord._make(terms)
            sums = by_class.setdefault(name, Counter())
            sums["total"] += number * record.total
            sums["reserved"] += number * record.reserved
            sums["used"] += number * used
            sums["capacity"] += number * capacity
            if used > max(capacity, 0):
                sums["over_capacity"] += number
                is_over = 1
        over += number * is_over
    return by_class, over


def _make_families(cloud: Cloud) -> list[GaugeMetricFamily]:
    by_class, over = _add_up(cloud)
    gauges = {
        "providers": ("Resource providers.", len(cloud)),
        "trees": ("Trees of resource providers.", len(cloud.forest.roots)),
        "providers_over_capacity": (
            "Resource providers that have given out more than they have.",
            over,
        ),
    }
    families = [
        GaugeMetricFamily(f"placement_{name}", text, value=value)
        for name, (text, value) in gauges.items()
    ]
    for name, (amount, text) in BY_CLASS.items():
        family = GaugeMetricFamily(f"placement_inventory_{name}", text, labels=["resource_class"])
        for resource_class, sums in sorted(by_class.items()):
            family.add_metric([resource_class], sums[amount])
        families.append(family)
    return families


BY_CLASS = {
    # Names that end in "_total" are reserved for counters.
    "amount": ("total", "Amounts of inventories."),
    "reserved": ("reserved", "Amounts of inventories that are not given out."),
    "used": ("used", "Amounts in use."),
    "capacity": ("capacity", "(total - reserved) * allocation_ratio of each inventory."),
    "over_capacity": (
        "over_capacity",
        "Resource providers that have given out more of the class than they have.",
    ),
}
"""The sum that a gauge shows, and its text, by the end of its name."""


# -- memory --------------------------------------------------------------------------------------

SAMPLE = 64
"""The number of members of a container that are measured; the others are assumed to be alike."""


def _estimate_bytes(value: Any) -> int:
    """Estimate the bytes of a value and everything in it from samples."""
    if isinstance(value, np.ndarray):
        kept = _estimate_members(value.ravel()[:: max(value.size // SAMPLE, 1)], value.size)
        return value.nbytes + (kept if value.dtype == np.object_ else 0)
    own = sys.getsizeof(value)
    if isinstance(value, Mapping):
        return own + _estimate_members(chain.from_iterable(islice(value.items(), SAMPLE)), 2 * len(value))
    if isinstance(value, list | tuple | set | frozenset):
        step = max(len(value) // SAMPLE, 1)
        return own + _estimate_members(islice(value, 0, None, step), len(value))
    names: Any = getattr(value, "__slots__", None) or getattr(value, "__dict__", ())
    return own + sum(_estimate_bytes(getattr(value, name, None)) for name in names)


def _estimate_members(members: Iterable[Any], number: int) -> int:
    sample = list(islice(members, 2 * SAMPLE))
    # An object that several members share is counted once.
    distinct = {id(member): member for member in sample}.values()
    return round(sum(map(_estimate_bytes, distinct)) / len(sample) * number) if sample else 0
