"""Equal questions about equal data have equal answers, in every process (specification 09 section 3).

Processes differ in the hash of strings, by which sets are ordered, and in the addresses of objects.
"""

import json
import os
import random
import re
import subprocess
import sys
from typing import Any

from tests.extensions.claims.test_claims import claim
from tests.support.processes import ENDS_S
from tests.support.service import Service, running
from tests.support.world import World

FLAVORS = [f"VCPU:2,MEMORY_MB:{memory},DISK_GB:{4 - memory}" for memory in (1, 3, 2)]
"""Equally hard to place."""

TRAITS = ["HW_CPU_X86_AVX", "HW_CPU_X86_VMX", "HW_CPU_X86_SSE", "HW_CPU_X86_AVX2"]
QUERY = f"resources=VCPU:1&required=in:{','.join(TRAITS[:2])}&required={','.join(TRAITS[2:])}"
RACKS = [f"ac000000-0000-4000-8000-00000000000{n}" for n in range(3)]
HOSTS = [f"ab000000-0000-4000-8000-00000000000{n}" for n in range(4)]


def consumer(number: int) -> str:
    return f"ad000000-0000-4000-8000-00000000000{number}"


def build(service: Service) -> None:
    """A full host with members of two groups, one with room for one of them, and two that are full."""
    world = World(service)
    stock = {"VCPU": 8, "MEMORY_MB": 16, "DISK_GB": 16}
    for number, host in enumerate(HOSTS):
        world.provider(
            f"host{number}", None, stock, TRAITS[: 5 - number], RACKS[number % 3 :], key=host
        )
    members = [
        claim(
            consumer_uuid=consumer(number),
            query=f"resources={FLAVORS[number % 3]}&in_tree={HOSTS[0]}",
            groups=["web", "all"],
        )
        for number in range(4)
    ]
    rules = {"web": {"rule": "apart", "at_most": 4}, "all": {"rule": "apart", "at_most": 9}}
    placed = service.request(
        "POST", "/-/claims", json={"claims": members, "groups": rules}, version="1.39"
    )
    assert placed.status_int == 200, placed.text
    for number, left in enumerate((2, 1, 0), 1):
        world.claim({HOSTS[number]: {"VCPU": 8 - left}}, consumer(number + 4))


def asked() -> list[tuple[str, str, Any]]:
    """Return questions with several right answers, or several things that are wrong with them."""
    gang = [claim(query=f"resources={each}") for each in FLAVORS]
    for number, each in enumerate(gang):
        each["consumer_uuid"] = f"ae000000-0000-4000-8000-00000000000{3 - number}"
    grouped = [{**each, "groups": ["new2", "new1", "web"]} for each in gang]
    new = {"resource_provider_generation": 4}
    unknown = ["CUSTOM_C", "CUSTOM_A", "CUSTOM_B"]
    stock = {name: {"total": 1} for name in unknown}
    changes = [{"drain": HOSTS[0]}, {"traits": {HOSTS[1]: ["HW_CPU_X86_AVX"]}}]
    return [
        ("POST", "/-/what-if", {"changes": changes, "query": "resources=VCPU:1"}),
        ("GET", "/-/survival?top=1000", None),
        ("GET", "/-/survival?top=1000&level=aggregate", None),
        ("POST", "/-/claims", {"claims": gang}),
        ("POST", "/-/claims", {"claims": grouped}),
        ("POST", "/-/claims", {"claims": gang, "strategy": "pack"}),
        ("GET", f"/-/explain?{QUERY}&resources_A=VCPU:8&group_policy=none", None),
        ("GET", f"/-/explain?{QUERY},CUSTOM_B,CUSTOM_A,CUSTOM_C", None),
        ("GET", f"/-/capacity?{QUERY}", None),
        ("GET", "/-/trees?limit=10", None),
        ("GET", "/-/groups/web", None),
        ("GET", f"/allocation_candidates?{QUERY}", None),
        ("GET", f"/allocation_candidates?{QUERY}&required=!CUSTOM_B,!CUSTOM_A,!CUSTOM_C", None),
        ("GET", "/allocation_candidates?resources=CUSTOM_B:1,CUSTOM_A:1", None),
        ("GET", "/resource_providers?required=CUSTOM_B,CUSTOM_A,!CUSTOM_C", None),
        ("GET", "/resource_providers?resources=CUSTOM_B:1,CUSTOM_A:1", None),
        ("GET", f"/resource_providers/{HOSTS[0]}/aggregates", None),
        ("GET", f"/resource_providers/{HOSTS[3]}/traits", None),
        ("GET", f"/resource_providers/{HOSTS[0]}/allocations", None),
        ("PUT", f"/resource_providers/{HOSTS[3]}/traits", {**new, "traits": unknown}),
        ("PUT", f"/resource_providers/{HOSTS[3]}/inventories", {**new, "inventories": stock}),
        ("POST", "/-/what-if", {"changes": [{"traits": {HOSTS[1]: unknown}}], "query": QUERY}),
        ("POST", "/-/what-if", {"changes": [{"inventories": {HOSTS[1]: stock}}], "query": QUERY}),
        ("POST", "/-/plans", {"goal": {"place": "resources=VCPU:8"}}),
        ("POST", "/-/plans", {"goal": {"empty": {"count": 2}}}),
    ]


def tell() -> None:
    """Print the answers, with the addresses of what is made in the meantime anywhere."""
    draw = random.Random(os.environ["PYTHONHASHSEED"])
    garbage = [bytes(size) for size in range(0, 512, 16) for _ in range(500)]
    draw.shuffle(garbage)
    with running(insight__enabled=True) as service:
        build(service)
        answers = []
        for method, path, body in asked():
            del garbage[:500]
            answer = service.request(method, path, json=body, version="1.39")
            text = re.sub(r'"(request_id|etag)":"[^"]*"', "", answer.text)
            answers.append([answer.status_int, text])
    print(json.dumps(answers))


def told(seed: int) -> list[Any]:
    """Return what another process answers."""
    program = "from tests.objects import test_picture_same_answers as asked; asked.tell()"
    told: list[Any] = json.loads(
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            stdout=subprocess.PIPE,
            check=True,
            timeout=ENDS_S,
        ).stdout
    )
    return told


def test_neither_hashes_nor_addresses_show_in_answers() -> None:
    first, *others = map(told, range(1, 5))

    for other in others:
        for question, mine, theirs in zip(asked(), first, other, strict=True):
            assert mine == theirs, question
    drained, survived = (json.loads(text) for _, text in first[:2])
    lost = {each["uuid"]: each["homeless"] for each in survived["lost"]}
    assert [each["uuid"] for each in drained["homeless"]] == [
        each["uuid"] for each in lost[HOSTS[0]]
    ]
    assert 0 < len(drained["homeless"]) < 4
