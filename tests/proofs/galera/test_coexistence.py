"""The OpenStack service on one node, this one on the others (specification 06 section 13.1)."""

import random

from tests.proofs.galera.arena import RACES, READ_YOUR_WRITES
from tests.proofs.races import coexistence
from tests.support.galera import Cluster
from tests.support.racing import Arena, emptied

WRITES = 40


def test_no_grant_is_too_much_between_nodes(standing: Arena, running_cluster: Cluster) -> None:
    """Nobody shares a row lock: it is the generation that lets only one of two claims in."""
    place = emptied(standing)
    urls = [
        f"mysql+pymysql://root@127.0.0.1:{node.port}/{RACES}?{READ_YOUR_WRITES}"
        for node in running_cluster.nodes[:2]
    ]
    coexistence.prepare(place, urls[0])
    seed = random.SystemRandom().randrange(10**9)

    coexistence.play(place, urls, coexistence.Length(writes=WRITES), seed).require_kept()
