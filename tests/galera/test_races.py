"""The races of tests/races with each server on another node: nobody shares a row lock."""

from collections.abc import Iterator

import pytest

from tests.galera.arena import arena_on
from tests.races.test_claim_races import *  # noqa: F403
from tests.support.galera import Cluster
from tests.support.racing import Arena


@pytest.fixture(scope="module")
def place(running_cluster: Cluster) -> Iterator[Arena]:
    """Three servers, one on each node."""
    running_cluster.wait_complete()
    with arena_on(running_cluster, "races") as made:
        yield made
