"""Leaks that are made on purpose, and what docs/howto/leaks.rst shows of a command that has found them."""

import re
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

from tests.support.world import World

PAGE = Path(__file__).resolve().parents[3] / "docs/howto/leaks.rst"

WRITES = "1.36"
"""Nova writes by this version at most: its consumers have no type."""

HOLDS = {"VCPU": 1, "MEMORY_MB": 512}


def make_leaks(world: World, server: Mapping[str, Any], other: str) -> str:
    """Let something that is no server hold a part of a host, and a server a part of the same host.

    Return the uuid of what is no server.

    :param server: as Nova shows it; it runs on another host.
    :param other: the uuid of the provider.
    """
    owner = {"project_id": server["tenant_id"], "user_id": server["user_id"]}
    nobody = world.claim({other: HOLDS}, version=WRITES, **owner)
    shown = world.get(f"/allocations/{server['id']}", WRITES)
    held = {uuid: each["resources"] for uuid, each in shown["allocations"].items()}
    generation = shown["consumer_generation"]
    world.claim(held | {other: HOLDS}, server["id"], generation, WRITES, **owner)
    return nobody


def read_sample() -> str:
    """Return the output of the command that the page shows."""
    page = PAGE.read_text()
    (sample,) = re.findall(r"holds resources::\n\n((?: {4}.*\n)+)", page)
    return dedent(sample)


def mask_names(said: str) -> str:
    """Return an output without uuids and ages, whose columns keep their widths."""
    said = re.sub(r"\b[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\b", lambda it: "U" * len(it[0]), said)
    return re.sub(r"\b\d+:\d\d:\d\d\b", lambda it: "A" * len(it[0]), said)


def mask_widths(said: str) -> str:
    """Return an output in which neither widths nor the numbers of hosts make a difference."""
    said = re.sub(r"host\d", "host", mask_names(said))
    return re.sub(r"([-UA ])\1*", r"\1", said)
