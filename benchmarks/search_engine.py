"""Time the candidate engine alone, in process: python benchmarks/search_engine.py [--hosts N].

Prints one line per case: candidates found, median and slowest of the repetitions in milliseconds.
The cases are the speed table of the documentation and the tree shapes of specification 04 section 6.5.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from placement.search.cloud import Cloud
from placement.search.records import CloudRows
from placement.search.request import CandidateRequest, Group
from placement.search.search import search

CLASSES = {1: "VCPU", 2: "MEMORY_MB", 3: "DISK_GB", 4: "DEVICE", 5: "VF"}
NUMBER = {name: number for number, name in CLASSES.items()}
TRAITS = {n: f"CUSTOM_TRAIT_{n}" for n in range(1, 25)} | {
    100: "MISC_SHARES_VIA_AGGREGATE",
    101: "HW_NUMA_ROOT",
    102: "CUSTOM_NET_0",
    103: "CUSTOM_NET_1",
}
HOST = {"VCPU": (64, 4.0, 20), "MEMORY_MB": (262144, 1.5, 40960), "DISK_GB": (2000, 1.0, 400)}
FLAVOR = {"VCPU": 4, "MEMORY_MB": 8192, "DISK_GB": 40}


class Builder:
    """Collects rows of an invented cloud."""

    def __init__(self) -> None:
        self.providers: list[tuple[int, str, int, int | None, int, str, int, int]] = []
        self.inventories: list[tuple[float, ...]] = []
        self.traits: list[tuple[int, int]] = []
        self.aggregates: list[tuple[int, int]] = []

    def add(
        self,
        inventories: dict[str, tuple[int, float, int]],
        parent: int | None = None,
        traits: Iterator[int] | tuple[int, ...] = (),
        aggregates: tuple[int, ...] = (),
    ) -> int:
        """Add a provider and return its id."""
        number = len(self.providers) + 1
        root = number if parent is None else self.providers[parent - 1][4]
        text = str(uuid.UUID(int=number * 7919))
        self.providers.append((number, text, 1, parent, root, text, 0, 0))
        for name, (total, ratio, used) in inventories.items():
            row = (number, NUMBER[name], total, 0, 1, total, 1, ratio, used)
            self.inventories.append(row)
        self.traits += [(number, trait) for trait in traits]
        self.aggregates += [(number, aggregate) for aggregate in aggregates]
        return number

    def rows(self) -> CloudRows:
        """Return everything as the loader would."""
        names = {number: f"aggregate-{number}" for _, number in self.aggregates}
        return CloudRows(
            self.providers, self.inventories, self.traits, self.aggregates, CLASSES, TRAITS, names
        )


def flat(hosts: int) -> CloudRows:
    """Hosts with three classes and 24 traits each."""
    builder = Builder()
    for host in range(hosts):
        builder.add(HOST, None, tuple(range(1, 25)), (host // 40,))
    return builder.rows()


def devices(hosts: int, children: int, units: int = 1, busy: bool = False) -> CloudRows:
    """Hosts with child devices; busy: a changing part of the devices is taken."""
    builder = Builder()
    for host in range(hosts):
        root = builder.add(HOST, None, tuple(range(1, 25)))
        for child in range(children):
            used = (host * 7 + child * child) % (units + 1) if busy else 0
            builder.add({"DEVICE": (units, 1.0, used)}, root)
    return builder.rows()


def numa(hosts: int, functions: int, pools: int) -> CloudRows:
    """Hosts with two NUMA cells, each with network functions, and shared storage."""
    builder = Builder()
    for pool in range(pools):
        builder.add({"DISK_GB": (10**6, 1.0, 0)}, None, (100,), (pool,))
    for host in range(hosts):
        root = builder.add({}, None, (1, 2, 3), (host % pools,))
        for _ in range(2):
            cell = builder.add(
                {"VCPU": (32, 1.0, host % 8), "MEMORY_MB": (131072, 1.0, 0)}, root, (101,)
            )
            for function in range(functions):
                builder.add({"VF": (1, 1.0, 0)}, cell, (102 + function % 2,))
    return builder.rows()


def flavor(groups: int, isolate: bool, limit: int | None, **rules: object) -> CandidateRequest:
    """The flavor in the unsuffixed group, and granular groups of one device each."""
    asked = [Group("", FLAVOR)] + [Group(f"_{n}", {"DEVICE": 1}) for n in range(groups)]
    return CandidateRequest(tuple(asked), isolate=isolate, limit=limit, **rules)  # type: ignore[arg-type]


def only_devices(groups: int, limit: int | None) -> CandidateRequest:
    asked = [Group(f"_{n}", {"DEVICE": 1}) for n in range(groups)]
    return CandidateRequest(tuple(asked), isolate=False, limit=limit)


def numa_request(limit: int) -> CandidateRequest:
    """Two cells, a port under each, and a disk from the pool."""
    net = [(frozenset([f"CUSTOM_NET_{n}"]),) for n in range(2)]
    asked = [
        Group("", {"DISK_GB": 40}),
        Group("_N0", {"VCPU": 2, "MEMORY_MB": 1024}, (frozenset(["HW_NUMA_ROOT"]),)),
        Group("_N1", {"VCPU": 4, "MEMORY_MB": 2048}, (frozenset(["HW_NUMA_ROOT"]),)),
        Group("_P0", {"VF": 1}, net[0]),
        Group("_P1", {"VF": 1}, net[1]),
    ]
    trees = (frozenset(["_N0", "_P0"]), frozenset(["_N1", "_P1"]))
    return CandidateRequest(tuple(asked), isolate=True, same_subtrees=trees, limit=limit)


@dataclass(frozen=True)
class Case:
    cloud: str
    rows: Callable[[], CloudRows]
    requests: tuple[tuple[str, CandidateRequest], ...]


def cases(hosts: int) -> list[Case]:
    three = {"three classes": CandidateRequest((Group("", FLAVOR),), limit=1000)}
    three["3 traits, limit=1000"] = CandidateRequest(
        (Group("", FLAVOR, tuple(frozenset([TRAITS[n]]) for n in (1, 2, 3))),), limit=1000
    )
    limits = {
        f"limit={limit}": CandidateRequest((Group("", FLAVOR),), limit=limit)
        for limit in (10, None)
    }
    random = {"limit=1000, random": CandidateRequest((Group("", FLAVOR),), limit=1000, seed=7)}
    four = {
        "flavor only, limit=1000": flavor(0, False, 1000),
        "4 groups, isolate, limit=1000": flavor(4, True, 1000),
        "4 groups, none, limit=1000": flavor(4, False, 1000),
        "6 groups, isolate, limit=1000": flavor(6, True, 1000),
        "4 groups, isolate, limit=1000, random": flavor(4, True, 1000, seed=7),
        "4 groups, bound 100000 depth, limit=1000": flavor(4, True, 1000, maximum=100000),
    }
    eight = {
        "4 groups, limit=1000": only_devices(4, 1000),
        "8 groups, limit=1000": only_devices(8, 1000),
        "8 groups, all 40320": only_devices(8, None),
        "9 groups (none)": only_devices(9, 1000),
    }
    wide = {"64 groups, limit=10": only_devices(64, 10), "65 groups (none)": only_devices(65, 10)}
    return [
        Case(f"{hosts} hosts", lambda: flat(hosts), tuple((three | limits | random).items())),
        Case("50000 hosts", lambda: flat(50_000), tuple((three | limits).items())),
        Case("100000 hosts", lambda: flat(100_000), tuple((three | limits).items())),
        Case("1000 hosts x 16", lambda: devices(1000, 16), tuple(four.items())),
        Case("1000 busy hosts x 16", lambda: devices(1000, 16, 1, True), tuple(four.items())),
        Case("1000 busy hosts x 16 of 8", lambda: devices(1000, 16, 8, True), tuple(four.items())),
        Case(
            "500 x 2 NUMA x 8, 5 pools",
            lambda: numa(500, 8, 5),
            (("same_subtree, limit=1000", numa_request(1000)),),
        ),
        Case("1 host x 8", lambda: devices(1, 8), tuple(eight.items())),
        Case(
            "1 host x 16",
            lambda: devices(1, 16),
            (("6 groups, limit=1000", flavor(6, True, 1000)),),
        ),
        Case("1 host x 64", lambda: devices(1, 64), tuple(wide.items())),
    ]


def times(cloud: Cloud, request: CandidateRequest, repeat: int) -> tuple[int, list[float]]:
    """Return the number of candidates and the milliseconds of each repetition."""
    taken = []
    for _ in range(repeat):
        began = time.perf_counter()
        result = search(cloud, request)
        taken.append((time.perf_counter() - began) * 1000)
        assert result.complete
    return len(result), taken


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument("--only", default="", help="part of a cloud's name")
    options = parser.parse_args()
    print(f"{'cloud':28}{'request':44}{'found':>7}{'median ms':>11}{'slowest':>9}")
    for case in cases(options.hosts):
        if options.only not in case.cloud:
            continue
        rows = case.rows()
        began = time.perf_counter()
        cloud = Cloud.load(rows)
        loaded = (time.perf_counter() - began) * 1000
        del rows
        gc.collect()
        print(f"{case.cloud:28}{'(load)':44}{len(cloud):>7}{loaded:>11.1f}")
        for name, request in case.requests:
            search(cloud, request)
            found, taken = times(cloud, request, options.repeat)
            print(f"{'':28}{name:44}{found:>7}{statistics.median(taken):>11.2f}{max(taken):>9.2f}")


if __name__ == "__main__":
    main()
