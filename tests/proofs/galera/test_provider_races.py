"""The races of the provider side with each racer on another node."""

from collections.abc import Iterator

import pytest

from placement.db import standard_names
from placement.db.database import Database
from placement.db.engine import make_engine
from tests.proofs.races.test_provider_races import *  # noqa: F403
from tests.proofs.races.test_provider_races import RACERS, Arena
from tests.support.cluster_arena import make_schema, rotated
from tests.support.clusters import Cluster, N, url_of

DATABASE = "provider_races"


class SpreadArena(Arena):
    """Racer by racer on the next node."""

    def __init__(self, cluster: Cluster[N]) -> None:
        urls = [
            url_of(rotated(cluster.nodes, n % 3), DATABASE, cluster.read_your_writes)
            for n in range(RACERS)
        ]
        self.databases = [Database(make_engine(url)) for url in urls]
        self.db = self.databases[0]


@pytest.fixture(scope="module")
def arena(running_cluster: Cluster[N]) -> Iterator[SpreadArena]:
    running_cluster.wait_complete()
    make_schema(running_cluster, DATABASE)
    made = SpreadArena(running_cluster)
    standard_names.synchronise(made.db)
    yield made
    for database in made.databases:
        database.dispose()
