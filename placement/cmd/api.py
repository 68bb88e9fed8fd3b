"""The command ``placement-api``: the service in one process with many threads."""

import argparse
import os
import signal
import sys
import time
from typing import Any

import waitress.server
from oslo_config import cfg
from waitress import wasyncore

from placement import failures, wsgi
from placement.version import VERSION

HOST = "127.0.0.1"
PORT = 8778
THREADS = 8
HIGHEST_PORT = 65535
DRAIN_S = 30
"""How long requests that are being served may take to end after SIGTERM."""

LARGEST_ANSWER_IN_MEMORY = 64 * 2**20
TICK_S = 0.05


def main() -> int:
    """Run the command line of this process and return its exit code."""
    return run(sys.argv[1:])


def run(argv: list[str]) -> int:
    """Serve until SIGTERM or SIGINT; 0 after a clean stop, 1 if the service cannot start."""
    options = _parser().parse_args(argv)
    conf = cfg.ConfigOpts()
    try:
        application = wsgi.start(conf, options.config_file)
        server = _Server(application, options, conf.placement.max_request_body_size)
    except Exception as error:
        message = failures.explain(error, conf) or (
            f"{error}" if isinstance(error, OSError) else None
        )
        if message is None:
            raise
        print(f"placement-api: {message}", file=sys.stderr)
        return 1
    print(_greeting(server.url, conf.api.auth_strategy), flush=True)
    server.serve()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="placement-api",
        description="Serve the Placement API in one process. For many cores or machines run "
        "placement.wsgi.api:application under a WSGI server.",
    )
    parser.add_argument("--host", default=HOST, help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=_port, default=PORT, help="port, 0 for any (%(default)s)")
    parser.add_argument(
        "--threads", type=_positive, default=THREADS, help="requests served at once (%(default)s)"
    )
    parser.add_argument(
        "--config-file",
        action="append",
        metavar="PATH",
        help="read this file instead of searching placement.conf; repeatable, later ones win",
    )
    parser.add_argument("--version", action="version", version=VERSION)
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"must be from 0 to {HIGHEST_PORT}")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return int(text)


def _greeting(url: str, auth_strategy: str) -> str:
    token = "admin" if auth_strategy == "noauth2" else "$TOKEN"
    return (
        f"Placement {VERSION} listens on {url} (process {os.getpid()}; Ctrl-C stops it).\n"
        "Try first:\n"
        f"  curl {url}/\n"
        f"  curl -H 'X-Auth-Token: {token}' -H 'OpenStack-API-Version: placement latest' "
        f"{url}/resource_providers"
    )


class _Server:
    """waitress, with a stop that lets requests end."""

    def __init__(self, application: Any, options: argparse.Namespace, max_body: int) -> None:
        self._sockets: dict[int, Any] = {}
        try:
            self._server = waitress.server.create_server(
                application,
                map=self._sockets,
                host=options.host,
                port=options.port,
                threads=options.threads,
                ident=None,
                # More than the service takes, so that it can say so itself.
                max_request_body_size=max_body * 2,
                # Whether to believe a proxy is decided by [oslo_middleware] of the service.
                clear_untrusted_proxy_headers=False,
                # An answer waits for its client in memory, not in a temporary file.
                outbuf_overflow=LARGEST_ANSWER_IN_MEMORY,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise OSError(f"cannot listen on {options.host}:{options.port}: {reason}") from error
        self._stopping = False
        host, port = self._listeners()[0].getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def serve(self) -> None:
        """Serve until a signal, then take no new connection and finish what was begun."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while not self._stopping:
            wasyncore.loop(timeout=1, map=self._sockets, count=1)
        for listener in self._listeners():
            listener.del_channel()
            listener.socket.close()
        deadline = time.monotonic() + DRAIN_S
        while self._busy() and time.monotonic() < deadline:
            wasyncore.loop(timeout=TICK_S, map=self._sockets, count=1)
        self._server.task_dispatcher.shutdown(timeout=1)

    def _stop(self, _number: int, _frame: Any) -> None:
        self._stopping = True
        for listener in self._listeners():
            listener.pull_trigger()

    def _listeners(self) -> list[Any]:
        return [entry for entry in self._sockets.values() if getattr(entry, "accepting", False)]

    def _busy(self) -> bool:
        """Some client waits for an answer or for the rest of one."""
        channels = [e for e in self._sockets.values() if hasattr(e, "total_outbufs_len")]
        return any(c.requests or c.total_outbufs_len for c in channels)
