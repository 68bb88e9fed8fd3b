"""A SQLite file that another program keeps locked holds up a few writers and no reader."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import pytest
import webob
from sqlalchemy import text

from placement.db import schema, standard_names
from placement.db.database import Database
from placement.db.engine import make_engine
from placement.db.writer_queue import PATIENT_WRITERS
from tests.support.service import Service, configure

THREADS = 8
WRITERS = 20


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    database = Database(make_engine(f"sqlite:///{tmp_path}/p.sqlite"))
    schema.sync(database)
    standard_names.synchronise(database)
    yield Service(configure(), database)
    database.dispose()


def ended(waited_for: set[Future[webob.Response]]) -> set[Future[webob.Response]]:
    done, _ = wait(waited_for, timeout=20, return_when=FIRST_COMPLETED)
    assert done, "nobody gives a thread back"
    return done


def test_a_locked_file_leaves_threads_to_read_with(service: Service, tmp_path: Path) -> None:
    """Those that cannot wait are told when to come back; those that can are served in the end."""
    with (
        closing(sqlite3.connect(tmp_path / "p.sqlite", isolation_level=None)) as other,
        ThreadPoolExecutor(THREADS) as server,
    ):
        other.execute("BEGIN IMMEDIATE")
        writes = {
            server.submit(service.request, "PUT", f"/traits/CUSTOM_{n}", version="1.39")
            for n in range(WRITERS)
        }
        # One who writes, and those who wait for him.
        held_up = 1 + PATIENT_WRITERS
        while len(writes) > held_up:
            for refused in ended(writes):
                writes.discard(refused)
                assert refused.result().status_int == 503
                assert refused.result().headers["Retry-After"] == "1"
                assert "kept busy by others" in refused.result().text
        for _ in range(THREADS):
            read = server.submit(service.request, "GET", "/traits/HW_CPU_X86_VMX", version="1.39")
            assert read.result(timeout=20).status_int == 204
        assert not any(write.done() for write in writes)

        other.execute("COMMIT")
        assert {write.result(timeout=30).status_int for write in writes} == {201}


def test_writers_of_one_process_wait_for_one_another(tmp_path: Path) -> None:
    """However many they are: nobody is refused for contention alone."""
    database = Database(make_engine(f"sqlite:///{tmp_path}/p.sqlite"))
    database.write(lambda tx: tx.execute(text("CREATE TABLE counts (n INTEGER)")))
    database.write(lambda tx: tx.execute(text("INSERT INTO counts VALUES (0)")))

    def count(_: int) -> None:
        database.write(lambda tx: tx.execute(text("UPDATE counts SET n = n + 1")))

    with ThreadPoolExecutor(20) as writers:
        list(writers.map(count, range(400)))

    assert (
        database.read(lambda reader: reader.execute(text("SELECT n FROM counts")).scalar()) == 400
    )
    database.dispose()
