"""Several hosts are named and none of them takes writes, as in the seconds of a failover.

PROMISE 7. One server under two names is enough: what is tried is how its clients look for another one.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from placement import errors
from placement.db import engine, schema, standard_names
from placement.db.database import Database, Transaction
from tests.proofs.faults.servers import PostgreSQL, Server, server
from tests.support.databases import opened
from tests.support.service import Service, configure

pytestmark = pytest.mark.ci
TRAIT = "/traits/CUSTOM_A"


@pytest.fixture(scope="module")
def made() -> Iterator[Server]:
    with server("mysql") as given, opened(given.url(given.port), patient=True) as db:
        schema.sync(db)
        standard_names.synchronise(db)
        yield given


@pytest.fixture
def replica(made: Server) -> Iterator[Server]:
    """A server that takes no writes."""
    made.read_only(True)
    try:
        yield made
    finally:
        made.read_only(False)


def named_by(*hosts: str, of: Server) -> str:
    named = "&".join(f"host={host}:{of.port}" for host in hosts)
    return f"mysql+pymysql://placement@/placement?{named}"


@pytest.fixture
def database(replica: Server) -> Iterator[Database]:
    with opened(named_by("127.0.0.1", "127.0.0.1", of=replica)) as db:
        yield db


def connection_of(db: Database) -> Any:
    return db.read(lambda reader: reader.connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar())


def test_reads_are_answered_and_writes_are_told_why(database: Database) -> None:
    service = Service(configure("sqlite"), database)

    refused = service.request("PUT", TRAIT, version="1.6")

    assert refused.status_int == 503
    [error] = refused.json["errors"]
    assert "takes no writes" in error["detail"]
    assert service.request("GET", "/traits", version="1.6").status_int == 200
    assert service.request("GET", TRAIT, version="1.6").status_int == 404


@pytest.mark.parametrize(("hosts", "is_written"), [(2, True), (1, False)])
def test_a_write_is_tried_until_a_server_takes_it(replica: Server, hosts: int, is_written: bool) -> None:
    """Where one host is named, its clients would wait for nothing."""
    attempts = []

    def work(tx: Transaction) -> None:
        attempts.append(tx.attempt)
        if tx.attempt == 4:
            replica.read_only(False)
        tx.connection.exec_driver_sql("INSERT INTO traits (name) VALUES ('CUSTOM_B')")

    with opened(named_by(*["127.0.0.1"] * hosts, of=replica)) as db:
        if is_written:
            db.write(work)
        else:
            with pytest.raises(errors.DatabaseReadOnly):
                db.write(work)

    assert attempts == ([1, 2, 3, 4] if is_written else [1, 2])


def test_a_command_takes_none_that_takes_no_writes(replica: Server) -> None:
    url = named_by("127.0.0.1", "127.0.0.1", of=replica)
    with opened(url, patient=True) as db, pytest.raises(errors.DatabaseUnavailable):
        connection_of(db)


def test_a_server_that_takes_no_writes_is_left_after_a_while(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers too look for one that does."""
    before = connection_of(database)
    assert connection_of(database) == before
    monkeypatch.setattr(engine, "REPLICA_S", 0.0)
    assert connection_of(database) == before

    assert connection_of(database) != before


@pytest.fixture
def standby() -> Iterator[Service]:
    """The service on a PostgreSQL server that is in recovery: a cluster failed over without us."""
    with server("postgresql") as made:
        assert isinstance(made, PostgreSQL)
        url = made.url(made.port)
        with opened(url) as db:
            schema.sync(db)
            service = Service(configure("sqlite", placement_database__connection=url), db)
            made.become_standby()
            yield service


def test_a_standby_serves_reads_and_says_that_it_takes_no_writes(standby: Service) -> None:
    """It is 503, not 500: another server may take them."""
    refused = standby.request("POST", "/resource_providers", json={"name": "a"}, version="1.39")

    assert refused.status_int == 503, refused.text
    assert "takes no writes" in refused.json["errors"][0]["detail"]
    assert standby.request("GET", "/resource_providers").status_int == 200
