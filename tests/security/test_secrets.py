"""Passwords and tokens stay out of logs and answers."""

import logging
import os
import subprocess
from pathlib import Path

import pytest
import webob
from keystonemiddleware.fixture import AuthTokenFixture

from placement.cmd import manage
from tests.support.commands import Forked
from tests.support.processes import free_port
from tests.support.service import Service, running

PASSWORD = "hunter2-s3cret"
TOKEN = "gAAAAAB-a-token-that-nobody-may-see"
SETTINGS = """\
[DEFAULT]
debug = true
[api]
auth_strategy = keystone
[keystone_authtoken]
www_authenticate_uri = http://127.0.0.1:{port}/v3
auth_url = http://127.0.0.1:{port}/v3
auth_type = password
username = placement
password = {password}
[placement_database]
connection = {connection}
connection_debug = 100
max_retries = 0
[tree_driver]
tree_file = /no/such/file
"""
COMMANDS = (
    ("placement-api", "--config-file", "{file}", "--port", "{port}"),
    ("placement-manage", "--config-file", "{file}", "--debug", "db", "sync"),
    ("placement-manage", "--config-file", "{file}", "db", "version"),
    ("placement-manage", "--config-file", "{file}", "config", "check"),
    ("placement-manage", "--config-file", "{file}", "audit", "--consumers", "-"),
    ("placement-status", "--config-file", "{file}", "upgrade", "check"),
    ("placement-migrate-compute-inventory", "--config-file", "{file}", "--driver", "file"),
    ("placement-tree", "--direct", "--config-file", "{file}", "export", "host"),
    ("-c", "import placement.wsgi.api"),
)
UNREACHABLE = (
    "postgresql://placement:{password}@127.0.0.1:{port}/placement",
    "postgresql://127.0.0.1:{port}/placement?user=placement&password={password}",
    "postgresql://placement@127.0.0.1:{port}/placement?sslpassword={password}",
    "postgresql://placement@127.0.0.1:{port}/placement?pasword={password}",
    "mysql+pymysql://placement:{password}@127.0.0.1:{port}/placement",
    "mysql+pymysql://127.0.0.1:{port}/placement?user=placement&passwd={password}",
    "mysql+pymysql://placement@127.0.0.1:{port}/placement?ssl_key_password={password}",
)
UNREADABLE = (
    "postgresql+nosuchdriver://placement:{password}@127.0.0.1:{port}/placement",
    "no://placement:{password}@127.0.0.1:{port}/placement",
    "placement:{password}@127.0.0.1/placement",
    # A password that is not escaped goes on behind its @, as host or as port; and behind its $.
    "postgresql://placement:p@{password}@127.0.0.1:{port}/placement",
    "postgresql://placement:p@ss:{password}@127.0.0.1:{port}/placement",
    "postgresql://placement:p${password}@127.0.0.1:{port}/placement",
    "postgresql://placement:{password}@127.0.0.1:port/placement",
    "mysql+pymysql://placement@/placement?host=one:{password}",
    "sqlite://placement:{password}@127.0.0.1/placement",
)


@pytest.mark.parametrize("url", [UNREACHABLE[1], UNREADABLE[-4]])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: f"{words[0]} {words[-1]}")
def test_a_failed_start_tells_no_password(
    command: tuple[str, ...], url: str, tmp_path: Path
) -> None:
    """Of no command, and however much is logged."""
    port = free_port()
    settings = written(tmp_path, url, port)
    words = [word.format(file=settings, port=port) for word in command]

    done = ended(*words, OS_PLACEMENT_CONFIG_DIR=str(tmp_path))

    told = done.stdout + done.stderr
    assert done.returncode != 0
    assert "[placement_database]/connection" in told
    assert "s3cret" not in told


