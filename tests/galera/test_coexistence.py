"""The OpenStack service on one node, this one on the others (specification 06 section 13.1)."""

import random
from collections.abc import Iterator

import pytest

from tests.galera.arena import READ_YOUR_WRITES, arena_on
from tests.races import coexistence
from tests.support.galera import Cluster
from tests.support.racing import Arena

DATABASE = "shared"
WRITES = 40


@pytest.fixture
def place(running_cluster: Cluster) -> Iterator[Arena]:
    """Three of our servers, one on each node."""
    running_cluster.wait_complete()
    with arena_on(running_cluster, DATABASE) as made:
        yield made


def test_no_grant_is_too_much_between_nodes(place: Arena, running_cluster: Cluster) -> None:
    """Nobody shares a row lock: it is the generation that lets only one of two claims in."""
    urls = [
        f"mysql+pymysql://root@127.0.0.1:{node.port}/{DATABASE}?{READ_YOUR_WRITES}"
        for node in running_cluster.nodes[:2]
    ]
    coexistence.prepare(place, urls[0])
    seed = random.SystemRandom().randrange(10**9)

    report = coexistence.play(place, urls, coexistence.Length(writes=WRITES), seed)

    print("\n".join(report.lines()))
    assert report.violations() == []
    assert report.theirs["claims"] > 0
    assert report.theirs["moves of cards"] > 0
    assert report.answered("claims", 204) > 0
    assert report.answered("moves of cards", 200) > 0
    assert report.answered("reshapes") > 0
