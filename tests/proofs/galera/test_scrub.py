"""A scrub on a cluster: beside writers on all nodes, and on two nodes at once, of which none sees locks."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from placement.db import scrub
from tests.proofs.scrub.test_races import *  # noqa: F403
from tests.support.cluster_arena import PATIENCE, RACES, rotated
from tests.support.clusters import url_of
from tests.support.databases import opened
from tests.support.galera import GaleraCluster
from tests.support.racing import Arena, emptied
from tests.support.world import World


@pytest.fixture(scope="module")
def place(standing: Arena) -> Arena:
    """Three servers, one on each node."""
    return emptied(standing)


def test_two_nodes_mend_the_same_at_once(place: Arena, cluster: GaleraCluster) -> None:
    """Each reads of its own node. Nothing is taken off twice, above all of the sums of owners."""
    world = World(emptied(place))
    hosts = [world.host(VCPU=100) for _ in range(3)]
    for host in hosts:
        world.claim({host: {"VCPU": 2}})
    with place.db.engine.connect() as connection:
        # Sums of owners are spread over slots. Each claim draws one, and all three may draw the same.
        for wrong, least in (
            ("UPDATE inventories SET used = used + 1, total = 50", len(hosts)),
            ("UPDATE owner_usages SET used = used + 1", 2),
        ):
            assert connection.execute(text(wrong)).rowcount >= least
    urls = [
        url_of(rotated(cluster.nodes, first), RACES, cluster.read_your_writes, PATIENCE)
        for first in range(2)
    ]
    with opened(urls[0]) as one, opened(urls[1]) as other, ThreadPoolExecutor(2) as nodes:
        list(nodes.map(scrub.scrub_all, (one, other)))

    assert scrub.scrub_all(place.db) == ({}, [])
    place.assert_sound()
    assert [world.usages(host) for host in hosts] == [{"VCPU": 2}] * 3
    assert world.get("/usages?project_id=red")["usages"]["INSTANCE"]["VCPU"] == 6
