"""A search whose client has hung up ends (specification 04 section 6.6)."""

import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from placement.web import hang_up
from tests.support.service import Service, running

QUERIES = [
    "/allocation_candidates?resources=VCPU:1",
    "/-/explain?resources=VCPU:1",
    "/-/capacity?resources=VCPU:1",
]


@pytest.fixture
def service() -> Iterator[Service]:
    with running(insight__enabled=True) as made:
        made.request("POST", "/resource_providers", version="1.39", json={"name": "host"})
        yield made


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The server's end of a connection, and the client's."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    with listener, client, server:
        yield server, client


class FakeUwsgi:
    """What uWSGI puts beside an application."""

    def __init__(self, number: int) -> None:
        self.number = number

    def connection_fd(self) -> int:
        return self.number


def check(service: Service, environ: dict[str, Any], status: int) -> None:
    for query in QUERIES:
        answer = service.request("GET", query, version="1.39", environ=environ)
        assert answer.status_int == status, answer.text
    body = {"changes": [{"place": "resources=VCPU:1"}], "query": "resources=VCPU:1"}
    answer = service.request("POST", "/-/what-if", version="1.39", json=body, environ=environ)
    assert answer.status_int == status, answer.text
    goal = {"goal": {"empty": {"count": 1}}}
    answer = service.request("POST", "/-/plans", version="1.39", json=goal, environ=environ)
    assert answer.status_int == status, answer.text


def gone(client: socket.socket, server: socket.socket) -> None:
    """Hang up, and wait until the other end knows: it reads the end of what was sent."""
    client.close()
    assert server.recv(1) == b""


def test_under_gunicorn(
    service: Service, ends: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    server, client = ends
    environ = {"gunicorn.socket": server}
    check(service, environ, 200)
    client.sendall(b"GET / HTTP/1.1\r\n")
    check(service, environ, 200)
    server.recv(100)
    gone(client, server)
    with caplog.at_level(logging.INFO, "placement"):
        check(service, environ, 503)
    assert any("has hung up" in record.message for record in caplog.records)


def test_under_uwsgi(
    service: Service, ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, client = ends
    monkeypatch.setattr(hang_up, "uwsgi", FakeUwsgi(server.fileno()))
    check(service, {}, 200)
    gone(client, server)
    check(service, {}, 503)
    monkeypatch.setattr(hang_up, "uwsgi", FakeUwsgi(-1))
    check(service, {}, 200)


def test_under_waitress(service: Service) -> None:
    check(service, {"waitress.client_disconnected": lambda: False}, 200)
    check(service, {"waitress.client_disconnected": lambda: True}, 503)


def test_a_server_that_does_not_tell(service: Service) -> None:
    check(service, {}, 200)
