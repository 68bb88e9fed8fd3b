"""The OpenStack service on one node, this one on the others (specification 06 section 13.1)."""

from tests.proofs.year import beside
from tests.support.cluster_arena import RACES
from tests.support.effort import drawn_by_run
from tests.support.galera import GaleraCluster
from tests.support.racing import Arena, emptied

ACTS = 25


def test_no_grant_is_too_much_between_nodes(standing: Arena, running_cluster: GaleraCluster) -> None:
    """Nobody shares a row lock: it is the generation that lets only one of two claims in."""
    place = emptied(standing)
    urls = [
        f"mysql+pymysql://root@127.0.0.1:{node.port}/{RACES}?{running_cluster.read_your_writes}"
        for node in running_cluster.nodes[:2]
    ]
    seed = drawn_by_run(__name__).randrange(10**9)

    beside.play(place, urls, seed, ACTS).require_kept()
