"""The command ``placement-api``: the service in one process with many threads."""

import argparse
import logging
import os
import sys
from typing import TYPE_CHECKING

from placement.client.argument_types import whole_number
from placement.cmd import completion
from placement.cmd.http_server import Bounds, Server
from placement.version import VERSION

if TYPE_CHECKING:
    from oslo_config import cfg

LOG = logging.getLogger(__name__)

HOST = "127.0.0.1"
PORT = 8778
HIGHEST_PORT = 65535


def main() -> int:
    """Run the command line of this process and return its exit code."""
    return run(sys.argv[1:])


def run(argv: list[str]) -> int:
    """Serve until SIGTERM or SIGINT; 0 after a clean stop, 1 if the service cannot start."""
    options = _make_parser().parse_args(argv)
    # The service takes a second to load, so it is loaded after the command line has been checked.
    from oslo_config import cfg

    from placement import advice, wsgi
    from placement.web import worker_threads

    conf = cfg.ConfigOpts()
    os.environ[worker_threads.VARIABLE] = str(options.threads)
    try:
        application = wsgi.start(conf, options.config_file)
        bounds = Bounds(
            options.threads, options.connections, options.idle_timeout, options.request_timeout
        )
        server = Server(
            application,
            options.host,
            options.port,
            bounds,
            max_body=conf.placement.max_request_body_size,
            health=conf.healthcheck.path,
        )
    except Exception as error:
        message = advice.explain(error, conf) or (
            f"{error}" if isinstance(error, OSError) else None
        )
        if message is None:
            raise
        print(f"placement-api: {message}", file=sys.stderr)
        return 1
    if conf.use_json:
        # A program that reads the log expects it on this stream.
        LOG.info("Placement %s listens on %s (process %s)", VERSION, server.url, os.getpid())
    else:
        print(_make_greeting(server.url, conf), flush=True)
    server.serve()
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="placement-api",
        description="Serve the Placement API in one process. For many cores or machines run "
        "placement.wsgi.api:application under a WSGI server.",
    )
    parser.add_argument("--host", default=HOST, help="address to listen on (%(default)s)")
    parser.add_argument(
        "--port",
        type=whole_number(0, HIGHEST_PORT),
        default=PORT,
        help="port, 0 for any (%(default)s)",
    )
    for name, default, what in (
        ("--threads", Bounds.threads, "requests served at once"),
        (
            "--connections",
            Bounds.connections,
            "connections open at once; beyond that the slowest are closed",
        ),
        ("--idle-timeout", Bounds.idle_s, "seconds that a connection may be silent"),
        ("--request-timeout", Bounds.request_s, "seconds for a client to send headers and body"),
    ):
        words = f"{what} (%(default)s)"
        parser.add_argument(name, type=whole_number(1), default=default, help=words)
    parser.add_argument(
        "--config-file",
        action="append",
        metavar="PATH",
        help="read this file instead of searching placement.conf; repeatable, later ones win",
    )
    parser.add_argument("--version", action="version", version=VERSION)
    completion.add_option(parser)
    return parser


def _make_greeting(url: str, conf: "cfg.ConfigOpts") -> str:
    token = "admin" if conf.api.auth_strategy == "noauth2" else "$TOKEN"
    page = ""
    if conf.insight.enabled and "explorer" in conf.insight.public:
        page = f" Look at it: {url}/-/explorer/ (token: {token})."
    return (
        f"Placement {VERSION} listens on {url} (process {os.getpid()}; Ctrl-C stops it).{page}\n"
        "Try first:\n"
        f"  curl {url}/\n"
        f"  curl -H 'X-Auth-Token: {token}' -H 'OpenStack-API-Version: placement latest' "
        f"{url}/resource_providers"
    )
