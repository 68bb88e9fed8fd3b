"""``db sync`` on two nodes of a cluster at once: one does it, the other waits for it."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import event

from placement.db import cluster_lock, schema
from placement.db.database import Database
from tests.support.cluster_arena import PATIENCE
from tests.support.clusters import Cluster, N, url_of
from tests.support.commands import kill_in_third
from tests.support.databases import opened
from tests.support.processes import ENDS_S, wait_until

DATABASE = "synchronised"
TURNS = 5


@pytest.fixture
def databases(running_cluster: Cluster[N]) -> Iterator[list[Database]]:
    """An empty database through each of two nodes."""
    running_cluster.wait_complete()
    running_cluster.create_database(DATABASE)
    one, two, _ = running_cluster.nodes
    with (
        opened(url_of([one], DATABASE, PATIENCE), patient=True) as first,
        opened(url_of([two], DATABASE, PATIENCE), patient=True) as second,
    ):
        yield [first, second]


@pytest.mark.parametrize("turn", range(TURNS))
def test_one_of_two_makes_the_schema(databases: list[Database], turn: int) -> None:
    done: list[str] = []
    together = threading.Barrier(2, timeout=ENDS_S)

    def sync(database: Database) -> None:
        together.wait()
        schema.sync(database, progress=done.append)

    with ThreadPoolExecutor(2) as both:
        list(both.map(sync, databases))

    assert done == list(schema.REVISIONS)
    assert [schema.current(each) for each in databases] == [schema.HEAD] * 2


def test_a_look_that_a_change_of_the_table_ends_is_repeated(databases: list[Database]) -> None:
    """Galera ends with 1213 what reads the table while another node creates it."""
    one, _ = databases
    ended: list[str] = []

    def end_first_two(
        _connection: object, cursor: Any, statement: str, *_others: object
    ) -> None:
        if statement.startswith("SELECT holder") and len(ended) < 2:
            ended.append(statement)
            cursor.execute("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213")

    event.listen(one.engine, "before_cursor_execute", end_first_two)
    with one.engine.connect() as connection, cluster_lock.held(connection, ENDS_S) as given:
        assert given
    assert len(ended) == 2


def test_another_goes_on_where_a_holder_was_killed(
    running_cluster: Cluster[N], databases: list[Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL in the middle of ``db sync``, and the next one through another node."""
    _, two = databases
    kill_in_third(running_cluster.nodes[0].url(DATABASE), "placement.db.schema._upgrade_one", "sync")
    # A node applies what another one has committed a moment later.
    wait_until("the other node has it", lambda: schema.current(two) == schema.REVISIONS[2])
    monkeypatch.setattr(cluster_lock, "SILENCE_S", 1.5)
    done: list[str] = []

    schema.sync(two, progress=done.append)

    assert done == list(schema.REVISIONS[3:])
    assert schema.current(two) == schema.HEAD


def test_the_lock_of_a_dead_holder_is_taken_over(
    databases: list[Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = databases
    with one.engine.connect() as connection, cluster_lock.held(connection, 1):
        # He does not count any more, and does not give it back.
        monkeypatch.setattr(cluster_lock, "SILENCE_S", 1.5)
        [[holder]] = connection.exec_driver_sql(f"SELECT holder FROM {cluster_lock.TABLE}")
        with two.engine.connect() as other, cluster_lock.held(other, 4) as given:
            assert not given
        connection.exec_driver_sql(f"UPDATE {cluster_lock.TABLE} SET holder = 'dead'")
        began = time.monotonic()
        with two.engine.connect() as other, cluster_lock.held(other, ENDS_S) as given:
            assert given
        assert time.monotonic() - began > 2 * cluster_lock.SILENCE_S
        assert holder != "dead"
