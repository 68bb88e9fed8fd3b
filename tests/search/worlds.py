"""Random small clouds and questions that bite each other.

Everything is drawn from a ``random.Random``. ``seeds(n)`` runs a test on n seeds in CI; a run by hand takes a
third. PLACEMENT_EXAMPLES=100000 raises the number of seeds per property to that. The seeds follow from
the seed of the run (``tests/support/effort.py``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from placement.inventory_record import InventoryRecord
from placement.search.records import ProviderRecord, UsedInventory
from placement.search.request import CandidateRequest, Group
from tests.support.effort import drawn_by_run, examples

Property = Callable[[Random], None]
EXAMPLES = int(os.environ.get("PLACEMENT_EXAMPLES", "0"))

CLASSES = ("VCPU", "DISK_GB", "VF")
TRAITS = ("T1", "T2", "T3")
AGGREGATES = ("a1", "a2", "a3")
SUFFIXES = ("_A", "_B", "_C", "_D")
SHARES = "MISC_SHARES_VIA_AGGREGATE"


def seeds(count: int, *fixed: int) -> Callable[[Property], Callable[[], None]]:
    """Run the test, which takes a ``Random``, on many seeds and some fixed; the failing one is reported.

    :param fixed: seeds that have failed once.
    """

    def decorate(test: Property) -> Callable[[], None]:
        def on_seed() -> None:
            draw = drawn_by_run(f"{test.__module__}.{test.__qualname__}")
            for seed in (*fixed, *(draw.getrandbits(63) for _ in range(EXAMPLES or examples(count)))):
                try:
                    test(Random(seed))
                except Exception as failure:
                    failure.add_note(f"seed {seed}")
                    raise

        on_seed.__name__ = test.__name__
        on_seed.__doc__ = test.__doc__
        return on_seed

    return decorate


def one_in(random: Random, n: int) -> bool:
    """Return true once in n times."""
    return random.randrange(n) == n - 1


def some(random: Random, names: Sequence[str], most: int) -> frozenset[str]:
    return frozenset(random.choice(names) for _ in range(random.randint(0, most)))


def stock(total: int, used: int = 0, **terms: Any) -> UsedInventory:
    """An inventory of this total, without reserves and limits but for what is given."""
    return UsedInventory(InventoryRecord(total, **terms), used)


def inventory(random: Random) -> UsedInventory:
    """A small record, odd in at most one way."""
    total = random.randint(1, 8)
    odd = random.randrange(10)
    low, high = (random.randint(1, 2), total) if odd == 5 else (1, 2**31 - 1)
    return stock(
        total=total,
        reserved=random.randint(0, total) if odd == 4 else 0,
        min_unit=low,
        max_unit=random.randint(1, total) if odd == 6 else high,
        step_size=random.randint(1, 3) if odd == 7 else 1,
        allocation_ratio=random.choice([0.5, 1.5, 2.0, 0.3]) if odd == 8 else 1.0,
        used=random.randint(0, total + 2) if odd == 9 else 0,
    )


def cloud(random: Random, most: int = 10) -> list[ProviderRecord]:
    """Records of a few trees; parents before children, ids not dense."""
    records: list[ProviderRecord] = []
    roots = random.randint(1, 4)
    for number in range(random.randint(min(4, most), most)):
        parent = None
        if records and random.randrange(roots + 6) >= roots:
            parent = records[-1] if one_in(random, 3) else random.choice(records)
        provider_id = number * 3 + 2
        shares = one_in(random, 4)
        held = random.sample(CLASSES, random.choice([0, 1, 2, 3, 3]))
        records.append(
            ProviderRecord(
                provider_id,
                f"u{provider_id}-{random.randrange(1000)}",
                random.randint(1, 9),
                parent.provider_id if parent else None,
                parent.root_id if parent else provider_id,
                {name: inventory(random) for name in held},
                some(random, TRAITS, 2) | (frozenset([SHARES]) if shares else frozenset()),
                some(random, AGGREGATES, 2),
                random.choice("nopq"),
                random.randrange(4),
                random.randrange(4),
            )
        )
    return records


def group(random: Random, suffix: str, uuids: list[str], may_lack: bool) -> Group:
    """A group that rarely demands much: an empty answer tests little."""
    count = random.randint(0 if may_lack else 1, 2)
    amounts = {name: random.choice([1, 1, 1, 1, 2, 3]) for name in random.sample(CLASSES, count)}
    demand = random.randrange(12)
    traits = (*TRAITS, SHARES)
    wants_traits = demand == 0 or not amounts
    any_of = [some(random, traits, 1) | {random.choice(TRAITS)} for _ in range(2)]
    in_some = [some(random, AGGREGATES, 1) | {random.choice(AGGREGATES)} for _ in range(2)]
    return Group(
        suffix,
        amounts,
        tuple(any_of[: random.randint(0, 2)]) if wants_traits else (),
        some(random, traits, 1) if demand == 1 else frozenset(),
        tuple(in_some[: random.randint(0, 2)]) if demand == 2 else (),
        some(random, AGGREGATES, 1) if demand == 3 else frozenset(),
        random.choice(uuids) if one_in(random, 15) else None,
    )


def request(
    random: Random, records: list[ProviderRecord], most_groups: int = 3, options: bool = True
) -> CandidateRequest:
    """A question for this cloud; with ``options`` also limits, bounds, seeds and starts."""
    uuids = [*(r.uuid for r in records), "nobody"]
    suffixes = list(SUFFIXES[: random.randint(0, most_groups)])
    ties = [some(random, suffixes, 3) for _ in range(random.randrange(3))] if suffixes else []
    ties = [names for names in ties if names]
    named = frozenset().union(*ties)
    asked = [group(random, suffix, uuids, suffix in named) for suffix in suffixes]
    if not suffixes or one_in(random, 2):
        asked.insert(random.randint(0, len(asked)), group(random, "", uuids, False))
    rules: dict[str, Any] = {}
    if options:
        rules = {
            "limit": random.choice([None, random.randint(1, 12)]),
            "maximum": random.choice([-1, -1, 0, 1, 2, 5, 20]),
            "strategy": random.choice(["depth-first", "breadth-first"]),
            "seed": random.choice([None, random.randrange(4)]),
            "start": random.choice([None, random.getrandbits(64)]),
        }
    return CandidateRequest(
        tuple(asked),
        isolate=one_in(random, 2),
        same_subtrees=tuple(ties),
        root_required=some(random, TRAITS, 1) if one_in(random, 12) else frozenset(),
        root_forbidden=some(random, TRAITS, 1) if one_in(random, 12) else frozenset(),
        one_provider_per_tree=one_in(random, 5),
        **rules,
    )


def question(
    random: Random, options: bool = True, most: int = 10, most_groups: int = 3
) -> tuple[list[ProviderRecord], CandidateRequest]:
    """A cloud and a request for it."""
    records = cloud(random, most)
    return records, request(random, records, most_groups, options)


def device_hosts(random: Random) -> tuple[list[ProviderRecord], CandidateRequest]:
    """One or two hosts with like devices and several granular groups: where combining is hard."""
    records: list[ProviderRecord] = []

    def add(
        parent: ProviderRecord | None, amounts: dict[str, int], traits: Iterable[str] = ()
    ) -> ProviderRecord:
        number = len(records) + 1
        held = {name: stock(total) for name, total in amounts.items() if total}
        above, root = (parent.provider_id, parent.root_id) if parent else (None, number)
        wears = frozenset(traits)
        records.append(ProviderRecord(number, f"u{number}", 1, above, root, held, wears))
        return records[-1]

    for _ in range(random.randint(1, 2)):
        root = add(None, {"VCPU": random.randint(0, 3)})
        for _ in range(random.randint(1, 2)):
            cell = add(root, {"VCPU": random.randint(0, 3)}, ["T3"])
            for _ in range(random.randint(0, 3)):
                amounts = {"VF": random.randint(0, 4), "DISK_GB": random.randint(0, 4)}
                add(cell, amounts, some(random, TRAITS[:2], 1))
    asked = []
    for suffix in SUFFIXES[: random.randint(2, 4)]:
        wanted = {"VF": random.randint(1, 2), "DISK_GB": random.randint(0, 2)}
        traits = [frozenset([t]) for t in some(random, TRAITS[:2], 1)] if one_in(random, 3) else []
        asked.append(Group(suffix, {c: n for c, n in wanted.items() if n}, tuple(traits)))
    if one_in(random, 2):
        asked.append(Group("", {"VCPU": 1, "VF": 1}))
    ties: tuple[frozenset[str], ...] = ()
    if one_in(random, 3):
        asked.append(Group("_N", {}, (frozenset(["T3"]),)))
        ties = (frozenset(["_N", "_A", "_B"][: random.randint(2, 3)]),)
    per_tree = one_in(random, 4)
    return records, CandidateRequest(
        tuple(asked),
        isolate=one_in(random, 2),
        same_subtrees=ties,
        one_provider_per_tree=per_tree,
    )
