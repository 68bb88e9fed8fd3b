"""The cloud in gauges, from the picture (specification 07 section 6)."""

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import GaugeMetricFamily

from placement import errors
from placement.objects.picture import Picture
from placement.search.cloud import Cloud
from placement.search.totals import Totals, memory, totals

LOG = logging.getLogger(__name__)

FRESH_S = 15.0
PATIENCE_S = 60.0
"""How long the cloud is left out after the database did not answer: whoever reads the metrics must have
the others, and asking may take as long as a request waits for the database."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What there is to show; ``memory`` None where it was not measured anew."""

    families: list[GaugeMetricFamily]
    memory: int | None


NOTHING = Shown([], None)


class CloudGauges:
    """The cloud as of at most 15 seconds ago."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next_s = 0.0
        self._shown = NOTHING

    def of(self, picture: Picture) -> Shown:
        """Return the gauges; who comes while they are being made gets those before.

        Cost, once in 15 s: that of reading the picture, and some milliseconds for a thousand providers.
        """
        if self._lock.acquire(blocking=False):
            try:
                if time.monotonic() >= self._next_s:
                    self._shown, lasts_s = _made(picture)
                    self._next_s = time.monotonic() + lasts_s
            finally:
                self._lock.release()
        return self._shown


def _made(picture: Picture) -> tuple[Shown, float]:
    try:
        # Added up on a snapshot, so that searches do not wait for it.
        cloud = picture.read(Cloud.snapshot)
    except errors.Unavailable as error:
        LOG.warning("Metrics without the cloud for %.0f s: %s", PATIENCE_S, error)
        return NOTHING, PATIENCE_S
    return Shown(_families(totals(cloud)), memory(cloud)), FRESH_S


def _families(sums: Totals) -> list[GaugeMetricFamily]:
    single = [
        _gauge("placement_providers", "Resource providers.", sums.providers),
        _gauge("placement_trees", "Trees of resource providers.", sums.trees),
        _gauge(
            "placement_providers_over_capacity",
            "Resource providers that have given out more than they have.",
            sums.over,
        ),
    ]
    by_class = {
        "total": "Amounts of inventories.",
        "reserved": "Amounts of inventories that are not given out.",
        "used": "Amounts in use.",
        "capacity": "(total - reserved) * allocation_ratio of each inventory.",
    }
    for field, text in by_class.items():
        single.append(_by_class(f"placement_inventory_{field}", text, sums, field))
    text = "Resource providers that have given out more of the class than they have."
    single.append(_by_class("placement_inventory_over_capacity", text, sums, "over"))
    return single


def _gauge(name: str, text: str, value: int) -> Any:
    return GaugeMetricFamily(name, text, value=value)


def _by_class(name: str, text: str, sums: Totals, field: str) -> Any:
    family = GaugeMetricFamily(name, text, labels=["resource_class"])
    for resource_class, amounts in sorted(sums.by_class.items()):
        family.add_metric([resource_class], getattr(amounts, field))
    return family
