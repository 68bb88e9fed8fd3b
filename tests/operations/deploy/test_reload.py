"""A reload with a configuration that cannot work is told, and ends nothing (etc/systemd)."""

import os
import shlex
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.operations.deploy import conversation
from tests.support import deployment
from tests.support.commands import Forked
from tests.support.deployment import Site, shipped
from tests.support.processes import ran, wait_until

pytestmark = pytest.mark.deploy

Server = Callable[..., AbstractContextManager[Site]]


def reload_as_systemd(
    unit: str, folder: Path, environment: dict[str, str], master: int
) -> "subprocess.CompletedProcess[str]":
    """Run the lines ``ExecReload=`` of a unit one after another, as far as one fails."""
    lines = [line for line in shipped(unit, folder).splitlines() if line.startswith("ExecReload=/")]
    assert len(lines) == 2
    for line in lines:
        command = line.removeprefix("ExecReload=").replace("$MAINPID", str(master))
        program, *words = shlex.split(command)
        variables = {**os.environ, **environment}
        if program == "/usr/bin/placement-manage":
            done = Forked("placement-manage", *words, environment=variables).wait()
        else:
            done = ran([program, *words], env=variables)
        if done.returncode:
            break
    return done


@pytest.mark.parametrize(
    ("serve", "unit"),
    [
        (deployment.uwsgi, "systemd/placement.service"),
        (deployment.gunicorn, "systemd/gunicorn.conf"),
    ],
    ids=["uwsgi", "gunicorn"],
)
def test_a_broken_configuration_is_not_loaded(
    folder: Path, environment: dict[str, str], serve: Server, unit: str
) -> None:
    """One misspelt word, under load: the workers stay, no request is lost; mended, it is loaded."""
    file = folder / "placement.conf"
    right = file.read_text()
    with serve(folder, environment, http=True) as site, conversation.Load(site) as load:
        wait_until("the load has begun", lambda: load.claimed > 20 or load.failures)
        workers = site.workers()

        file.write_text(right.replace("connection =", "conection ="))
        refused = reload_as_systemd(unit, folder, environment, site.master.pid)

        assert refused.returncode == 1
        assert "did you mean connection?" in refused.stdout
        after = load.claimed
        wait_until("the load goes on", lambda: load.claimed > after + 20 or load.failures)
        assert site.workers() == workers

        file.write_text(right)
        done = reload_as_systemd(unit, folder, environment, site.master.pid)

        assert done.returncode == 0, done.stdout + done.stderr
        wait_until(
            "every worker is new",
            lambda: len(site.workers()) >= len(workers) and not workers & site.workers(),
            60,
        )
        assert not load.failures, load.failures[:5]
