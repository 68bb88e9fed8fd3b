"""How statements travel to a node."""

from placement.db import transport
from placement.db.engine import make_engine
from tests.proofs.galera.arena import READ_YOUR_WRITES
from tests.support.galera import Cluster


def test_each_statement_travels_alone(running_cluster: Cluster) -> None:
    """A node that ends a transaction within a message would run the rest of it without."""
    running_cluster.wait_complete()
    for node in running_cluster.nodes:
        engine = make_engine(f"mysql+pymysql://root@127.0.0.1:{node.port}/?{READ_YOUR_WRITES}")
        with engine.connect() as connection:
            assert connection.info[transport.SEVERAL] is False
        engine.dispose()
