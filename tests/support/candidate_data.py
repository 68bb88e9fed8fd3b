"""Clouds to search, loaded through the API, and one that shows every window of the search."""

from typing import Any

from tests.support.service import Service
from tests.support.world import World

EAST = "aaaaaaaa-0000-4000-8000-000000000001"
WEST = "aaaaaaaa-0000-4000-8000-000000000002"
HOST = "11111111-0000-4000-8000-000000000000"
DISKLESS = "22222222-0000-4000-8000-000000000000"
POOL = "33333333-0000-4000-8000-000000000000"
MACHINE = "44444444-0000-4000-8000-000000000000"
CELLS = (f"{MACHINE[:-1]}1", f"{MACHINE[:-1]}2")
CARDS = (f"{MACHINE[:-2]}11", f"{MACHINE[:-2]}22")


def provider(
    name: str,
    provider_uuid: str,
    inventories: dict[str, Any],
    *,
    parent: str | None = None,
    traits: tuple[str, ...] = (),
    aggregates: tuple[str, ...] = (),
    used: dict[str, int] | None = None,
) -> dict[str, Any]:
    """Return a provider in the form of tests/search/data/examples.json; inventories are totals."""
    return {
        "name": name,
        "uuid": provider_uuid,
        "parent": parent,
        "inventories": {known: {"total": total} for known, total in inventories.items()},
        "traits": list(traits),
        "aggregates": list(aggregates),
        "used": used or {},
    }


WINDOWS: dict[str, Any] = {
    "traits": ["CUSTOM_FAST"],
    "classes": [],
    "providers": [
        provider(
            "host",
            HOST,
            {"VCPU": 4, "MEMORY_MB": 4096, "DISK_GB": 200},
            traits=("STORAGE_DISK_SSD",),
            aggregates=(EAST,),
            used={"DISK_GB": 20},
        ),
        provider(
            "diskless",
            DISKLESS,
            {"VCPU": 8, "MEMORY_MB": 4096},
            traits=("HW_CPU_X86_AVX2", "CUSTOM_FAST"),
            aggregates=(WEST,),
        ),
        provider(
            "pool",
            POOL,
            {"DISK_GB": 1000},
            traits=("MISC_SHARES_VIA_AGGREGATE",),
            aggregates=(WEST,),
        ),
        provider("machine", MACHINE, {"MEMORY_MB": 8192}, traits=("CUSTOM_FAST",)),
        provider("cell0", CELLS[0], {"PCPU": 2}, parent=MACHINE, traits=("HW_NUMA_ROOT",)),
        provider("cell1", CELLS[1], {"PCPU": 4}, parent=MACHINE, traits=("HW_NUMA_ROOT",)),
        provider("card0", CARDS[0], {"FPGA": 1}, parent=CELLS[0]),
        provider("card1", CARDS[1], {"FPGA": 1}, parent=CELLS[1]),
    ],
}
"""A host with a disk, one that reaches a shared pool, and a machine with two cells and two cards."""


def load(service: Service, cloud: dict[str, Any]) -> None:
    """Add the traits, classes and providers of a cloud with what they hold and what is used."""
    world = World(service)
    for trait in cloud["traits"]:
        world.call("PUT", f"/traits/{trait}")
    for name in cloud["classes"]:
        world.call("PUT", f"/resource_classes/{name}")
    for wanted in cloud["providers"]:
        key = wanted["uuid"]
        world.provider(
            wanted["name"], wanted["parent"], None, wanted["traits"], wanted["aggregates"], key
        )
        if wanted["used"]:
            world.set_inventory(key, dict.fromkeys(wanted["used"], 10**6))
            world.claim({key: wanted["used"]})
        world.set_inventory(key, wanted["inventories"])


def fine(answer: Any) -> Any:
    """Return an answer that is a success."""
    assert answer.status_int < 300, answer.text
    return answer
