"""A database that neither answers nor hangs up holds nobody for ever, and the service says so.

PROMISE 7 and 9. The server is real, and stopped by a signal: its kernel goes on to acknowledge packets, so
that no timeout of TCP ends the wait.
"""

import contextlib
import importlib.util
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import requests
from sqlalchemy import Connection, exc

from placement import errors
from placement.db.address import UnusableUrl
from placement.db.database import Transaction
from placement.db.engine import make_engine
from tests.proofs.faults.servers import Server, server
from tests.support import deployment
from tests.support.client import headers
from tests.support.databases import is_mariadb, opened, require_mariadb, scratch_database
from tests.support.deployment import Site
from tests.support.processes import PATIENCE, public_folder, wait_until

DRIVERS = ("postgresql", "mysql+pymysql", "mysql+mysqldb")
THREADS = 3
READ_S, CONNECT_S, DEADLINE_S = 3, 2, 3
ENDS_S = DEADLINE_S + READ_S + CONNECT_S
"""An attempt that begins just before the deadline connects and reads once more."""

SLOW = 20
"""While the database is frozen the service may take so many times as long for itself as it took before."""

SETTINGS = f"""\
[placement_database]
attempts_deadline = {DEADLINE_S}
[healthcheck]
path = /healthcheck
"""
SHORT = f"connect_timeout={CONNECT_S}&read_timeout={READ_S}&write_timeout={READ_S}"
ASKED = {
    "postgresql": "SELECT current_setting('statement_timeout'), current_setting('lock_timeout'), "
    "current_setting('idle_in_transaction_session_timeout')",
    "mariadb": "SELECT @@max_statement_time, @@innodb_lock_wait_timeout, @@idle_transaction_timeout",
    # Milliseconds, and nothing for a transaction that is idle.
    "mysql": "SELECT @@max_execution_time, @@innodb_lock_wait_timeout",
}
DEFAULTS = {"postgresql": ("30s", "10s", "15s"), "mariadb": (30.0, 10, 15), "mysql": (30_000, 10)}
CHOSEN = {"postgresql": ("3s", "2s", "5s"), "mariadb": (3.0, 2, 5), "mysql": (3_000, 2)}
NONE = {"postgresql": ("0", "0", "0"), "mariadb": (0.0, 50, 0), "mysql": (0, 50)}
WHO_AM_I = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}
CONNECTED = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE pid = %s",
    "mysql": "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %s",
}
FOR_EVER_S = int(60 * PATIENCE)
"""What does not end before is not ended by the deadline that is tried; a busy machine is not that slow."""

IDLE = "a deadline for a transaction that is idle"

CHOICE = "statement_timeout=3&lock_timeout=2&idle_transaction_timeout=5"


def require_driver(driver: str) -> None:
    if driver.endswith("mysqldb") and importlib.util.find_spec("MySQLdb") is None:
        pytest.skip("mysqlclient is not installed")


