"""One cluster for all tests of this folder, whole again before each of them."""

from collections.abc import Iterator

import pytest

from tests.support.cluster_arena import RACES, arena_on
from tests.support.galera import GaleraCluster, galera_cluster
from tests.support.racing import Arena


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test here, and keep them in one process: there is one cluster."""
    for item in items:
        if "/tests/proofs/galera/" in str(item.path):
            item.add_marker(pytest.mark.galera)
            item.add_marker(pytest.mark.xdist_group("galera"))


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[GaleraCluster]:
    with galera_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def standing(running_cluster: GaleraCluster) -> Iterator[Arena]:
    """Three servers, one on each node, which the races share."""
    running_cluster.wait_complete()
    with arena_on(running_cluster, RACES) as made:
        yield made


@pytest.fixture
def cluster(running_cluster: GaleraCluster) -> GaleraCluster:
    """Three nodes that see one another."""
    running_cluster.wait_complete()
    return running_cluster
