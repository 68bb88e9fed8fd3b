"""Start and stop servers from templates: any WSGI server, with as many workers as asked for."""

import contextlib
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.connection import Connection

START_S = 120.0
STOP_S = 15.0
SERVICE = "placement.wsgi.api:application"
NULL = "benchmarks.null_service:application"
REPOSITORY = Path(__file__).resolve().parent.parent

# {application}, {host}, {port}, {workers} and {threads} are filled in.
TEMPLATES = {
    "placement-api": "placement-api --host {host} --port {port} --threads {threads}",
    "waitress": "waitress-serve --listen={host}:{port} --threads={threads} {application}",
    "gunicorn": "gunicorn --bind {host}:{port} --workers {workers} --worker-class gthread"
    " --threads {threads} --keep-alive 120 --log-level warning {application}",
    "uwsgi": "uwsgi --http11-socket {host}:{port} --module {application} --master --need-app"
    " --lazy-apps --die-on-term --processes {workers} --enable-threads --threads {threads}"
    " --disable-logging --buffer-size 65535 --listen 1024 --tcp-nodelay",
}
ONE_PROCESS = ("placement-api", "waitress")
# A program that serves nothing but the service; the null application runs on the server inside it.
STANDS_FOR = {"placement-api": "waitress"}


class NotStarted(Exception):
    """The server did not answer; the message ends with what it wrote."""


@dataclass(frozen=True)
class Template:
    """How to start a server.

    :param command: with the fields of :data:`TEMPLATES`; a name of one of them or one's own.
    :param threads: per worker; at least as many as connections, where a thread keeps one.
    """

    command: str = "placement-api"
    workers: int = 1
    threads: int = 20

    def arguments(self, application: str, host: str, port: int) -> list[str]:
        """Return the argument vector; programs beside this Python are preferred.

        :raises NotStarted: more workers than the template can have.
        """
        if self.command in ONE_PROCESS and self.workers > 1:
            raise NotStarted(f"{self.command} has one process; use --template uwsgi or gunicorn")
        command = self.command
        if application != SERVICE:
            command = STANDS_FOR.get(command, command)
        filled = TEMPLATES.get(command, command).format(
            application=application,
            host=host,
            port=port,
            workers=self.workers,
            threads=self.threads,
        )
        arguments = shlex.split(filled)
        beside = Path(sys.executable).parent / arguments[0]
        return [str(beside) if beside.exists() else arguments[0], *arguments[1:]]


@dataclass
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]
    start_s: float
    log: IO[bytes]


def environment(database: str) -> dict[str, str]:
    """Return the environment of a service on that database, without authentication service."""
    return {
        **os.environ,
        "OS_PLACEMENT_DATABASE__CONNECTION": database,
        "OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP": "true",
        "OS_API__AUTH_STRATEGY": "noauth2",
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")])
        ),
    }


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(
    template: Template, application: str, variables: dict[str, str], log: Path
) -> Iterator[Server]:
    """Start a server, wait until it answers, yield it, stop it.

    :param log: file that gets what the server writes.
    :raises NotStarted: it ended or stayed silent.
    """
    server = start(template, application, variables, log)
    try:
        yield server
    finally:
        stop(server)


def start(template: Template, application: str, variables: dict[str, str], log: Path) -> Server:
    """Start a server and wait until it answers.

    :raises NotStarted: it ended or stayed silent.
    """
    port = free_port()
    arguments = template.arguments(application, "127.0.0.1", port)
    writing = log.open("ab")
    begun = time.perf_counter()
    process = subprocess.Popen(
        arguments,
        env=variables,
        cwd=REPOSITORY,
        stdout=writing,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    server = Server(f"http://127.0.0.1:{port}", process, 0.0, writing)
    try:
        _await_answer(server, begun)
    except NotStarted as error:
        stop(server)
        raise NotStarted(f"{error}; it wrote:\n{log.read_text(errors='replace')[-2000:]}") from None
    server.start_s = time.perf_counter() - begun
    return server


def _await_answer(server: Server, begun: float) -> None:
    while time.perf_counter() - begun < START_S:
        if server.process.poll() is not None:
            raise NotStarted(f"the server ended with {server.process.returncode}")
        try:
            with Connection(server.url, {"X-Auth-Token": "admin"}, START_S) as connection:
                if connection.exchange("GET", "/").status == 200:
                    return
        except OSError:
            time.sleep(0.02)
    raise NotStarted("the server stayed silent")


def stop(server: Server) -> None:
    """Ask the server to end, and make it end."""
    if server.process.poll() is None:
        server.process.terminate()
        try:
            server.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.process.wait()
    server.log.close()
