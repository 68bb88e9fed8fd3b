"""The parts of the story of the API reference: calls, operations, pages, and the uuids in them."""

from dataclasses import dataclass, field
from typing import Any

HOST1 = "11111111-1111-4111-8111-111111111111"
HOST2 = "22222222-2222-4222-8222-222222222222"
GPU = "33333333-3333-4333-8333-333333333333"
POOL = "44444444-4444-4444-8444-444444444444"
AGGREGATE = "55555555-5555-4555-8555-555555555555"
SERVER = "66666666-6666-4666-8666-666666666666"
OTHER_SERVER = "77777777-7777-4777-8777-777777777777"
OLD_SERVER = "88888888-8888-4888-8888-888888888888"
UNKNOWN = "99999999-9999-4999-8999-999999999999"
PROJECT = "9f8e7d6c5b4a49389f8e7d6c5b4a4938"
USER = "1a2b3c4d5e6f47081a2b3c4d5e6f4708"


@dataclass(frozen=True)
class Call:
    """One request of the story.

    :param says: a sentence before it.
    :param silent: sent, but not shown.
    :param shorten: the list in the answer of which only the first entries are shown.
    :param versions: sent at every microversion too: the page then says since when the answer has each
        field, and shows an example of each older shape.
    """

    method: str
    path: str
    body: Any = None
    status: int = 200
    says: str = ""
    version: str = "1.39"
    silent: bool = False
    shorten: str | None = None
    versions: bool = False


@dataclass(frozen=True)
class Operation:
    """One method of one path of the route table, with its examples."""

    method: str
    path: str
    text: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Page:
    """One page of the reference."""

    name: str
    title: str
    text: str
    operations: tuple[Operation, ...] = field(default_factory=tuple)


def claim(generation: int | None, **resources: int) -> dict[str, Any]:
    """Return the body of a claim on the first host."""
    return owned({HOST1: {"resources": resources}} if resources else {}, generation)


def owned(allocations: dict[str, Any], generation: int | None) -> dict[str, Any]:
    """Return allocations with everything that a consumer's entry needs since 1.38."""
    return {
        "allocations": allocations,
        "project_id": PROJECT,
        "user_id": USER,
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    }


def older(
    generation: int | None = None, owner: bool = True, mappings: bool = False, amount: int = 1
) -> dict[str, Any]:
    """Return a claim on the first host as the versions from 1.12 to 1.37 take it."""
    entry: dict[str, Any] = {"allocations": {HOST1: {"resources": {"VCPU": amount}}}}
    if owner:
        entry |= {"project_id": PROJECT, "user_id": USER}
    if generation is not None:
        entry["consumer_generation"] = generation
    if mappings:
        entry["mappings"] = {"": [HOST1]}
    return entry


def oldest(**owner: str) -> dict[str, Any]:
    """Return a claim on the first host as the versions up to 1.11 take it."""
    place = {"resource_provider": {"uuid": HOST1}, "resources": {"VCPU": 1}}
    return {"allocations": [place], **owner}
