"""A SQLite file that another program keeps locked holds up a few writers and no reader."""

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import webob
from sqlalchemy import text

from placement.db import queues
from placement.db.database import Database
from placement.db.engine import make_engine
from placement.db.queues import PATIENT_WRITERS
from placement.errors import DatabaseBusy
from tests.support.commands import FORKS
from tests.support.databases import opened, synced
from tests.support.processes import PATIENCE
from tests.support.service import Service, configure

THREADS = 8
WRITERS = 20
ANSWER_S = 60 * PATIENCE


@pytest.fixture
def service() -> Iterator[Service]:
    with synced("sqlite") as database:
        yield Service(configure(), database)


def ended(waited_for: set[Future[webob.Response]]) -> set[Future[webob.Response]]:
    done, _ = wait(waited_for, timeout=ANSWER_S, return_when=FIRST_COMPLETED)
    assert done, "nobody gives a thread back"
    return done


def test_a_locked_file_leaves_threads_to_read_with(service: Service) -> None:
    """Those that cannot wait are told when to come back; those that can are served in the end."""
    file = service.db.engine.url.database
    assert file is not None
    with (
        closing(sqlite3.connect(file, isolation_level=None)) as other,
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
            assert read.result(timeout=ANSWER_S).status_int == 204
        assert not any(write.done() for write in writes)

        other.execute("COMMIT")
        assert {write.result(timeout=ANSWER_S).status_int for write in writes} == {201}


@pytest.fixture
def counter(tmp_path: Path) -> Iterator[Database]:
    """A file with one number, which is nought."""
    with opened(f"sqlite:///{tmp_path}/p.sqlite") as database:
        database.write(lambda tx: tx.connection.execute(text("CREATE TABLE counts (n INTEGER)")))
        database.write(lambda tx: tx.connection.execute(text("INSERT INTO counts VALUES (0)")))
        yield database


def counted(counter: Database) -> Any:
    return counter.read(lambda reader: reader.value(text("SELECT n FROM counts")))


def test_writers_of_one_process_wait_for_one_another(counter: Database) -> None:
    """However many they are: nobody is refused for contention alone."""

    def count(_: int) -> None:
        counter.write(lambda tx: tx.connection.execute(text("UPDATE counts SET n = n + 1")))

    with ThreadPoolExecutor(20) as writers:
        list(writers.map(count, range(400)))

    assert counted(counter) == 400


def write_for(url: str, seconds: float) -> tuple[int, int]:
    """Write with eight threads and no pause; return how many did, and how many were refused."""
    # What was found to be enough (placement.db.queues) holds for processors that these processes have alone.
    queues.PATIENCE_S *= PATIENCE
    database = Database(make_engine(url))
    step = text("UPDATE counts SET n = n + 1")
    end = time.monotonic() + seconds
    counts = Counter[str]()

    def write(_: int) -> None:
        while time.monotonic() < end:
            try:
                # As many statements as a claim has.
                database.write(lambda tx: [tx.connection.execute(step) for _ in range(8)])
                counts["written"] += 1
            except DatabaseBusy:
                counts["refused"] += 1

    with ThreadPoolExecutor(8) as writers:
        list(writers.map(write, range(8)))
    database.dispose()
    return counts["written"], counts["refused"]


def test_writers_of_several_processes_wait_for_one_another(counter: Database) -> None:
    """SQLite lets them poll for their turn, so that one may wait for a second and more."""
    given = (str(counter.engine.url), 6.0)
    with FORKS.Pool(4) as processes:
        written, refused = zip(*processes.starmap(write_for, [given] * 4), strict=True)

    assert (counted(counter), sum(refused)) == (8 * sum(written), 0)
