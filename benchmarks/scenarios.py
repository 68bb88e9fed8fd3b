"""What is measured: each scenario makes the operation that its clients repeat."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import writes
from benchmarks.clients import Maker, Operation
from benchmarks.clouds import THREE, Cloud, Question, uuid_of
from benchmarks.connection import Connection
from benchmarks.target import Target

ONE: tuple[int, ...] = (1,)


@dataclass(frozen=True)
class Scenario:
    """One line of the results, or one per number of clients.

    :param group: what ``--only`` selects.
    :param make: makes the clients' operations for a target and a cloud.
    :param clients: numbers of clients; None means those of the command line.
    :param accepted: statuses that count as success.
    :param claims_beside: claims per second that other clients make meanwhile.
    """

    group: str
    name: str
    make: Callable[[Target, Cloud], Maker]
    clients: tuple[int, ...] | None = ONE
    accepted: tuple[int, ...] = (200, 204)
    since: tuple[int, int] = (1, 29)
    claims_beside: float = 0.0


def fetching(path: Callable[[Cloud, random.Random], str]) -> Callable[[Target, Cloud], Maker]:
    """Return the maker of GETs whose path is drawn anew for every request."""

    def for_cloud(_target: Target, cloud: Cloud) -> Maker:
        def make(connection: Connection, client: int) -> Operation:
            draw = random.Random(client)
            return lambda _number: connection.exchange("GET", path(cloud, draw))

        return make

    return for_cloud


def _always(path: str) -> Callable[[Target, Cloud], Maker]:
    return fetching(lambda _cloud, _draw: path)


def _of_host(part: str) -> Callable[[Target, Cloud], Maker]:
    return fetching(
        lambda cloud, draw: (
            f"/resource_providers/{cloud.host_uuid(draw.randrange(cloud.hosts))}{part}"
        )
    )


def _asking(question: Question) -> Callable[[Target, Cloud], Maker]:
    return _always(f"/allocation_candidates?{question.query}")


def candidates(cloud: Cloud) -> list[Scenario]:
    """Return the questions of the cloud, the marked ones also with 100 claims a second beside."""
    found = []
    for question in cloud.questions:
        found.append(Scenario("candidates", question.name, _asking(question), since=question.since))
        if question.under_claims and cloud.claim:
            name = f"{question.name}, 100 claims/s beside"
            found.append(Scenario("candidates", name, _asking(question), claims_beside=100.0))
    return found


READS = (
    Scenario("reads", "root document (no authentication)", _always("/")),
    Scenario("reads", "no such path (whole pipeline)", _always("/nothing"), accepted=(404,)),
    Scenario("reads", "one trait", _always("/traits/CUSTOM_BENCH_COMMON_0")),
    Scenario("reads", "one provider", _of_host("")),
    *(
        Scenario("reads", f"a provider's {part}", _of_host(f"/{part}"))
        for part in ("inventories", "traits", "aggregates", "usages", "allocations")
    ),
    Scenario(
        "reads",
        "a consumer's allocations",
        fetching(
            lambda cloud, draw: (
                "/allocations/"
                + uuid_of(
                    cloud.name,
                    "consumer",
                    draw.randrange(max(1, cloud.hosts * cloud.consumers_per_host)),
                )
            )
        ),
    ),
)

LISTS = (
    Scenario("lists", "all providers", _always("/resource_providers")),
    Scenario(
        "lists",
        "providers by name",
        fetching(
            lambda cloud, draw: (
                f"/resource_providers?name={cloud.name}-host-{draw.randrange(cloud.hosts)}"
            )
        ),
    ),
    Scenario(
        "lists",
        "providers in a tree",
        fetching(
            lambda cloud, draw: (
                f"/resource_providers?in_tree={cloud.host_uuid(draw.randrange(cloud.hosts))}"
            )
        ),
    ),
    Scenario("lists", "providers with resources (all)", _always(f"/resource_providers?{THREE}")),
    Scenario(
        "lists",
        "providers with resources (one in 100)",
        _always("/resource_providers?resources=VCPU:1,MEMORY_MB:1024,DISK_GB:5000"),
    ),
    Scenario(
        "lists",
        "providers of an aggregate (one in 3)",
        fetching(
            lambda cloud, _draw: f"/resource_providers?member_of={uuid_of(cloud.name, 'zone', 1)}"
        ),
    ),
    Scenario(
        "lists",
        "providers with a trait (one in 50)",
        _always("/resource_providers?required=CUSTOM_BENCH_RACK_7"),
    ),
    Scenario("lists", "all traits", _always("/traits")),
    Scenario("lists", "all resource classes", _always("/resource_classes")),
)

USAGES = (
    Scenario(
        "usages",
        "usage of the big project",
        fetching(lambda cloud, _draw: f"/usages?project_id={cloud.big_project}"),
    ),
    Scenario(
        "usages",
        "usage of a small project",
        fetching(
            lambda cloud, draw: (
                f"/usages?project_id={uuid_of(cloud.name, 'project', draw.randrange(100))}"
            )
        ),
    ),
)

CLAIMS = (
    Scenario("claims", "claim, spread over the hosts", writes.spread_claims, None),
    Scenario("claims", "claim, all on one host", writes.contended_claims, None),
)
SWAPS = (Scenario("swaps", "swap of two consumers (POST)", writes.swaps, None),)
DELETES = (Scenario("deletes", "delete of a consumer", writes.deletes, None),)
BOOTS = (Scenario("boots", "boot (candidates limit=1000, claim)", writes.boots, None),)

GROUPS = (
    "load",
    "fresh",
    "candidates",
    "reads",
    "lists",
    "usages",
    "claims",
    "swaps",
    "deletes",
    "boots",
    "floor",
    "overhead",
)


def plan(cloud: Cloud, groups: tuple[str, ...]) -> list[Scenario]:
    """Return the scenarios of these groups that make sense on the cloud, in the order to run."""
    found = [*candidates(cloud), *READS, *LISTS]
    if cloud.consumers_per_host:
        found += USAGES
    if cloud.claim:
        found += [*CLAIMS, *SWAPS, *DELETES, *BOOTS]
    return [one for one in found if one.group in groups]
