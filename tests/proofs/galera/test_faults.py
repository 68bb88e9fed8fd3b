"""The clients of a year write through all nodes while one is killed, frozen, cut off, and comes back.

Nothing acknowledged is lost, nothing is doubled, no counter is off, and the service recovers by
itself. Writes whose answer was an error may have happened or not, but not by half.
"""

import random
from collections.abc import Callable, Iterator

import pytest

from tests.proofs.galera.bad_days import partition
from tests.proofs.year.sites import OPTIONS, SiteCrew
from tests.support import deployment
from tests.support.cluster_arena import PATIENCE, make_schema, rotated
from tests.support.clusters import url_of
from tests.support.deployment import Site
from tests.support.galera import GaleraCluster, Node

DATABASE = "faults"


@pytest.fixture(scope="module")
def service(running_cluster: GaleraCluster) -> Iterator[list[Site]]:
    """Three servers that fail over from node to node, and one that knows node 1 only."""
    running_cluster.wait_complete()
    make_schema(running_cluster, DATABASE)
    nodes = running_cluster.nodes
    preferences = [*(rotated(nodes, first) for first in range(3)), [nodes[1]]]
    urls = [url_of(each, DATABASE, running_cluster.read_your_writes, PATIENCE) for each in preferences]
    with deployment.several(urls, **OPTIONS) as sites:
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
    victim = cluster.nodes[1]
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    crew = SiteCrew(service, seed)
    with crew.at_work():
        crew.wait_for_progress()
        fault(victim)
        victim.wait_given_up()
        crew.wait_for_progress([0, 1, 2])
        repair(victim)
        cluster.wait_complete()
        crew.wait_for_progress()
    crew.check(*(url_of([node], DATABASE, cluster.read_your_writes) for node in cluster.nodes))
