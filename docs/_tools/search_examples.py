"""One small cloud, and for each constant of a search a query of that cloud which ends with it.

The how-to about empty answers shows the queries; ``tests/docs/test_search_examples.py`` sends them all.
"""

from dataclasses import dataclass, field

from placement.search.tally import Reason, Stop

HOST_1, HOST_2, HOST_3, GPU_0, GPU_1 = (
    f"{n * 8}-{n * 4}-4{n * 3}-8{n * 3}-{n * 12}" for n in "12345"
)
RACK = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
UNKNOWN = "99999999-9999-4999-8999-999999999999"
TRAIT = "HW_CPU_X86_VMX"
PUZZLE = (4, 4, 4, 4, 3)
"""Their sum is less than two GPUs of ten have, and yet they do not fit."""


@dataclass(frozen=True)
class Provider:
    """A provider of the cloud; ``parent``: by name."""

    name: str
    uuid: str
    totals: dict[str, int] = field(default_factory=dict)
    traits: list[str] = field(default_factory=list)
    aggregates: list[str] = field(default_factory=list)
    parent: str | None = None


CLOUD = (
    Provider("host-1", HOST_1, {"VCPU": 8, "MEMORY_MB": 8192}, [TRAIT], [RACK]),
    Provider("host-2", HOST_2, {"VCPU": 4, "DISK_GB": 100}),
    Provider("host-3", HOST_3),
    Provider("gpu-0", GPU_0, {"VGPU": 10}, parent="host-3"),
    Provider("gpu-1", GPU_1, {"VGPU": 10}, parent="host-3"),
)


def described(provider: Provider) -> str:
    """Return a provider in reStructuredText."""
    words = [f"``{name}:{total}``" for name, total in provider.totals.items()]
    words += [f"the trait ``{name}``" for name in provider.traits]
    words += [f"the aggregate ``{uuid}``" for uuid in provider.aggregates]
    under = f", child of {provider.parent}" if provider.parent else ""
    return f"{provider.name} (``{provider.uuid}``{under}): {', '.join(words) or 'nothing itself'}"


STEPS: dict[Reason, str] = {
    Reason.ROOT_REQUIRED: f"resources=VCPU:1&root_required={TRAIT}",
    Reason.ROOT_FORBIDDEN: f"resources=VCPU:1&root_required=!{TRAIT}",
    Reason.CAPACITY: "resources=VCPU:6",
    Reason.IN_TREE: f"resources=VCPU:1&in_tree={HOST_1}",
    Reason.ALL_CLASSES: "resources_A=VCPU:1,MEMORY_MB:1024",
    Reason.REQUIRED_TRAITS: f"resources=VCPU:1&required={TRAIT}",
    Reason.FORBIDDEN_TRAITS: f"resources=VCPU:1&required=!{TRAIT}",
    Reason.MEMBER_OF: f"resources=VCPU:1&member_of={RACK}",
    Reason.NOT_MEMBER_OF: f"resources=VCPU:1&member_of=!{RACK}",
    Reason.NO_DEMAND: f"resources_A=VCPU:1&required_B=!{TRAIT}&same_subtree=_A,_B&group_policy=none",
    Reason.NO_CHOICE: "resources=VCPU:1,MEMORY_MB:1024",
    Reason.OTHER_GROUPS: "resources_A=MEMORY_MB:1024&resources_B=VCPU:1&group_policy=none",
}
"""In each example the test removes a provider or a tree, whether or not candidates are left.

``AVOIDED`` has none: no query asks for it (specification 07 section 1.1).
"""

ENDS: dict[Stop, str] = {
    Stop.NO_ROOT: "resources=VCPU:1&root_required=HW_GPU_API_VULKAN",
    Stop.NO_MEMBER: f"resources=VCPU:1&member_of={UNKNOWN}",
    Stop.NO_TREE: f"resources=VCPU:1&in_tree={UNKNOWN}",
    Stop.NO_CAPACITY: "resources=VCPU:9",
    Stop.NO_CHOICE: "resources=MEMORY_MB:1024,DISK_GB:10",
    Stop.NO_COMMON_TREE: "resources_A=MEMORY_MB:1024&resources_B=DISK_GB:10&group_policy=none",
    Stop.NO_COMBINATION: "resources_A=VCPU:1&resources_B=VCPU:1&group_policy=isolate",
    Stop.WORK_LIMIT: "&".join(f"resources_{n}=VGPU:{amount}" for n, amount in enumerate(PUZZLE, 1))
    + "&group_policy=none",
}

FEW_PLACEMENTS = 5
"""Makes so small a cloud reach ``WORK_LIMIT``. With the real bound the puzzle ends in NO_COMBINATION."""
