"""Clients that break off, fall silent or speak no HTTP get an answer, and leave one line in the log."""

import contextlib
import http.client
import socket
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import deployment
from tests.support.deployment import Site, shipped
from tests.support.processes import PATIENCE

pytestmark = pytest.mark.deploy

HEAD = (
    b"POST %s/resource_providers HTTP/1.1\r\nHost: h\r\nX-Auth-Token: admin\r\n"
    b"Content-Type: application/json\r\nContent-Length: 20000\r\nConnection: close\r\n\r\n"
)
PART = b'{"name": "' + b"x" * 9000
Logs = Sequence[Path]
HELD_S = 10
"""For so long uWSGI waits for one of them."""

SLOW = 10
"""Beside slow clients others may wait so many times as long as alone; with their share of the processor."""


def port(site: Site) -> int:
    return int(site.url.split("/")[2].rpartition(":")[2])


def connected(site: Site) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port(site)), 40 * PATIENCE)


def status(connection: socket.socket) -> int:
    """Return the status of the answer, 0 if the connection was closed without one."""
    with contextlib.closing(http.client.HTTPResponse(connection)) as response:
        try:
            response.begin()
        except (http.client.BadStatusLine, ConnectionError):
            return 0
        return response.status


def upload_part(site: Site) -> socket.socket:
    connection = connected(site)
    connection.sendall(HEAD % site.prefix.encode() + PART)
    return connection


def check_uploads(site: Site, logs: Logs) -> None:
    """An upload that ends, stalls or is reset before its time is the client's fault."""
    # Apache says 500 itself of a body that breaks off; the service has said 400.
    refusals = {0, 400, 408} | ({500} if site.master.name == "apache" else set())
    with upload_part(site) as ended:
        ended.shutdown(socket.SHUT_WR)
        assert status(ended) in refusals
    with upload_part(site) as stalled:
        assert status(stalled) in refusals
    with upload_part(site) as reset:
        reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    check(site, logs)


def check_request_lines(site: Site, logs: Logs) -> None:
    """What is no request is refused, or ends the connection; some servers overlook odd protocols."""
    for sent in (
        b"GARBAGE\r\n\r\n",
        b"\0\1\2\3\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /traits\r\n\r\n",
        b"GET  HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1 x\r\nHost: h\r\n\r\n",
        b" / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET / <script>/9\r\nHost: h\r\n\r\n",
    ):
        with connected(site) as connection:
            connection.sendall(sent.replace(b"\r\nHost", b"\r\nX-Auth-Token: admin\r\nHost"))
            connection.shutdown(socket.SHUT_WR)
            assert status(connection) < 500, sent
    check(site, logs)


def check_slow_clients(site: Site, logs: Logs, count: int) -> None:
    """Requests that stop half way, in their headers or in their body, keep nobody waiting."""
    begun = HEAD % site.prefix.encode() + PART
    with contextlib.ExitStack() as opened:
        for number in range(count):
            slow = opened.enter_context(connected(site))
            slow.sendall(begun[: (0, 30, len(begun) - len(PART), len(begun))[number % 4]])
        check_often(site, logs)


def check_often(site: Site, logs: Logs) -> float:
    """Be another client twenty times; return how long that takes."""
    began = time.monotonic()
    for _ in range(20):
        check(site, logs)
    return time.monotonic() - began


def check(site: Site, logs: Logs) -> None:
    """The others are served, and no log holds a traceback."""
    with connected(site) as connection:
        connection.sendall(
            b"GET %s/traits HTTP/1.1\r\nHost: h\r\nX-Auth-Token: admin\r\n"
            b"OpenStack-API-Version: placement 1.39\r\nConnection: close\r\n\r\n"
            % site.prefix.encode()
        )
        assert status(connection) == 200
    for log in logs:
        text = log.read_text()
        assert "Traceback" not in text, text
        assert "CRITICAL" not in text, text
        assert "status: 5" not in text, text


def check_all(site: Site, *services: Site, slow: int = 0) -> None:
    logs = [each.master.log for each in (site, *services)]
    check_request_lines(site, logs)
    check_uploads(site, logs)
    if slow:
        check_slow_clients(site, logs, slow)


def test_placement_api(folder: Path, environment: dict[str, str]) -> None:
    with deployment.builtin(folder, environment, "--request-timeout", "5") as site:
        check_all(site, slow=500)


def test_uwsgi(folder: Path, environment: dict[str, str]) -> None:
    with deployment.uwsgi(folder, environment, http=True) as site:
        check_all(site, slow=24)


def test_apache_with_uwsgi(folder: Path, environment: dict[str, str]) -> None:
    modules = ("proxy", "proxy_uwsgi", "reqtimeout")
    with (
        deployment.uwsgi(folder, environment) as service,
        deployment.apache(
            folder, {}, shipped("apache/placement-uwsgi.conf", folder), *modules
        ) as site,
    ):
        check_all(site, service, slow=60)


def test_haproxy_with_uwsgi(folder: Path) -> None:
    """Without HAProxy 24 of them hold up everybody."""
    health = "[healthcheck]\npath = /healthcheck\n"
    environment = deployment.prepare(folder, f"sqlite:///{folder}/placement.sqlite", health)
    with (
        deployment.uwsgi(folder, environment, http=True) as service,
        deployment.haproxy(folder, service) as site,
    ):
        logs = [site.master.log, service.master.log]
        limit_s = max(HELD_S - 2, SLOW * check_often(site, logs)) * PATIENCE
        began = time.monotonic()
        check_slow_clients(site, logs, 200)
        assert time.monotonic() - began < limit_s


def test_nginx_with_uwsgi(folder: Path, environment: dict[str, str]) -> None:
    with (
        deployment.uwsgi(folder, environment) as service,
        deployment.nginx(folder, shipped("nginx/placement-uwsgi.conf", folder)) as site,
    ):
        check_all(site, service, slow=500)


def test_nginx_with_gunicorn(folder: Path, environment: dict[str, str]) -> None:
    with (
        deployment.gunicorn(folder, environment) as service,
        deployment.nginx(folder, shipped("nginx/placement-gunicorn.conf", folder)) as site,
    ):
        check_all(site, service, slow=500)
