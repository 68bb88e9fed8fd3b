"""Server processes that each prefer another node of the cluster."""

import contextlib
from collections.abc import Iterator

from placement.db import schema
from placement.db.database import Database
from placement.db.engine import make_engine
from tests.support import deployment
from tests.support.clusters import Cluster, N, url_of
from tests.support.databases import copy_tables, opened
from tests.support.racing import Arena

PATIENCE = "connect_timeout=2&read_timeout=10&write_timeout=10"
MIGRATED = "migrated"
RACES = "races"
"""The database of all races."""


def rotated(nodes: list[N], first: int) -> list[N]:
    """Return the nodes beginning with the one at ``first``."""
    return nodes[first:] + nodes[:first]


def make_schema(cluster: Cluster[N], database: str) -> str:
    """Make the database with our tables, copied from one that is migrated once; return its URL.

    What is read there is what was written on any node.
    """
    cluster.create_database(database)
    if not cluster.writer().execute(f"SHOW DATABASES LIKE '{MIGRATED}'"):
        cluster.create_database(MIGRATED)
        with opened(url_of(cluster.nodes, MIGRATED, PATIENCE)) as db:
            schema.sync(db)
    url = url_of(cluster.nodes, database, cluster.read_your_writes, PATIENCE)
    with opened(url) as db, db.engine.connect() as connection:
        copy_tables(connection, MIGRATED, database)
    return url


@contextlib.contextmanager
def arena_on(cluster: Cluster[N], database: str) -> Iterator[Arena]:
    """Serve through all nodes; the races of tests/proofs/races run on this."""
    url = make_schema(cluster, database)
    urls = [
        url_of(rotated(cluster.nodes, first), database, cluster.read_your_writes, PATIENCE)
        for first in range(len(cluster.nodes))
    ]
    with deployment.several(urls, OS_INSIGHT__ENABLED="true") as sites:
        ports = [int(site.url.rpartition(":")[2]) for site in sites]
        made = Arena(ports, Database(make_engine(url)))
        try:
            yield made
        finally:
            made.close()
