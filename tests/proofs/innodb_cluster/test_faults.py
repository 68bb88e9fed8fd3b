"""Claims through services that name the members, while the primary is switched, killed, and comes back."""

import random
from collections.abc import Callable, Iterator

import pytest

from tests.support import deployment
from tests.support.cluster_arena import PATIENCE, make_schema, rotated
from tests.support.clusters import url_of
from tests.support.deployment import Site
from tests.support.innodb_cluster import Group
from tests.support.ledger import Ledger, some_hosts

DATABASE = "faults"


@pytest.fixture(scope="module")
def service(running_group: Group) -> Iterator[list[Site]]:
    """Three servers, each of which prefers another member."""
    make_schema(running_group, DATABASE)
    urls = [url_of(rotated(running_group.nodes, n), DATABASE, PATIENCE) for n in range(3)]
    with deployment.several(urls) as sites:
        yield sites


def switch(group: Group, ledger: Ledger) -> None:
    for member in group.nodes[1:] + group.nodes[:1]:
        group.make_primary(member)
        ledger.wait_for_progress()


def kill(group: Group, ledger: Ledger) -> None:
    victim = group.writer()
    victim.kill()
    victim.wait_given_up()
    ledger.wait_for_progress()
    victim.rejoin()
    group.wait_complete()
    ledger.wait_for_progress()


@pytest.mark.parametrize("fault", [switch, kill])
def test_the_primary_changes_under_load(
    group: Group, service: list[Site], fault: Callable[[Group, Ledger], None]
) -> None:
    hosts = some_hosts(service[0])
    seed = random.randrange(10**9)
    with Ledger(service, hosts, seed) as ledger:
        ledger.wait_for_progress()
        fault(group, ledger)
    acknowledged, refused = sum(ledger.acknowledged), len(ledger.refused)
    print(f"seed {seed}: {acknowledged} acknowledged, {refused} refused, {ledger.slowest_s:.1f} s")
    for member in group.nodes:
        ledger.check(f"{member.url(DATABASE)}?{group.read_your_writes}")
