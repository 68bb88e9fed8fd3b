"""The races of the provider side with each racer on another node."""

from collections.abc import Iterator

import pytest

from placement.db import standard_names
from placement.db.database import Database
from placement.db.engine import make_engine
from tests.proofs.galera.arena import READ_YOUR_WRITES, make_schema, rotated, url_of
from tests.proofs.races.test_provider_races import *  # noqa: F403
from tests.proofs.races.test_provider_races import RACERS, Arena
from tests.support.galera import Cluster

DATABASE = "provider_races"


class SpreadArena(Arena):
    """Racer by racer on the next node."""

    def __init__(self, cluster: Cluster) -> None:
        self.databases = [
            Database(make_engine(url_of(rotated(cluster.nodes, n % 3), DATABASE, READ_YOUR_WRITES)))
            for n in range(RACERS)
        ]
        self.db = self.databases[0]


@pytest.fixture(scope="module")
def arena(running_cluster: Cluster) -> Iterator[SpreadArena]:
    running_cluster.wait_complete()
    make_schema(running_cluster, DATABASE)
    made = SpreadArena(running_cluster)
    standard_names.synchronise(made.db)
    yield made
    for database in made.databases:
        database.dispose()
