"""The command placement-api: starts with a hint, serves, stops cleanly, refuses with one line."""

import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from placement.db import deadlines, schema
from tests.support.client import Client, headers
from tests.support.commands import Forked
from tests.support.databases import scratch_database
from tests.support.processes import ENDS_S, listens, ran, wait_until

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "bin" / "placement-api"


class Server(NamedTuple):
    """The command that serves, and where; what it printed, and the file of its database."""

    process: Forked
    port: int
    printed: str
    file: str


def settings_in(folder: Path) -> dict[str, str]:
    """Return the environment of a service on a new SQLite file."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "OS_PLACEMENT_DATABASE__CONNECTION": f"sqlite:///{folder}/placement.sqlite",
        "OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP": "true",
        "OS_API__AUTH_STRATEGY": "noauth2",
        "OS_DEFAULT__LOG_FILE": str(folder / "log"),
    }


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Server]:
    """Run the command with two threads on a database that has its schema."""
    with scratch_database("sqlite", schema.HEAD, named=True) as url:
        environment = settings_in(folder) | {"OS_PLACEMENT_DATABASE__CONNECTION": url}
        words = ("--port", "0", "--threads", "2", *arguments)
        process = Forked("placement-api", *words, environment=environment)
        try:
            printed = printed_until(process, "/resource_providers\n")
            found = re.search(r"http://127\.0\.0\.1:(\d+)", printed)
            assert found, printed
            yield Server(process, int(found[1]), printed, url.removeprefix("sqlite:///"))
        finally:
            process.kill()


def printed_until(process: Forked, words: str) -> str:
    """Wait until the command has printed this, and return all that it has."""
    wait_until(f"it prints {words!r}", lambda: words in process.printed() or not process.runs)
    return process.printed()


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    return settings_in(tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as made:
        yield made


def test_says_what_to_call_first(server: Server) -> None:
    """Connections stay open after an answer without a body: each claim is answered so."""
    answer = Client(server.port, kept=False).send("GET", "/resource_providers")
    assert (answer.status, answer.json) == (200, {"resource_providers": []})
    for path in ("/", "/resource_providers"):
        assert f"http://127.0.0.1:{server.port}{path}" in server.printed
    with closing(
        http.client.HTTPConnection("127.0.0.1", server.port, timeout=ENDS_S)
    ) as connection:
        statuses = []
        for more in ({}, {}, {}, {"Connection": "close"}):
            connection.request("PUT", "/traits/CUSTOM_A", headers=headers() | more)
            with connection.getresponse() as response:
                statuses.append((response.status, response.getheader("connection")))
                response.read()

    assert statuses == [(201, None), (204, None), (204, None), (204, "close")]


def test_request_under_way_is_answered_before_it_stops(server: Server) -> None:
    """A write that waits for the database while SIGTERM comes still gets its answer."""
    database = sqlite3.connect(server.file, isolation_level=None)
    waiting = http.client.HTTPConnection("127.0.0.1", server.port, timeout=ENDS_S)
    with closing(database), closing(waiting):
        database.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        waiting.request("PUT", "/traits/CUSTOM_A", headers=headers())
        # Sent later and answered: so the server has read the first one.
        assert Client(server.port, kept=False).send("GET", "/traits/HW_CPU_X86_VMX").status == 204
        server.process.send(signal.SIGTERM)
        wait_until("nothing listens", lambda: not listens(server.port))
        runs = server.process.runs
        database.execute("COMMIT")
        took_s = time.monotonic() - began
        # On a busy machine the lock may be held for longer than a write waits for it.
        was_patient = took_s < deadlines.SQLITE_S
        assert runs or not was_patient
        with waiting.getresponse() as response:
            assert response.status in ((201,) if was_patient else (201, 503))
        assert server.process.wait().returncode == 0


@pytest.mark.parametrize(
    ("arguments", "overrides", "fragment"),
    [
        (["--config-file", "/nonexistent.conf"], {}, "/nonexistent.conf"),
        (["--host", "no.such.host.invalid"], {}, "cannot listen on no.such.host.invalid:0"),
        (["--host", "192.0.2.1"], {}, "cannot listen on 192.0.2.1:0"),
        ([], {"OS_PLACEMENT_DATABASE__CONNECTION": "sqlite:////nonexistent/x"}, "connection"),
        ([], {"OS_API__AUTH_STRATEGY": "pony"}, "pony"),
        ([], {"OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP": "false"}, "placement-manage db sync"),
    ],
)
def test_start_that_fails_says_why_in_one_line(
    settings: dict[str, str], arguments: list[str], overrides: dict[str, str], fragment: str
) -> None:
    done = Forked(
        "placement-api", "--port", "0", *arguments, environment=settings | overrides
    ).wait()
    assert done.returncode == 1
    assert fragment in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("placement-api: ")


def test_port_that_is_taken_names_the_option(settings: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = Forked("placement-api", "--port", port, environment=settings).wait()

    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert f"cannot listen on 127.0.0.1:{port}: " in line
    assert "Take another with --port" in line


@pytest.mark.parametrize(
    ("option", "value", "must"),
    [
        ("--port", "99999", "must be from 0 to 65535"),
        ("--port", "http", "must be from 0 to 65535"),
        ("--threads", "0", "must be at least 1"),
        ("--threads", "many", "must be at least 1"),
    ],
)
def test_numbers_must_be_some(option: str, value: str, must: str) -> None:
    done = Forked("placement-api", option, value, environment={}).wait()
    assert done.returncode == 2
    assert f"argument {option}: {must}" in done.stderr


def test_script_is_a_wsgi_script(settings: dict[str, str]) -> None:
    """What a web server does with the file: run it under another name, take ``application``."""
    program = (
        "import runpy, webob\n"
        f"made = runpy.run_path({str(SCRIPT)!r}, run_name='_wsgi_script')['application']\n"
        "print(webob.Request.blank('/').get_response(made).status_int)\n"
    )
    done = ran([sys.executable, "-c", program], env=settings, check=True)
    assert done.stdout.splitlines()[-1] == "200"


@pytest.mark.parametrize("words", ["--port=x", "--version", "--help"])
def test_a_command_line_is_answered_without_loading_the_service(words: str) -> None:
    code = (
        "import sys; from placement.cmd.api import run\n"
        f"try: run([{words!r}])\n"
        "except SystemExit: print('sqlalchemy' in sys.modules, 'oslo_config' in sys.modules)"
    )
    result = ran([sys.executable, "-c", code])

    assert result.stdout.splitlines()[-1] == "False False", result


def test_a_log_in_json_has_no_other_lines(settings: dict[str, str]) -> None:
    del settings["OS_DEFAULT__LOG_FILE"]
    settings["OS_DEFAULT__USE_JSON"] = "true"
    process = Forked("placement-api", "--port", "0", environment=settings)
    try:
        told = [json.loads(line) for line in printed_until(process, "listens on").splitlines()]
    finally:
        process.kill()
    assert any(each["msg"].startswith("Placement %s starts") for each in told)
