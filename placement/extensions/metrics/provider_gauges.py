"""The inventories and usage of each provider, under the names of openstack-exporter (07 section 6)."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from placement import errors
from placement.extensions.metrics.metric_lines import escape, write_head
from placement.inventory_record import InventoryRecord
from placement.objects.picture import Picture
from placement.search.cloud import Cloud

CHUNK = 1000
"""The number of providers in one part of the answer."""

PREFIX = "openstack_placement_"
TRAIT = "placement_provider_trait_info"


class Family(NamedTuple):
    """A gauge, computed from a record and its usage.

    :param has_uuid: whether the provider's uuid is a label too.
    """

    name: str
    text: str
    value: Callable[[InventoryRecord, int], float]
    has_uuid: bool = False


FAMILIES = (
    Family("total", "The total of an inventory.", lambda record, _: record.total),
    Family("reserved", "The reserved amount.", lambda record, _: record.reserved),
    Family("usage", "The used amount.", lambda _, used: used),
    Family("allocation_ratio", "The allocation ratio.", lambda record, _: record.allocation_ratio),
    Family("provider_allocations", "The sum of its allocations.", lambda _, used: used, True),
)


def write_gauges(picture: Picture) -> Iterator[bytes]:
    """Return the gauges of all providers in Prometheus' text format, part by part."""
    try:
        cloud = picture.copy_cloud()
    except errors.Unavailable:
        return iter([_show_up(0)])
    return _write_cloud(cloud)


def _show_up(value: int) -> bytes:
    """Return the gauge that the exporter's dashboards read first: 1 if the cloud could be read, or 0."""
    head = write_head(f"{PREFIX}up", "Whether the cloud could be read.")
    return f"{head}{PREFIX}up {value}\n".encode()


def _write_cloud(cloud: Cloud) -> Iterator[bytes]:
    yield _show_up(1)
    for family in FAMILIES:
        yield write_head(f"{PREFIX}resource_{family.name}", family.text).encode()
        yield from _write_parts(cloud, partial(_write_inventories, cloud, family))
    yield write_head(f"{PREFIX}resource_generation", "The generation of a provider.").encode()
    yield from _write_parts(cloud, partial(_write_generation, cloud))
    yield write_head(TRAIT, "A trait that a provider has.").encode()
    yield from _write_parts(cloud, partial(_write_traits, cloud))


def _write_parts(cloud: Cloud, lines: Callable[[int], Iterator[str]]) -> Iterator[bytes]:
    indexes = iter(range(cloud.size))
    while part := list(islice(indexes, CHUNK)):
        yield "".join([line for index in part for line in lines(index)]).encode()


def _write_inventories(cloud: Cloud, family: Family, index: int) -> Iterator[str]:
    held = cloud.inventories[index]
    if held:
        uuid = f'uuid="{cloud.uuids[index]}",' if family.has_uuid else ""
        begin = (
            f'{PREFIX}resource_{family.name}{{hostname="{escape(cloud.names[index])}",{uuid}'
            'resourcetype="'
        )
        for resource_class, _, used, terms in held:
            shown = family.value(InventoryRecord._make(terms), used)
            yield f'{begin}{resource_class}"}} {shown}\n'


def _write_generation(cloud: Cloud, index: int) -> Iterator[str]:
    if uuid := cloud.uuids[index]:
        labels = f'hostname="{escape(cloud.names[index])}",uuid="{uuid}"'
        yield f"{PREFIX}resource_generation{{{labels}}} {cloud.generations[index]}\n"


def _write_traits(cloud: Cloud, index: int) -> Iterator[str]:
    name = escape(cloud.names[index])
    for trait in cloud.traits[index]:
        yield f'{TRAIT}{{hostname="{name}",trait="{trait}"}} 1\n'