@pytest.mark.parametrize("url", UNREACHABLE + UNREADABLE)
def test_no_fault_of_the_url_tells_a_password(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = written(tmp_path, url, free_port())

    for command in (["db", "version"], ["config", "check"]):
        code = manage.run(["--config-file", str(settings), *command], "placement-manage")

        told = "".join(capsys.readouterr())
        assert code == 1
        assert "[placement_database]/connection" in told or "The database" in told
        assert "s3cret" not in told


def ended(*words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end."""
    return Forked(*words, environment={**os.environ, **more}).wait()


def written(folder: Path, url: str, port: int) -> Path:
    """Return a configuration with this URL, in which {password} and {port} are put."""
    connection = url.format(port=port, password=PASSWORD)
    settings = folder / "placement.conf"
    settings.write_text(SETTINGS.format(port=port, password=PASSWORD, connection=connection))
    return settings


def test_the_line_of_a_start_tells_no_password(tmp_path: Path) -> None:
    """Nor do parameters that are configured beside the URL, at DEBUG."""
    url = f"sqlite:///{tmp_path}/placement.sqlite?password={PASSWORD}&sslmode=none"
    settings = written(tmp_path, url, free_port())
    text = settings.read_text().replace("strategy = keystone", "strategy = noauth2")
    more = f"connection_parameters = passwd={PASSWORD}\nsync_on_startup = true\n"
    settings.write_text(text.replace("max_retries = 0\n", more))

    done = ended(*COMMANDS[-1], OS_PLACEMENT_CONFIG_DIR=str(tmp_path))

    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if " starts. " in line]
    assert "placement.sqlite?passwd=***&password=***&sslmode=none" in line
    assert PASSWORD not in done.stdout + done.stderr


@pytest.mark.parametrize("url", ["http://u:{}@127.0.0.1:9", "mysql://u:{}@127.0.0.1:9/placement"])
def test_a_comparison_tells_no_password(url: str) -> None:
    """Neither in what failed, nor in the commands that ask again."""
    words = ("--os-auth-type", "none", url.format(PASSWORD), "http://127.0.0.1:9")
    done = ended("placement-compare", *words)

    assert done.returncode == 2
    assert "OLD" in done.stdout + done.stderr
    assert PASSWORD not in done.stdout + done.stderr


@pytest.mark.parametrize("strategy", ["keystone", "noauth2"])
def test_tokens_are_not_logged(strategy: str, caplog: pytest.LogCaptureFixture) -> None:
    """At DEBUG, of every library, for answers and failures alike."""
    caplog.set_level(logging.DEBUG)
    with AuthTokenFixture() as known, running("sqlite", api__auth_strategy=strategy) as made:
        if strategy == "keystone":
            uri = "http://identity.example.com/"
            made.conf.set_override("www_authenticate_uri", uri, group="keystone_authtoken")
        service = Service(made.conf, made.db)
        known.add_token_data(token_id=TOKEN, user_id="ann", project_id="p", role_list=["admin"])
        for token in (TOKEN, f"{TOKEN}-expired"):
            for path in ("/", "/resource_providers", "/traits/x", "/resource_providers?y=1"):
                sent = webob.Request.blank(path)
                sent.headers["X-Auth-Token"] = token
                sent.headers["X-Service-Token"] = token
                answer = sent.get_response(service.application)
                assert TOKEN not in answer.text + str(answer.headerlist)

    said = "\n".join(
        f"{record.getMessage()} {record.exc_text or ''}"
        for record in caplog.records
        # Under noauth2 the token is the user's name, and statements of tests are not the service's.
        if not record.name.startswith("sqlalchemy")
    )
    assert "placement.requestlog" in {record.name for record in caplog.records}
    assert TOKEN not in said


def test_an_unexpected_database_error_shows_no_statement(caplog: pytest.LogCaptureFixture) -> None:
    """The client learns the kind of the error; statement and values are for the log alone."""
    with running("sqlite") as made:
        made.db.write(lambda tx: tx.connection.exec_driver_sql("ALTER TABLE traits RENAME TO gone"))
        try:
            answer = made.request("GET", "/traits/CUSTOM_A", version="1.39")
        finally:
            made.db.write(lambda tx: tx.connection.exec_driver_sql("ALTER TABLE gone RENAME TO traits"))

    assert answer.status_int == 500
    for word in ("SELECT", "traits", "CUSTOM_A", "sqlite"):
        assert word not in answer.json["errors"][0]["detail"]
