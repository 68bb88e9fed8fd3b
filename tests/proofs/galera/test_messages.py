"""How statements travel to a node."""

from placement.db import transport
from placement.db.engine import make_engine
from tests.support.clusters import Cluster, N


def test_each_statement_travels_alone(running_cluster: Cluster[N]) -> None:
    """A node that ends a transaction within a message would run the rest of it without."""
    running_cluster.wait_complete()
    for node in running_cluster.nodes:
        engine = make_engine(f"{node.url('')}?{running_cluster.read_your_writes}")
        with engine.connect() as connection:
            assert connection.info[transport.SEVERAL] is False
        engine.dispose()
