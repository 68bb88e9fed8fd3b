"""Two machines behind a load balancer, on which the commands of docs/howto/switch-over.rst are run.

``ssh placement-1 systemctl stop openstack-placement`` and its like work on local processes: of the
emulation (``openstack-placement``) and of this service (``placement``). A machine is taken out of the
balancer before it stops and put back when it answers: that is a file in the folder ``up``.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docs._tools import live_pages
from placement.db import schema, standard_names
from placement.db.database import Database
from placement.db.engine import make_engine
from tests.support.old_service import OldService
from tests.support.processes import free_ports

OLD_HEAD = "a082b8bb98d0"
NAMES = ("placement-1", "placement-2")
HOSTS = tuple(f"11111111-1111-4111-8111-00000000000{number}" for number in (1, 2))
INSTANCE = "22222222-2222-4222-8222-000000000001"
UNITS = 8
CREDENTIALS = {
    "OS_AUTH_TYPE": "admin_token",
    "OS_TOKEN": "admin",
    "OS_ENDPOINT": "http://127.0.0.1:0",
}
SSH = """\
#!/bin/bash
# ssh MACHINE systemctl start|stop UNIT...
cd "{folder}" || exit 1
machine=$1; verb=$3; shift 3
if [ "$verb" = stop ]; then
    rm -f "up/$machine"; sleep 0.3
    pid=$(cat "$machine.pid"); kill "$pid"
    while grep -qs '^State:.[^Z]' "/proc/$pid/status"; do sleep 0.05; done
else
    case $1 in
    openstack-placement)
        run=({python} -m tests.support.old_server --database "$OLD_DATABASE" --answers "$ANSWERS") ;;
    *) run=({bin}/placement-api --config-file placement.conf) ;;
    esac
    port=$(cat "$machine.port")
    setsid "${{run[@]}}" --port "$port" >>"$machine.log" 2>&1 </dev/null &
    echo $! >"$machine.pid"
    until curl -s -o /dev/null "http://127.0.0.1:$port/"; do sleep 0.1; done
    touch "up/$machine"
fi
"""


@contextmanager
def running(
    url: str, old_url: str, copy_url: str | None = None
) -> Iterator[tuple[live_pages.Shell, Path]]:
    """Run the old service on both machines, on a database of its newest revision with some data.

    :param url: of an empty database, for this service.
    :param old_url: of the same, with the isolation that the old service has.
    :param copy_url: of an empty database that becomes a copy of it, for ``trial.conf``. Who serves
        that copy also answers the GET requests to the old service, whose emulation does not read.
    """
    folder = Path(tempfile.mkdtemp(prefix="placement-machines-"))
    try:
        _fill(url, old_url)
        (folder / "up").mkdir()
        (folder / "bin").mkdir()
        _configure(folder / "placement.conf", url)
        ssh = folder / "bin" / "ssh"
        python = Path(sys.executable)
        ssh.write_text(SSH.format(folder=folder, python=python, bin=python.parent))
        ssh.chmod(0o755)
        *ports, trial_port = free_ports(len(NAMES) + 1)
        for name, port in zip(NAMES, ports, strict=True):
            (folder / f"{name}.port").write_text(str(port))
        environment = live_pages.environment(folder) | {
            "OLD_DATABASE": old_url,
            "ANSWERS": "" if copy_url is None else f"http://127.0.0.1:{trial_port}",
            **CREDENTIALS,
        }
        # The files name their databases.
        del environment["OS_PLACEMENT_DATABASE__CONNECTION"]
        environment["PATH"] = f"{folder}/bin{os.pathsep}{environment['PATH']}"
        if copy_url is not None:
            _fill(copy_url, copy_url)
            _configure(folder / "trial.conf", copy_url)
        shown = (
            *(
                (f"127.0.0.1:{port}", f"{name}:8778")
                for name, port in zip(NAMES, ports, strict=True)
            ),
            (f"127.0.0.1:{trial_port}", "127.0.0.1:8779"),
            (f"--port {trial_port}", "--port 8779"),
        )
        shell = live_pages.Shell(folder, "http://127.0.0.1:0", environment, shown)
        try:
            # A story that breaks off leaves nothing running.
            shell.run("trap 'kill $(jobs -p) 2>/dev/null' EXIT")
            for name in NAMES:
                shell.run(f"ssh {name} systemctl start openstack-placement")
            yield shell, folder
        finally:
            shell.close()
            for pid in folder.glob("*.pid"):
                subprocess.run(["kill", pid.read_text().strip()], check=False, stderr=subprocess.DEVNULL)
    finally:
        shutil.rmtree(folder)


def _configure(file: Path, url: str) -> None:
    """Write a configuration for a database."""
    escaped = url.replace("%", "%%")
    file.write_text(
        "[DEFAULT]\nuse_stderr = false\nlog_options = false\n"
        f"log_file = {file.parent}/{live_pages.LOG}\n[api]\nauth_strategy = noauth2\n"
        f"[placement_database]\nconnection = {escaped}\n"
    )


def _fill(url: str, old_url: str) -> None:
    database = Database(make_engine(url, sqlite_synchronous=False))
    schema.sync(database, target=OLD_HEAD)
    standard_names.synchronise(database)
    database.dispose()
    old = OldService(old_url)
    for number, host in enumerate(HOSTS, start=1):
        old.create_provider(host, f"host{number}")
        old.set_inventory(host, {"VCPU": {"total": UNITS}})
    old.claim(INSTANCE, {HOSTS[0]: {"VCPU": 2}})
    old.dispose()
