"""Two groups for the tests of this folder: one with a single primary, and one in which all members are."""

from collections.abc import Iterator

import pytest

from tests.support.cluster_arena import RACES, arena_on
from tests.support.innodb_cluster import Group, innodb_cluster
from tests.support.racing import Arena


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test here, and keep them in one process: each group has three servers."""
    for item in items:
        if "/tests/proofs/innodb_cluster/" in str(item.path):
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.xdist_group("innodb_cluster"))


@pytest.fixture(scope="session")
def running_group() -> Iterator[Group]:
    with innodb_cluster() as group:
        yield group


@pytest.fixture
def group(running_group: Group) -> Group:
    """Three members that see one another; the first is the primary."""
    running_group.wait_complete()
    if running_group.writer() is not running_group.nodes[0]:
        running_group.make_primary(running_group.nodes[0])
    return running_group


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[Group]:
    """The group of primaries, by the name that the races of Galera know."""
    with innodb_cluster(multi_primary=True) as group:
        yield group


@pytest.fixture(scope="session")
def standing(running_cluster: Group) -> Iterator[Arena]:
    """Three servers, one on each primary, which the races share."""
    with arena_on(running_cluster, RACES) as made:
        yield made
