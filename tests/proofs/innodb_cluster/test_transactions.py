"""What the database floor makes of the errors of a group, all of whose members are primaries."""

import pytest

from tests.proofs.galera.test_transactions import (  # noqa: F401
    connect,
    table,
    test_a_dead_host_is_passed_over,
    test_a_frozen_node_is_left_after_the_read_timeout,
    test_a_read_after_a_write_elsewhere_sees_it,
    test_conflicting_commits_of_two_nodes_are_tried_again,
    test_many_writers_through_all_nodes_lose_nothing,
)
from tests.support.innodb_cluster import Group


@pytest.fixture
def cluster(running_cluster: Group) -> Group:
    """Three primaries that see one another."""
    running_cluster.wait_complete()
    return running_cluster
