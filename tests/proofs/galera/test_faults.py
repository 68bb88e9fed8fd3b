"""Claims through all nodes while one is killed, frozen, cut off, and comes back.

Nothing acknowledged is lost, nothing is doubled, no counter is off, and the service recovers by
itself. Claims whose answer was an error may have happened or not, but not by half.
"""

import random
from collections.abc import Callable, Iterator

import pytest

from tests.proofs.galera.bad_days import partition
from tests.support import deployment
from tests.support.cluster_arena import PATIENCE, make_schema, rotated
from tests.support.clusters import url_of
from tests.support.deployment import Site
from tests.support.galera import GaleraCluster, Node
from tests.support.ledger import Ledger, some_hosts

DATABASE = "faults"


@pytest.fixture(scope="module")
def service(running_cluster: GaleraCluster) -> Iterator[list[Site]]:
    """Three servers that fail over from node to node, and one that knows node 1 only."""
    running_cluster.wait_complete()
    make_schema(running_cluster, DATABASE)
    nodes = running_cluster.nodes
    preferences = [*(rotated(nodes, first) for first in range(3)), [nodes[1]]]
    urls = [url_of(each, DATABASE, running_cluster.read_your_writes, PATIENCE) for each in preferences]
    with deployment.several(urls) as sites:
        yield sites


@pytest.mark.parametrize(
    ("fault", "repair"),
    [(Node.kill, Node.rejoin), (Node.freeze, Node.thaw), (partition, Node.reconnect)],
)
def test_a_node_goes_and_comes_back_under_load(
    cluster: GaleraCluster,
    service: list[Site],
    fault: Callable[[Node], None],
    repair: Callable[[Node], None],
) -> None:
    hosts = some_hosts(service[0])
    victim = cluster.nodes[1]
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    with Ledger(service, hosts, seed) as ledger:
        ledger.wait_for_progress([0, 1, 2, 3])
        fault(victim)
        victim.wait_given_up()
        ledger.wait_for_progress([0, 1, 2])
        repair(victim)
        cluster.wait_complete()
        ledger.wait_for_progress([0, 1, 2, 3])
    for node in cluster.nodes:
        ledger.check(url_of([node], DATABASE, cluster.read_your_writes))
    usages = [site.send("GET", f"/resource_providers/{hosts[0]}/usages").json for site in service]
    assert all(each == usages[0] for each in usages)