@pytest.fixture(params=DRIVERS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    require_driver(request.param)
    with scratch_database(request.param.partition("+")[0]) as made:
        yield request.param + "://" + made.partition("://")[2]


def brand(url: str) -> str:
    """Return postgresql, mariadb or mysql."""
    if url.startswith("postgresql"):
        return "postgresql"
    return "mariadb" if is_mariadb() else "mysql"


def told(url: str, **options: Any) -> tuple[Any, ...]:
    engine = make_engine(url, **options)
    with contextlib.closing(engine.raw_connection()) as connection:
        cursor = connection.cursor()
        cursor.execute(ASKED[brand(url)])
        found = tuple(cursor.fetchone() or ())
    engine.dispose()
    return found


def test_the_server_is_told_of_deadlines(url: str) -> None:
    """Safe ones by default, others by the URL, and none for commands."""
    assert told(url) == DEFAULTS[brand(url)]
    assert told(f"{url}?{CHOICE}") == CHOSEN[brand(url)]
    assert told(url, patient=True) == NONE[brand(url)]


def test_what_was_set_elsewhere_stands() -> None:
    """For the database, by the driver's own parameter, or by nobody: each of three."""
    with scratch_database("postgresql") as made:
        engine = make_engine(made)
        with engine.connect() as connection:
            name = engine.url.database
            connection.exec_driver_sql(f"ALTER DATABASE {name} SET lock_timeout = '7s'")
        engine.dispose()

        assert told(f"{made}?options=-cstatement_timeout=9s") == ("9s", "7s", "15s")


@pytest.mark.parametrize("word", ["read_timeout=soon", "lock_timeout=1.5"])
def test_a_deadline_that_is_no_number_is_named(word: str) -> None:
    with pytest.raises(UnusableUrl, match=word.partition("=")[0]):
        make_engine(f"postgresql://nobody@127.0.0.1/none?{word}")


def test_a_statement_that_takes_too_long_is_ended_and_not_repeated(url: str) -> None:
    """By the server, which answers; the connection lives on, and the client hears 503."""
    sleep = {
        "postgresql": f"SELECT pg_sleep({FOR_EVER_S})",
        "mysql": f"SELECT SLEEP({FOR_EVER_S}) FROM information_schema.tables",
    }
    attempts = []

    def work(tx: Transaction) -> None:
        attempts.append(tx.attempt)
        tx.connection.exec_driver_sql(sleep[tx.dialect])

    with opened(f"{url}?statement_timeout=1") as database:
        with pytest.raises(errors.DatabaseBusy):
            database.write(work)

        assert attempts == [1]
        assert database.read(lambda tx: tx.connection.exec_driver_sql("SELECT 1").scalar()) == 1


def lock_a_row(connection: Connection) -> None:
    """Make a table of one row, and begin a transaction that holds it."""
    connection.exec_driver_sql("CREATE TABLE t (a int primary key)")
    connection.exec_driver_sql("INSERT INTO t VALUES (1)")
    connection.exec_driver_sql("BEGIN")
    connection.exec_driver_sql("SELECT a FROM t FOR UPDATE")


def test_a_held_lock_is_waited_for_no_longer_than_said(url: str) -> None:
    """By each as its own URL says: the one who may wait longer gets the lock in the end."""
    longer = make_engine(f"{url}?lock_timeout={FOR_EVER_S}&statement_timeout={FOR_EVER_S}")
    shorter = make_engine(f"{url}?lock_timeout=1")
    with (
        ThreadPoolExecutor(1) as other,
        longer.connect() as holder,
        longer.connect() as patient,
        shorter.connect() as waiter,
    ):
        lock_a_row(holder)
        for connection in (patient, waiter):
            connection.exec_driver_sql("BEGIN")
        locked = other.submit(patient.exec_driver_sql, "SELECT a FROM t FOR UPDATE")
        began = time.monotonic()
        with pytest.raises(exc.OperationalError):
            waiter.exec_driver_sql("SELECT a FROM t FOR UPDATE")
        assert time.monotonic() - began > 0.9
        assert not locked.done()
        waiter.exec_driver_sql("ROLLBACK")
        holder.exec_driver_sql("ROLLBACK")
        assert locked.result().scalar() == 1
        patient.exec_driver_sql("ROLLBACK")
    longer.dispose()
    shorter.dispose()


@pytest.mark.parametrize("written", [False, True], ids=["locked", "written"])
def test_the_locks_of_a_worker_that_falls_silent_are_freed(url: str, written: bool) -> None:
    """Whether it has written already or not; who waits for them gets them."""
    if brand(url) == "mysql":
        require_mariadb(IDLE)
    waits = f"lock_timeout={FOR_EVER_S}&statement_timeout={FOR_EVER_S}"
    engine = make_engine(f"{url}?idle_transaction_timeout=1&{waits}")
    with engine.connect() as waiter, engine.connect() as silent:
        lock_a_row(silent)
        if written:
            silent.exec_driver_sql("UPDATE t SET a = 2")

        waiter.exec_driver_sql("BEGIN")
        try:
            assert waiter.exec_driver_sql("SELECT a FROM t FOR UPDATE").scalar() == 1
        finally:
            silent.invalidate()
            waiter.invalidate()
    engine.dispose()


def test_a_worker_that_was_silent_for_too_long_begins_again(url: str) -> None:
    """When it goes on, its transaction is gone; its client hears nothing of that."""
    if brand(url) == "mysql":
        require_mariadb(IDLE)
    attempts = []

    def is_connected(number: int) -> Any:
        return database.read(
            lambda other: other.connection.exec_driver_sql(CONNECTED[other.dialect], (number,))
        ).scalar()

    def work(tx: Transaction) -> Any:
        attempts.append(tx.connection.exec_driver_sql(WHO_AM_I[tx.dialect]).scalar())
        if len(attempts) == 1:
            wait_until("the server ends it", lambda: not is_connected(attempts[0]))
        return tx.connection.exec_driver_sql("SELECT 2").scalar()

    with opened(f"{url}?idle_transaction_timeout=1") as database:
        assert database.write(work) == 2
    assert len(attempts) == 2


@pytest.fixture(params=DRIVERS)
def frozen(request: pytest.FixtureRequest) -> Iterator[tuple[Site, Server, float]]:
    """The service with all its connections open, on a database that has just been frozen.

    The third: in how many seconds it has answered before, at the longest.
    """
    require_driver(request.param)
    with (
        server(request.param.partition("+")[0]) as made,
        public_folder("placement-frozen-") as folder,
    ):
        url = request.param + "://" + made.url(made.port).partition("://")[2]
        environment = deployment.prepare(folder, f"{url}?{SHORT}", SETTINGS)
        with deployment.builtin(folder, environment, "--threads", str(THREADS)) as site:
            at_once(site, THREADS)
            usual_s = max(took_s for _, took_s in at_once(site, 2 * THREADS))
            made.freeze()
            try:
                yield site, made, usual_s
            finally:
                made.thaw()


def ask(site: Site, number: int) -> tuple[requests.Response, float]:
    began = time.monotonic()
    method, path = (("GET", "/traits"), ("PUT", f"/traits/CUSTOM_{number}"))[number % 2]
    answer = requests.request(method, site.url + path, headers=headers(), timeout=120 * PATIENCE)
    return answer, time.monotonic() - began


def at_once(site: Site, count: int) -> list[tuple[requests.Response, float]]:
    with ThreadPoolExecutor(count) as crowd:
        return list(crowd.map(partial(ask, site), range(count)))


def health(site: Site) -> tuple[int, str, float]:
    began = time.monotonic()
    answer = requests.get(f"{site.url}/healthcheck", timeout=30 * PATIENCE)
    return answer.status_code, answer.text, time.monotonic() - began


@pytest.mark.ci
def test_a_frozen_database_holds_nobody_for_ever(frozen: tuple[Site, Server, float]) -> None:
    site, made, usual_s = frozen
    slack_s = (1 + SLOW * usual_s) * PATIENCE
    with ThreadPoolExecutor(1) as beside:
        # Twice as many as there are threads.
        crowd = beside.submit(at_once, site, 2 * THREADS)
        status, text, took_s = health(site)
        assert (status, text) == (503, "The database has not answered for 2 seconds.")
        assert took_s < CONNECT_S + slack_s
        answers = crowd.result()

    assert {answer.status_code for answer, _ in answers} == {503}
    assert {answer.headers.get("Retry-After") for answer, _ in answers} == {"1"}
    # Who found a thread at once has waited out the deadlines; who came after them waited for one.
    assert max(took_s for _, took_s in answers) < 2 * (ENDS_S + slack_s)
    # Now the silence is known, and one at a time is enough to find out when it ends.
    wait_until(
        "two are refused before the one has tried",
        lambda: sorted(took_s for _, took_s in at_once(site, THREADS))[1] < CONNECT_S,
    )
    assert health(site)[0] == 503

    made.thaw()
    wait_until("it is healthy", lambda: health(site)[0] == 200)
    wait_until("it works", lambda: {a.status_code for a, _ in at_once(site, 3)} <= {200, 201, 204})
