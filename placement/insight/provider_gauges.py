"""What each provider has, under the names of openstack-exporter (specification 07 section 6)."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from placement.inventory_record import InventoryRecord
from placement.search.cloud import Cloud

CHUNK = 1000
"""Providers in one part of the answer."""


class Family(NamedTuple):
    """A gauge with its value of a record and what is used of it."""

    name: str
    text: str
    value: Callable[[InventoryRecord, int], float]


FAMILIES = (
    Family("total", "The total of an inventory.", lambda record, _: record.total),
    Family("reserved", "What of it is not given out.", lambda record, _: record.reserved),
    Family("usage", "What of it is in use.", lambda _, used: used),
    Family(
        "allocation_ratio", "How often it is given out.", lambda record, _: record.allocation_ratio
    ),
)


def exposition(cloud: Cloud) -> Iterator[bytes]:
    """Yield the gauges of all providers in Prometheus' text format, part by part."""
    for family in FAMILIES:
        name = f"openstack_placement_resource_{family.name}"
        yield f"# HELP {name} {family.text}\n# TYPE {name} gauge\n".encode()
        indexes = iter(range(cloud.size))
        while part := list(islice(indexes, CHUNK)):
            yield "".join(_lines(cloud, name, family.value, part)).encode()


def _lines(
    cloud: Cloud, name: str, value: Callable[[InventoryRecord, int], float], part: list[int]
) -> Iterator[str]:
    for index in part:
        held = cloud.inventories[index]
        if held:
            begin = f'{name}{{hostname="{_escaped(cloud.names[index])}",resourcetype="'
            for resource_class, _, used, terms in held:
                shown = value(InventoryRecord._make(terms), used)
                yield f'{begin}{resource_class}"}} {shown}\n'


def _escaped(name: str) -> str:
    return name.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
