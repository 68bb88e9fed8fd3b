"""A pool that is used up, and attempts that the deadline ends.

PROMISE 7 and 9. The campaign meets both by chance; here they are there for certain.
"""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from placement import errors
from placement.db import schema
from placement.db.database import Database, StaleRead
from placement.db.engine import make_engine
from tests.support.databases import KINDS, scratch_database
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


def test_a_pool_that_is_used_up_is_503_until_a_connection_is_given_back(url: str) -> None:
    """Requests wait for ``pool_timeout`` and no longer; nothing of them is written later."""
    database = Database(make_engine(url, pool=POOL))
    service = Service(configure("sqlite", placement_database__connection=url), database)
    with database.engine.connect():
        refused = [service.request(method, TRAIT, version="1.6") for method in ("PUT", "GET")]

    assert [each.status_int for each in refused] == [503, 503], refused[0].text
    assert "cannot be reached" in refused[0].json["errors"][0]["detail"]
    assert service.request("GET", TRAIT, version="1.6").status_int == 404
    assert service.request("PUT", TRAIT, version="1.6").status_int == 201
    database.dispose()


def test_waiting_for_a_connection_is_no_failure(url: str) -> None:
    """A pool of one serves many at once, one after the other."""
    database = Database(make_engine(url, pool={**POOL, "pool_timeout": 30}))
    service = Service(configure("sqlite", placement_database__connection=url), database)
    statuses: list[int] = []

    def write(number: int) -> None:
        answer = service.request("PUT", f"/traits/CUSTOM_{number}", version="1.6")
        statuses.append(answer.status_int)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert statuses == [201] * 12
    database.dispose()


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
