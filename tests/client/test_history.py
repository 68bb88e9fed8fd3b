"""The history of writes in Python, on a real service over HTTP (specification 07 section 11)."""

from collections.abc import Iterator

import pytest

from placement.client.history import HistoryClient, HistoryNotRead
from tests.client.conftest import http_adapter, serving
from tests.support.service import Service, running
from tests.support.world import World, new_uuid


@pytest.fixture
def service() -> Iterator[Service]:
    """The service, which keeps the history."""
    with running("sqlite", insight__enabled=True, insight__history_days=30.0) as made:
        yield made


@pytest.fixture
def history(service: Service) -> Iterator[HistoryClient]:
    """A client of it."""
    with serving(service.application) as url:
        adapter = http_adapter(url)
        yield HistoryClient(adapter)
        adapter.session.session.close()


def test_pages_are_one_after_the_other(history: HistoryClient, service: Service) -> None:
    world, server = World(service), new_uuid()
    host = world.host(VCPU=8)
    world.claim({host: {"VCPU": 2}}, server, project_id="demo")
    world.release(server)

    for size in (1, 2, 1000):
        writes = list(history.writes(page_size=size))
        assert [each["method"] for each in writes] == ["DELETE", "PUT", "PUT", "POST"]
    removal, claim = history.writes(consumer=server)
    assert removal["before"] == claim["after"]
    assert list(history.writes(provider=host, project_id="demo")) == [removal, claim]
    assert list(history.writes(request_id=claim["request_id"])) == [claim]
    assert list(history.writes(since=removal["at"], until="2000-01-01T00:00:00Z")) == []


def test_what_is_refused_is_raised(history: HistoryClient, service: Service) -> None:
    with pytest.raises(HistoryNotRead, match="since"):
        next(history.writes(since="yesterday"))
    service.db.watchers = ()
    with pytest.raises(HistoryNotRead, match="history_days"):
        next(history.writes())
