"""A pool that is used up, and attempts that the deadline ends.

PROMISE 7 and 9. The campaign meets both by chance; here they are there for certain.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from placement import errors
from placement.db import schema
from placement.db.database import Database, StaleRead
from placement.db.engine import make_engine
from tests.support.databases import KINDS, opened, scratch_database
from tests.support.service import Service, configure

POOL = {"pool_size": 1, "max_overflow": 0, "pool_timeout": 0.2}
TRAIT = "/traits/CUSTOM_A"
DEADLINE_S = 0.5
ATTEMPTS = 1000


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a database of each kind with our tables."""
    with scratch_database(request.param, schema.HEAD, named=True) as made:
        yield made


@contextmanager
def serving(url: str, **options: Any) -> Iterator[Service]:
    """Serve the database, opened with these options."""
    with opened(url, **options) as database:
        yield Service(configure("sqlite", placement_database__connection=url), database)


def test_a_pool_that_is_used_up_is_503_until_a_connection_is_given_back(url: str) -> None:
    """Requests wait for ``pool_timeout`` and no longer; nothing of them is written later."""
    with serving(url, pool=POOL) as service:
        with service.db.engine.connect():
            refused = [service.request(method, TRAIT, version="1.6") for method in ("PUT", "GET")]

        assert [each.status_int for each in refused] == [503, 503], refused[0].text
        assert "cannot be reached" in refused[0].json["errors"][0]["detail"]
        assert service.request("GET", TRAIT, version="1.6").status_int == 404
        assert service.request("PUT", TRAIT, version="1.6").status_int == 201


def test_waiting_for_a_connection_is_no_failure(url: str) -> None:
    """A pool of one serves many at once, one after the other."""

    def write(number: int) -> int:
        return service.request("PUT", f"/traits/CUSTOM_{number}", version="1.6").status_int

    with (
        serving(url, pool={**POOL, "pool_timeout": 30}) as service,
        ThreadPoolExecutor(12) as writers,
    ):
        assert list(writers.map(write, range(12))) == [201] * 12


def test_the_deadline_ends_the_attempts(url: str) -> None:
    """However many attempts are allowed, none begins after it; the client hears 409."""
    database = Database(make_engine(url), attempts=lambda: ATTEMPTS, deadline_s=DEADLINE_S)
    begun: list[Any] = []

    def in_vain(tx: Any) -> None:
        begun.append(tx)
        tx.connection.exec_driver_sql("SELECT 1")
        raise StaleRead

    with pytest.raises(errors.ConcurrentUpdate):
        database.write(in_vain)

    assert 1 < len(begun) < ATTEMPTS
    database.dispose()
