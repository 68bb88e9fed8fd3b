"""GET /healthcheck: off unless configured, and it knows whether the database answers."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from placement.advice import NotConfigured
from placement.db.database import Database
from placement.db.engine import make_engine
from tests.proofs.faults.proxy import Proxy
from tests.support.databases import require
from tests.support.service import Service, configure, database, database_url, running

PATH = "/healthcheck"
SERVERS = ("postgresql", "mysql")


def check(service: Service, method: str = "GET", **headers: str) -> tuple[int, str]:
    answer = service.request(method, PATH, x_auth_token=None, **headers)
    return answer.status_int, answer.text


def test_there_is_none_by_default() -> None:
    with running() as service:
        assert check(service)[0] == 401
        assert service.request("GET", PATH).status_int == 404


def test_nobody_needs_a_token() -> None:
    with running(healthcheck__path=PATH) as service:
        assert check(service) == (200, "OK")
        assert check(service, "HEAD") == (204, "")
        reasons = json.loads(check(service, accept="application/json")[1])
        assert reasons == {"detailed": False, "reasons": ["OK"]}
        assert service.request("GET", "/traits", x_auth_token=None).status_int == 401
        assert service.request("GET", "/").status_int == 200


def test_any_option_of_the_group_turns_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_HEALTHCHECK__ALLOWED_SOURCE_RANGES", "192.0.2.0/24")
    with running() as service:
        there, elsewhere = (
            service.request("GET", PATH, environ={"REMOTE_ADDR": ip}).status_int
            for ip in ("192.0.2.7", "198.51.100.7")
        )
    assert (there, elsewhere) == (200, 404)


def test_its_path_can_be_chosen() -> None:
    with running(healthcheck__path="/alive") as service:
        assert check(service)[0] == 401
        assert service.request("GET", "/alive", x_auth_token=None).text == "OK"


def test_configured_back_ends_are_asked_besides_the_database(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each of several services in one process has its own; who names the database has it once."""
    switch = tmp_path / "off"
    monkeypatch.setenv("OS_HEALTHCHECK__DISABLE_BY_FILE_PATH", str(switch))
    with contextlib.ExitStack() as services:
        plain = services.enter_context(running(healthcheck__path=PATH))
        monkeypatch.setenv("OS_HEALTHCHECK__BACKENDS", "disable_by_file")
        switched = services.enter_context(running(healthcheck__path=PATH))
        monkeypatch.setenv("OS_HEALTHCHECK__BACKENDS", "disable_by_file,placement_database")
        both = services.enter_context(running(healthcheck__path=PATH))
        for service in (switched, both):
            reasons = json.loads(check(service, accept="application/json")[1])["reasons"]
            assert reasons == ["OK", "OK"]
        switch.touch()
        assert [check(one)[0] for one in (plain, switched, both)] == [200, 503, 503]


def test_without_its_entry_point_it_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an installation of an earlier version; it would say OK without asking the database."""
    monkeypatch.setattr("placement.web.healthcheck.BACKEND", "not_installed")
    with pytest.raises(NotConfigured, match="not_installed"), running(healthcheck__path=PATH):
        pass


@pytest.fixture(params=SERVERS)
def cut_off(request: pytest.FixtureRequest) -> Iterator[tuple[Service, Proxy]]:
    """A service whose way to the database can be cut."""
    require(request.param)
    database(request.param)
    url = make_url(database_url(request.param))
    proxy = Proxy(url.port or {"postgresql": 5432, "mysql": 3306}[request.param])
    through = url.set(host="127.0.0.1", port=proxy.port)
    db = Database(make_engine(through.render_as_string(hide_password=False)))
    try:
        yield Service(configure(request.param, healthcheck__path=PATH), db), proxy
    finally:
        db.dispose()
        proxy.close()


def test_it_tells_of_a_database_that_cannot_be_reached(cut_off: tuple[Service, Proxy]) -> None:
    service, proxy = cut_off
    assert check(service) == (200, "OK")

    proxy.refuses = True
    proxy.cut_all()
    status, text = check(service)
    assert (status, check(service, "HEAD")[0]) == (503, 503)
    assert text.startswith("The database cannot be reached")

    proxy.flow()
    assert check(service) == (200, "OK")
