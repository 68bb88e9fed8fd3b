"""A real service for the client's tests: over HTTP, behind a faulty proxy, and in process."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import waitress
from keystoneauth1 import adapter, session
from oslo_config import cfg
from waitress import wasyncore

from placement import conf as options
from placement import db_api, deploy
from placement.client import drivers
from placement.client.report import ReportClient
from placement.db import schema
from placement.direct import PlacementDirect
from placement.web.request_log import WSGIApp
from tests.client.proxy import FaultyProxy
from tests.client.world import Recorder, World
from tests.support.databases import scratch_database
from tests.support.processes import ENDS_S
from tests.support.service import configure


def make_conf(folder: Path, database_url: str) -> cfg.ConfigOpts:
    """Return the configuration of a service on a database, written into ``folder``."""
    conf = cfg.ConfigOpts()
    options.register_opts(conf)
    drivers.register_options(conf)
    path = folder / "placement.conf"
    path.write_text(
        "[api]\nauth_strategy = noauth2\n[placement_database]\n"
        f"connection = {database_url}\nsqlite_synchronous = false\n"
    )
    conf([], project="placement", default_config_files=[str(path)])
    return conf


def configured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cfg.ConfigOpts]:
    """The configuration of one database, for all tests of a package or module."""
    db_api.reset()
    with scratch_database("sqlite", schema.HEAD, named=True) as database_url:
        yield make_conf(tmp_path_factory.mktemp("client"), database_url)
        db_api.reset()


conf = pytest.fixture(scope="package")(configured)
"""Names keep the tests apart."""


@contextlib.contextmanager
def serving(application: WSGIApp) -> Iterator[str]:
    """Serve a WSGI application on a free port; yields its URL."""
    sockets: dict[int, Any] = {}
    server = waitress.create_server(
        application, map=sockets, host="127.0.0.1", port=0, threads=4, asyncore_loop_timeout=0.2
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.effective_port}"
    finally:
        server.task_dispatcher.shutdown()
        pulled = threading.Event()

        def close() -> None:
            # The loop may wake up by itself, and the trigger is one of its sockets: it is written to first.
            pulled.wait(ENDS_S)
            wasyncore.close_all(sockets, ignore_all=True)

        # In the loop's own thread, and kept-alive connections too, or it would go on.
        server.trigger.pull_trigger(close)
        pulled.set()
        thread.join(ENDS_S)
        assert not thread.is_alive()


def http_adapter(url: str, token: str = "admin", roles: str = "admin,service") -> adapter.Adapter:
    """Return an adapter, unless told otherwise for who may do everything, the reshape included."""
    return adapter.Adapter(
        session.Session(),
        service_type="placement",
        endpoint_override=url,
        additional_headers={"X-Auth-Token": token, "X-Roles": roles},
        raise_exc=False,
    )


def serving_trees(conf: cfg.ConfigOpts) -> Iterator[str]:
    """The URL of the service of the database, which shows whole trees; in process it does not."""
    showing = configure(
        placement_database__connection=conf.placement_database.connection,
        placement_database__sqlite_synchronous=False,
        insight__enabled=True,
    )
    with serving(deploy.loadapp(showing)) as url:
        yield url


url = pytest.fixture(scope="package")(serving_trees)


@pytest.fixture
def http(url: str) -> Iterator[adapter.Adapter]:
    """An adapter, over HTTP in any case."""
    made = http_adapter(url)
    yield made
    made.session.session.close()


@pytest.fixture
def direct(conf: cfg.ConfigOpts) -> Iterator[PlacementDirect]:
    """An adapter, in process in any case."""
    with PlacementDirect(conf) as made:
        yield made


@pytest.fixture(params=["http", "direct"])
def connection(request: pytest.FixtureRequest) -> adapter.Adapter:
    """An adapter, over HTTP and in process."""
    made: adapter.Adapter = request.getfixturevalue(request.param)
    return made


@pytest.fixture
def recorder(connection: adapter.Adapter) -> Iterator[Recorder]:
    """The adapter, noting each request and letting others write in between, which they must have done."""
    made = Recorder(connection)
    yield made
    made.require_interruptions()


@pytest.fixture
def client(recorder: Recorder) -> ReportClient:
    """A client whose requests are noted."""
    return ReportClient(recorder)


@pytest.fixture
def world(connection: adapter.Adapter) -> World:
    """Somebody else who reads and writes the same service."""
    return World(connection)


@pytest.fixture
def proxy(url: str) -> Iterator[FaultyProxy]:
    """A proxy before the service, which has no faults yet."""
    with FaultyProxy(url) as proxy:
        yield proxy
