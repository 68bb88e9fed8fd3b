"""What the database floor makes of a cluster's own errors."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from sqlalchemy import text

from placement import errors
from placement.db.database import Database, StaleRead, Transaction
from tests.support.cluster_arena import PATIENCE, rotated
from tests.support.clusters import Cluster, N, url_of
from tests.support.databases import opened
from tests.support.galera import GaleraCluster
from tests.support.processes import ENDS_S, free_port, wait_until

DATABASE = "transactions"

Connect = Callable[..., Database]


@pytest.fixture
def table(cluster: Cluster[N]) -> None:
    """One row with a number in it."""
    cluster.create_database(DATABASE)
    cluster.nodes[0].execute(f"CREATE TABLE {DATABASE}.t (id INT PRIMARY KEY, n INT NOT NULL)")
    cluster.nodes[0].execute(f"INSERT INTO {DATABASE}.t VALUES (1, 0)")
    for node in cluster.nodes:
        assert _number(node) == 0


def _number(node: N) -> Any:
    """Read what other nodes have committed, too."""
    return node.execute(node.sees_all, f"SELECT n FROM {DATABASE}.t")[0][0]


@pytest.fixture
def connect(table: None) -> Iterator[Connect]:
    """Opens a database that prefers the first of some nodes, with further parameters of its URL."""
    with ExitStack() as stack:
        yield lambda nodes, *parameters: stack.enter_context(
            opened(url_of(nodes, DATABASE, PATIENCE, *parameters))
        )


def add_one(tx: Transaction) -> None:
    """Lock, read, and write by compare-and-set, as the service does."""
    n = tx.connection.scalar(text("SELECT n FROM t WHERE id = 1 FOR UPDATE"))
    done = tx.connection.execute(text("UPDATE t SET n = n + 1 WHERE id = 1 AND n = :n"), {"n": n})
    if done.rowcount != 1:
        raise StaleRead


def test_conflicting_commits_of_two_nodes_are_tried_again(
    cluster: Cluster[N], connect: Connect
) -> None:
    """Both have written the row before either commits: the cluster lets one of them win (1213)."""
    both_wrote = threading.Barrier(2, timeout=ENDS_S)
    attempts = [0, 0]

    def write(place: int) -> None:
        def work(tx: Transaction) -> None:
            attempts[place] += 1
            add_one(tx)
            if attempts[place] == 1:
                both_wrote.wait()

        connect([cluster.nodes[place]]).write(work)

    with ThreadPoolExecutor(2) as writers:
        list(writers.map(write, range(2)))
    assert sum(attempts) >= 3
    assert _number(cluster.nodes[2]) == 2


def test_many_writers_through_all_nodes_lose_nothing(cluster: Cluster[N], connect: Connect) -> None:
    turns, threads = 10, 6
    dbs = [connect([cluster.nodes[place % 3]]) for place in range(threads)]
    for db in dbs:
        db._attempts = lambda: 1000

    def write(db: Database) -> None:
        for _ in range(turns):
            db.write(add_one)

    with ThreadPoolExecutor(threads) as writers:
        list(writers.map(write, dbs))
    assert _number(cluster.nodes[2]) == turns * threads


def test_a_read_after_a_write_elsewhere_sees_it(cluster: Cluster[N], connect: Connect) -> None:
    """With wsrep_sync_wait a read waits for what other nodes have committed."""
    writer = connect([cluster.nodes[0]])
    reader = connect([cluster.nodes[1]], cluster.read_your_writes)
    for turn in range(1, 101):
        writer.write(add_one)
        assert reader.read(lambda c: c.connection.scalar(text("SELECT n FROM t"))) == turn


def test_a_node_that_was_cut_off_is_left_for_another(cluster: GaleraCluster, connect: Connect) -> None:
    """Pooled connections to it still work, and every statement is refused with 1047."""
    lonely = cluster.nodes[2]
    flexible = connect(rotated(cluster.nodes, 2))
    faithful = connect([lonely])
    for db in (flexible, faithful):
        db.write(add_one)
    lonely.cut_off()
    try:
        wait_until("it notices", lambda: lonely.status("wsrep_ready") == "OFF")
        assert flexible.read(lambda c: c.connection.scalar(text("SELECT n FROM t"))) == 2
        flexible.write(add_one)
        with pytest.raises(errors.DatabaseUnavailable):
            faithful.write(add_one)
    finally:
        lonely.reconnect()
    cluster.wait_complete()
    faithful.write(add_one)
    assert _number(cluster.nodes[0]) == 4


@pytest.mark.usefixtures("table")
def test_a_dead_host_is_passed_over(cluster: Cluster[N]) -> None:
    nobody = f"host=127.0.0.1:{free_port()}"
    url = url_of(cluster.nodes, DATABASE).replace("?", f"?{nobody}&")
    with opened(url) as db:
        db.write(add_one)
    assert _number(cluster.nodes[0]) == 1


@pytest.mark.usefixtures("table")
def test_a_frozen_node_is_left_after_the_read_timeout(cluster: Cluster[N]) -> None:
    frozen = cluster.nodes[1]
    url = url_of(rotated(cluster.nodes, 1), DATABASE, "connect_timeout=1", "read_timeout=2")
    with opened(url) as db:
        db.write(add_one)
        frozen.freeze()
        try:
            frozen.wait_given_up()
            db.write(add_one)
            assert _number(cluster.nodes[0]) == 2
        finally:
            frozen.thaw()
    cluster.wait_complete()
