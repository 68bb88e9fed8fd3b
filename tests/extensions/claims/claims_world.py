"""The small cloud of the machine of claims, and what its requests are drawn from."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tests.search.oracle import SHARES

HOSTS = tuple(f"{n}0000000-0000-4000-8000-000000000000" for n in range(1, 7))
ONE, TWO, THREE, CELL, POOL, LATE = HOSTS
RACKS = tuple(f"aaaaaaa{n}-0000-4000-8000-000000000000" for n in range(1, 4))
CONSUMERS = tuple(f"cccccccc-0000-4000-8000-00000000000{n}" for n in range(1, 8))
NAMES = ("web", "Web", "a/b ö")
TRAIT, OTHER = "HW_CPU_X86_AVX2", "COMPUTE_NODE"

CLOUD: Mapping[str, Mapping[str, Any]] = {
    ONE: {"inventory": {"VCPU": 4, "MEMORY_MB": 8}, "aggregates": [RACKS[0]], "traits": [TRAIT]},
    TWO: {"inventory": {"VCPU": 4, "DISK_GB": 2}, "aggregates": [RACKS[0], RACKS[1]]},
    THREE: {
        "inventory": {"VCPU": 4, "MEMORY_MB": 8},
        "aggregates": [RACKS[1]],
        "traits": [TRAIT, OTHER],
    },
    CELL: {"parent": ONE, "inventory": {"VCPU": 2, "DISK_GB": 3}, "aggregates": [RACKS[2]]},
    POOL: {"inventory": {"DISK_GB": 4}, "aggregates": [RACKS[0]], "traits": [SHARES]},
}
QUERIES = (
    "resources=VCPU:1",
    "resources=VCPU:1",
    "resources=VCPU:2",
    "resources=VCPU:2",
    "resources=VCPU:3",
    "resources=VCPU:1,MEMORY_MB:2",
    "resources=VCPU:1,DISK_GB:1",
    "resources=DISK_GB:1",
    "resources=DISK_GB:2",
    f"resources=VCPU:1&required={TRAIT}",
    f"resources=VCPU:1&required=!{TRAIT}",
    f"resources=VCPU:1&required=in:{TRAIT},{OTHER}&root_required=!{OTHER}",
    f"resources=VCPU:1&member_of={RACKS[0]}",
    f"resources=VCPU:1&member_of=!in:{RACKS[1]},{RACKS[2]}",
    f"resources=VCPU:1&in_tree={ONE}",
    f"resources=VCPU:2&in_tree={CELL}",
    "resources_A=VCPU:1&resources_B=VCPU:1&group_policy=isolate",
    "resources_A=VCPU:1&resources_B=VCPU:1&group_policy=none",
    "resources_A=VCPU:1&resources_B=DISK_GB:1&group_policy=none&same_subtree=_A,_B",
    "resources=MEMORY_MB:1&resources_B=DISK_GB:1",
)
ON_POOL = f"resources=DISK_GB:1&in_tree={POOL}"
BESIDE_POOL = f"resources=VCPU:1&resources_D=DISK_GB:1&in_tree_D={POOL}"
UNKNOWN = "resources=VCPU:1&required=CUSTOM_NOWHERE"
# TWO, which is in both racks, is in the way of each that is apart by them.
BY_RACKS = {"level": "aggregate", "of": list(RACKS[:2])}
RULES: tuple[Mapping[str, Any], ...] = (
    {"rule": "apart"},
    {"rule": "apart", "at_most": 2, "level": "tree"},
    {"rule": "together"},
    {"rule": "apart", **BY_RACKS},
    {"rule": "together", "level": "aggregate", "of": [RACKS[0], RACKS[2]]},
)
AMOUNT = {"total": 1, "reserved": 0, "min_unit": 1, "max_unit": 9, "step_size": 1}

hosts = st.sampled_from(HOSTS)
consumers = st.sampled_from(CONSUMERS)
queries = st.sampled_from(QUERIES)
# Which generation is sent: the one there is, mostly.
honesty = st.sampled_from(["right"] * 8 + ["null", "wrong"])
owners = st.tuples(st.sampled_from(["red", "blue"]), st.sampled_from(["INSTANCE", "X"]))
names = st.lists(st.sampled_from((NAMES[0], NAMES[0], *NAMES)), unique=True, max_size=2)
claimed = st.tuples(st.sampled_from((*QUERIES, UNKNOWN)), honesty, names, owners)
gangs = st.dictionaries(consumers, claimed, min_size=1, max_size=4)
rules = st.fixed_dictionaries({name: st.sampled_from(RULES) for name in NAMES})
orders = st.sampled_from(["any", "any", "spread", "pack"])
held_for = st.sampled_from([None, None, 1000, 1000, 2000, 86_400])
# What is said of the rules of groups: what is missing, everything, or another rule.
tellings = st.sampled_from(["needed", "needed", "needed", "repeated", "drawn", "nothing"])
class_names = st.sampled_from(["VCPU", "MEMORY_MB", "DISK_GB"])
held = st.dictionaries(
    hosts, st.dictionaries(class_names, st.integers(1, 2), min_size=1), max_size=2
)
stocks = st.dictionaries(
    class_names,
    st.builds(
        lambda **given: AMOUNT | given,
        total=st.integers(1, 5),
        reserved=st.sampled_from([0, 0, 0, 1]),
        max_unit=st.sampled_from([9, 9, 1]),
        step_size=st.sampled_from([1, 1, 1, 2]),
        allocation_ratio=st.sampled_from([1.0, 1.0, 1.5]),
    ),
    max_size=3,
)
