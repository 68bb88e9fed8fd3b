"""The HTTP server of ``placement-api``: waitress, with bounds for connections and a graceful stop."""

import errno
import logging
import resource
import signal
import time
from dataclasses import dataclass
from typing import Any

import waitress.server
from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.task import ThreadedTaskDispatcher, WSGITask

from placement.web.stopping import is_told_to_stop, note_stop

LOG = logging.getLogger(__name__)

DRAIN_S = 30
"""The seconds in which requests under way must end after SIGTERM."""

LARGEST_ANSWER_IN_MEMORY = 64 * 2**20
TICK_S = 0.05
FILES_PER_CONNECTION = 2
"""The open files of a connection: its socket, and the temporary file of a large body."""

FILES_BESIDE_CONNECTIONS = 256


class _HealthDispatcher:
    """A dispatcher with a separate thread for health checks: all others can be waiting for the database."""

    def __init__(self, others: ThreadedTaskDispatcher, path: str) -> None:
        self._others, self._path = others, path
        self._own = ThreadedTaskDispatcher()
        self._own.set_thread_count(1)

    def add_task(self, channel: HTTPChannel) -> None:
        """Queue the first request of the channel."""
        path = getattr(channel.requests[0], "path", None) if channel.requests else None
        (self._own if path == self._path else self._others).add_task(channel)

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> bool:
        """End all threads; threads that do not end in time are left running."""
        self._own.shutdown(cancel_pending, timeout)
        return bool(self._others.shutdown(cancel_pending, timeout))


@dataclass(frozen=True)
class Bounds:
    """Limits on what clients may use of the server.

    :param threads: the number of requests served at once.
    :param connections: the number of open connections; of further ones, those that are silent or sending for
        longest are closed.
    :param idle_s: how long a connection can be silent.
    :param request_s: how long a client can take to send a request, headers and body.
    """

    threads: int = 8
    connections: int = 1000
    idle_s: int = 120
    request_s: int = 60


class _TimedRequestParser(HTTPRequestParser):
    """A request that is being received, and the time at which the first byte arrived."""

    def __init__(self, adjustments: Any) -> None:
        super().__init__(adjustments)
        self.began = time.time()

    def parse_header(self, header_plus: bytes) -> None:
        try:
            super().parse_header(header_plus)
        except ValueError:
            # int() refuses a number with so many digits.
            raise ParsingError("Content-Length is invalid") from None

    def received(self, data: bytes) -> int:
        taken: int = super().received(data)
        if self.completed:
            # After "100 Continue" the library would wait for ever for more of a request that is already
            # complete.
            self.expect_continue = False
        return taken


class _Task(WSGITask):
    def set_close_on_finish(self) -> None:
        # The library closes the connection after each answer without a length. An answer of 204 or 304 does
        # not have a body, and does not need a length.
        asked = self.request.headers.get("CONNECTION", "").lower() == "close"
        if self.has_body or asked or self.version == "1.0":
            super().set_close_on_finish()

    def build_response_header(self) -> bytes:
        if is_told_to_stop():
            # While the server stops, a client that reuses its connection would keep the process alive.
            self.request.headers["CONNECTION"] = "close"
        header: bytes = super().build_response_header()
        return header


class _Channel(HTTPChannel):
    parser_class = _TimedRequestParser
    task_class = _Task


class Server:
    """The application behind a listening socket.

    :param max_body: the size in bytes of the largest body that the application accepts.
    :param health: the path of the health check.
    :raises OSError: the server cannot listen on this address.
    """

    def __init__(
        self,
        application: Any,
        host: str,
        port: int,
        bounds: Bounds,
        *,
        max_body: int,
        health: str = "",
    ) -> None:
        self._bounds = bounds
        self._sockets: dict[int, Any] = {}
        _allow_files(bounds.connections)
        try:
            self._server = waitress.server.create_server(
                application,
                map=self._sockets,
                host=host,
                port=port,
                threads=bounds.threads,
                ident=None,
                # The library's limit is never reached: this server closes the slowest connections before.
                connection_limit=bounds.connections * 2,
                channel_timeout=bounds.idle_s,
                cleanup_interval=1,
                # The bound lies above the limit of the service, which answers with an error of its own.
                max_request_body_size=max_body * 2,
                # The service decides by [oslo_middleware] whether to trust a proxy.
                clear_untrusted_proxy_headers=False,
                # An answer that waits for its client stays in memory, not in a temporary file.
                outbuf_overflow=LARGEST_ANSWER_IN_MEMORY,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            taken = getattr(error, "errno", None) == errno.EADDRINUSE
            advice = (
                ". Take another with --port, or any that is free with --port 0" if taken else ""
            )
            raise OSError(f"cannot listen on {host}:{port}: {reason}{advice}") from error
        self._threads = _HealthDispatcher(self._server.task_dispatcher, health)
        for listener in self._list_listeners():
            listener.channel_class = _Channel
            listener.task_dispatcher = self._threads
        self._stopping = False
        self._next_look = 0.0
        name, number = self._list_listeners()[0].getsockname()[:2]
        self.url = f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}"

    def serve(self) -> None:
        """Serve until a signal, then accept no new connection and finish the requests under way."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while not self._stopping:
            wasyncore.loop(timeout=1, use_poll=True, map=self._sockets, count=1)
            self._bound_connections()
        for listener in self._list_listeners():
            listener.del_channel()
            listener.socket.close()
        deadline = time.monotonic() + DRAIN_S
        while self._is_busy() and time.monotonic() < deadline:
            wasyncore.loop(timeout=TICK_S, use_poll=True, map=self._sockets, count=1)
        self._threads.shutdown(timeout=1)

    def _stop(self, _number: int, _frame: Any) -> None:
        self._stopping = True
        note_stop()
        for listener in self._list_listeners():
            listener.pull_trigger()

    def _list_listeners(self) -> list[Any]:
        return [entry for entry in self._sockets.values() if getattr(entry, "accepting", False)]

    def _list_channels(self) -> list[_Channel]:
        return [entry for entry in self._sockets.values() if isinstance(entry, _Channel)]

    def _bound_connections(self) -> None:
        """Close slow connections once a second; if there are too many connections, close the slowest."""
        now = time.time()
        if now < self._next_look:
            return
        self._next_look = now + 1
        # A connection that waits for its answer stays open.
        sending = sorted(
            (channel.request.began if channel.request else channel.last_activity, number, channel)
            for number, channel in enumerate(self._list_channels())
            if not channel.requests and not channel.total_outbufs_len
        )
        too_many = len(self._list_channels()) - self._bounds.connections
        if too_many > 0:
            LOG.warning("Too many connections: closing the slowest %d.", too_many)
        for place, (since, _, channel) in enumerate(sending):
            late = channel.request is not None and since < now - self._bounds.request_s
            if late or place < too_many:
                channel.will_close = True

    def _is_busy(self) -> bool:
        """Return whether a client waits for an answer or for the rest of an answer."""
        return any(c.requests or c.total_outbufs_len for c in self._list_channels())


def _allow_files(connections: int) -> None:
    """Raise the limit of open files, often 1024 in a shell, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections * FILES_PER_CONNECTION + FILES_BESIDE_CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
