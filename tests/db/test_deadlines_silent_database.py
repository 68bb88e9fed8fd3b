"""A database that takes connections and never says a word holds up no command for longer than it says."""

import contextlib
import re
import socket
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine, exc, make_url, text

from placement.cmd import manage, status
from placement.db.deadlines import connect, longest_attempt_s
from tests.support.databases import opened, scratch_database, scratch_route
from tests.support.processes import PATIENCE, free_port
from tests.support.programs import command as command
from tests.support.programs import environment as environment

SLOW = 20
"""A command may take so many times as long beside the waiting as where nothing listens."""

POSTGRESQL, MYSQL = "postgresql+psycopg2", "mysql+pymysql"
CONNECT_S = int(PATIENCE)
"""For so long each host is waited for."""

COMMANDS = {
    "db version": (manage.run, ["db", "version"]),
    "db sync": (manage.run, ["db", "sync"]),
    "db check": (manage.run, ["db", "check"]),
    "config check": (manage.run, ["config", "check"]),
    "upgrade check": (status.run, ["upgrade", "check"]),
}


@contextlib.contextmanager
def silent(family: socket.AddressFamily, address: str) -> Iterator[int]:
    """Listen and never accept: the kernel takes the connections; yield the port."""
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        try:
            listener.bind((address, 0))
        except OSError:
            pytest.skip(f"no {address} on this machine")
        listener.listen(16)
        yield listener.getsockname()[1]


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_API__AUTH_STRATEGY", "noauth2")
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__MAX_RETRIES", "0")
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__RETRY_INTERVAL", "1")


def gives_up(command: str, url: str, deadline_s: float, capfd: pytest.CaptureFixture[str]) -> None:
    """Run a command; fail if it takes longer, or does not say what is wrong."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OS_PLACEMENT_DATABASE__MAX_RETRIES", "0")
        usual_s = failing_s(command, f"{MYSQL}://p:s3cret@127.0.0.1:{free_port()}/placement?")
    capfd.readouterr()
    took_s = failing_s(command, url)

    assert took_s < deadline_s + (1 + SLOW * usual_s) * PATIENCE
    said = capfd.readouterr()
    assert "cannot be reached" in said.err + said.out


def failing_s(command: str, url: str) -> float:
    """Run a command, which fails, and return how long it takes."""
    run, argv = COMMANDS[command]
    began = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", f"{url}connect_timeout=1")
        assert run(list(argv)) == 1
    return time.monotonic() - began


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_gives_up(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    with silent(socket.AF_INET, "127.0.0.1") as port:
        gives_up(command, f"{MYSQL}://p:s3cret@127.0.0.1:{port}/placement?", 1, capfd)


@pytest.mark.parametrize("scheme", [POSTGRESQL, MYSQL])
def test_all_attempts_together_take_what_was_printed(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    scheme: str,
) -> None:
    """Two retries after a second each, and one attempt of a second: three seconds."""
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__MAX_RETRIES", "2")

    with silent(socket.AF_INET, "127.0.0.1") as port:
        gives_up("db version", f"{scheme}://p:s3cret@127.0.0.1:{port}/placement?", 3, capfd)

    assert re.findall(r"for (\d+) s more at the most", caplog.text) == ["2"]


@pytest.mark.parametrize("scheme", [POSTGRESQL, MYSQL])
def test_version_6_of_the_protocol(scheme: str, capfd: pytest.CaptureFixture[str]) -> None:
    with silent(socket.AF_INET6, "::1") as port:
        gives_up("db version", f"{scheme}://p:s3cret@[::1]:{port}/placement?", 1, capfd)


@pytest.mark.parametrize("scheme", [POSTGRESQL, MYSQL])
def test_several_hosts(scheme: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Each of them has its time."""
    with silent(socket.AF_INET, "127.0.0.1") as one, silent(socket.AF_INET, "127.0.0.2") as other:
        hosts = f"host=127.0.0.1:{one}&host=127.0.0.2:{other}&"
        gives_up("db version", f"{scheme}://p:s3cret@/placement?{hosts}", 2, capfd)


def test_libpq_goes_on_from_a_silent_host_to_the_next() -> None:
    """It does not where psycopg2 has a wait callback (:mod:`placement.db.deadlines`)."""
    with scratch_database("postgresql") as made, silent(socket.AF_INET, "127.0.0.1") as port:
        url = make_url(made)
        hosts = [f"127.0.0.1:{port}", f"{url.host}:{url.port or 5432}"]
        both = url.set(host=None, port=None).update_query_dict({"host": hosts})
        limit = f"connect_timeout={CONNECT_S + 1}"
        with opened(f"{both.render_as_string(hide_password=False)}&{limit}") as database:
            assert database.read(lambda reader: reader.value(text("SELECT 1"))) == 1


@pytest.mark.mysql
@pytest.mark.parametrize("route", ["pymysql", "mysqlclient"])
def test_mariadb_goes_on_from_a_silent_host_to_the_next(route: str) -> None:
    """After its ``connect_timeout``; and the next may be a server that is in no cluster."""
    with scratch_route(route) as made, silent(socket.AF_INET, "127.0.0.1") as port:
        url = make_url(made)
        hosts = [f"127.0.0.1:{port}", f"{url.host}:{url.port or 3306}"]
        both = url.set(host=None, port=None).update_query_dict({"host": hosts})
        limits = f"connect_timeout={CONNECT_S}&read_timeout=600"
        with opened(f"{both.render_as_string(hide_password=False)}&{limits}") as database:
            assert database.read(lambda reader: reader.value(text("SELECT 1"))) == 1
            # The connection that was made has the time that statements have.
            longer = f"SELECT SLEEP({CONNECT_S + 1})"
            assert database.read(lambda reader: reader.value(text(longer))) == 0


def test_an_attempt_that_hangs_leaves_room_for_the_next() -> None:
    """Or a service that tries for ever would end when its pool is full of them."""
    with silent(socket.AF_INET, "127.0.0.1") as port:
        url = f"{MYSQL}://p@127.0.0.1:{port}/placement"
        engine = create_engine(url, pool_size=1, max_overflow=0, pool_timeout=0.1)

        for _ in range(2):
            with pytest.raises(exc.OperationalError, match="no answer"):
                connect(engine, 0.2)


def test_a_name_with_several_addresses_has_the_time_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``localhost`` has where both families are: drivers try one after the other."""
    found = [(None, None, None, "", (address, 0)) for address in ("127.0.0.1", "::1", "::1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    url = make_url("postgresql://placement@localhost/placement?connect_timeout=4")

    assert longest_attempt_s(url) == 8
