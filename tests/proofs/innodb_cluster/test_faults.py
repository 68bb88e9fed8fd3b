"""The clients of a year write through all members while the primary is switched, killed, and comes back."""

import random
from collections.abc import Callable, Iterator

import pytest

from tests.proofs.year.sites import OPTIONS, SiteCrew
from tests.support import deployment
from tests.support.cluster_arena import PATIENCE, make_schema, rotated
from tests.support.clusters import url_of
from tests.support.deployment import Site
from tests.support.innodb_cluster import Group

DATABASE = "faults"


@pytest.fixture(scope="module")
def service(running_group: Group) -> Iterator[list[Site]]:
    """Three servers, each of which prefers another member."""
    make_schema(running_group, DATABASE)
    urls = [url_of(rotated(running_group.nodes, n), DATABASE, PATIENCE) for n in range(3)]
    with deployment.several(urls, **OPTIONS) as sites:
        yield sites


def switch(group: Group, crew: SiteCrew) -> None:
    for member in group.nodes[1:] + group.nodes[:1]:
        group.make_primary(member)
        crew.wait_for_progress()


def kill(group: Group, crew: SiteCrew) -> None:
    victim = group.writer()
    victim.kill()
    victim.wait_given_up()
    crew.wait_for_progress()
    victim.rejoin()
    group.wait_complete()
    crew.wait_for_progress()


@pytest.mark.parametrize("fault", [switch, kill])
def test_the_primary_changes_under_load(
    group: Group, service: list[Site], fault: Callable[[Group, SiteCrew], None]
) -> None:
    seed = random.randrange(10**9)
    crew = SiteCrew(service, seed)
    with crew.at_work():
        crew.wait_for_progress()
        fault(group, crew)
    print(f"seed {seed}: {sum(crew.acknowledged)} acknowledged, {len(crew.refused)} refused")
    first = group.writer()
    members = [first, *(each for each in group.nodes if each is not first)]
    crew.check(*(f"{member.url(DATABASE)}?{group.read_your_writes}" for member in members))
