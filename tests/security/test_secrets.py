"""Passwords and tokens stay out of logs and answers."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import webob
from keystonemiddleware.fixture import AuthTokenFixture

from tests.support.processes import free_port
from tests.support.service import Service, running

PROGRAMS = Path(sys.executable).parent
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
"""
COMMANDS = (
    ("placement-api", "--config-file", "{file}", "--port", "{port}"),
    ("placement-manage", "--config-file", "{file}", "--debug", "db", "sync"),
    ("placement-manage", "--config-file", "{file}", "db", "version"),
    ("placement-status", "--config-file", "{file}", "upgrade", "check"),
)


@pytest.mark.parametrize(
    "dialect", ["postgresql", "mysql+pymysql", "postgresql+nosuchdriver", "no"]
)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: f"{words[0]} {words[-1]}")
def test_a_failed_start_tells_no_password(
    command: tuple[str, ...], dialect: str, tmp_path: Path
) -> None:
    """Whatever is wrong with the connection, and however much is logged."""
    port = free_port()
    connection = f"{dialect}://placement:{PASSWORD}@127.0.0.1:{port}/placement"
    settings = tmp_path / "placement.conf"
    settings.write_text(SETTINGS.format(port=port, password=PASSWORD, connection=connection))
    words = [word.format(file=settings, port=port) for word in command]

    done = subprocess.run(
        [PROGRAMS / words[0], *words[1:]],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "OS_PLACEMENT_CONFIG_DIR": str(tmp_path)},
    )

    assert done.returncode != 0
    assert done.stdout + done.stderr
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
        made.db.write(lambda tx: tx.exec_driver_sql("ALTER TABLE traits RENAME TO gone"))
        try:
            answer = made.request("GET", "/traits/CUSTOM_A", version="1.39")
        finally:
            made.db.write(lambda tx: tx.exec_driver_sql("ALTER TABLE gone RENAME TO traits"))

    assert answer.status_int == 500
    for word in ("SELECT", "traits", "CUSTOM_A", "sqlite"):
        assert word not in answer.json["errors"][0]["detail"]
