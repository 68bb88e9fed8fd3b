"""The races of gangs and groups with each server on another node: nobody shares a row lock."""

from collections.abc import Iterator

import pytest

from tests.galera.arena import arena_on
from tests.races.test_gang_races import (  # noqa: F401
    test_gangs_that_fill_a_cloud_exactly_are_all_granted,
    test_writers_of_one_group_never_break_its_rule,
)
from tests.support.galera import Cluster
from tests.support.racing import Arena
from tests.support.service import empty


@pytest.fixture(scope="module")
def servers(running_cluster: Cluster) -> Iterator[Arena]:
    """Three servers, one on each node."""
    running_cluster.wait_complete()
    with arena_on(running_cluster, "gangs") as made:
        yield made


@pytest.fixture
def place(servers: Arena) -> Arena:
    """The servers on an emptied database."""
    empty(servers.db)
    return servers
