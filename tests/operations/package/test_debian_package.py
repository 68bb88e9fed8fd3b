"""The Debian package in a fresh Debian under systemd: installed, served, reloaded, upgraded, purged."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.operations.deploy import conversation
from tests.support import debian
from tests.support.debian import Machine
from tests.support.deployment import Site
from tests.support.processes import ENDS_S, free_port, ran, wait_until

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(3600)]

SETTINGS = """
[api]
auth_strategy = noauth2
[placement_database]
connection = sqlite:////var/lib/placement/placement.sqlite
# What the load counts is compared with what the service counts.
[insight]
enabled = true
public = metrics
metrics_directory = /run/placement/metrics
"""
COMMANDS = (
    "placement-api",
    "placement-manage",
    "placement-status",
    "placement-compare",
    "placement-tree",
    "placement-migrate-compute-inventory",
)
# What apt, dpkg and systemd note of themselves, what lives in memory, and the cache of whoever types.
NOT_OURS = (
    "/proc /sys /run /dev /tmp /var/tmp /var/cache /var/lib/apt /var/lib/dpkg /var/log/journal "
    "/root/.cache"
)


@pytest.fixture(scope="module")
def machine(fresh: Path, package: Path, large: Path) -> Iterator[Machine]:
    """Debian, running, with what the package depends on, and the package at /placement.deb."""
    root = large / "machine"
    debian.copy_root(fresh, root)
    (root / "placement.deb").write_bytes(package.read_bytes())
    needs = ran(["dpkg-deb", "-f", package, "Depends"], check=True).stdout.strip()
    done = debian.in_root(
        root,
        "apt-get update -q && apt-get install -qy --no-install-recommends systemd-sysv dbus && "
        f"apt-get satisfy -qy --no-install-recommends '{needs}'",
        DEBIAN_FRONTEND="noninteractive",
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    with debian.booted(root, large) as machine:
        yield machine


def files(machine: Machine) -> set[str]:
    """Return every path of the system but those that are others' notes, and the users."""
    pruned = " -o ".join(f"-path {path}" for path in NOT_OURS.split())
    found = machine.run(f"find / -xdev \\( {pruned} \\) -prune -o -print").stdout.splitlines()
    users = machine.run("cat /etc/passwd /etc/group").stdout.splitlines()
    return {*found, *users}


def test_from_install_to_purge(machine: Machine, package: Path) -> None:
    """One life of the package, in the order in which an operator meets it."""
    before = files(machine)
    machine.run("apt-get install -qy --no-install-recommends /placement.deb")
    _check_installed(machine)
    site = _configured(machine)
    conversation.check(site)
    _check_reloads(machine, site)
    _check_upgrade(machine, site, package)
    machine.run("apt-get remove -qy placement-service")
    assert machine.run("systemctl is-active placement", check=False).stdout.strip() != "active"
    # Configuration and data stay until the purge.
    machine.run("test -s /etc/placement/placement.conf -a -s /var/lib/placement/placement.sqlite")
    machine.run("apt-get purge -qy placement-service")
    traces = files(machine) ^ before
    assert not traces, sorted(traces)
    assert "placement" not in machine.run("systemctl list-unit-files").stdout


def _check_installed(machine: Machine) -> None:
    """Owners and rights; commands with manual and completion; nothing runs, nothing is enabled."""
    shown = machine.run(
        "stat -c '%A %U:%G %n' /etc/placement /etc/placement/placement.conf /var/lib/placement "
        "/var/log/placement /run/placement"
    ).stdout.splitlines()
    assert shown == [
        "drwxr-x--- root:placement /etc/placement",
        "-rw-r----- root:placement /etc/placement/placement.conf",
        "drwxr-x--- placement:placement /var/lib/placement",
        "drwxr-x--- placement:placement /var/log/placement",
        "drwxr-xr-x placement:placement /run/placement",
    ]
    assert machine.run("systemctl is-enabled placement", check=False).stdout.strip() == "disabled"
    for command in COMMANDS:
        assert f"usage: {command}" in machine.run(f"{command} --help").stdout
        assert machine.run(f"ls /usr/share/man/man[18]/{command}.[18].gz").stdout
        machine.run(f"bash -n /usr/share/bash-completion/completions/{command}")
    machine.run("test -e /etc/logrotate.d/placement-service")
    # Only the configuration, which is not there yet, is wrong.
    said = machine.run("placement-manage config check", check=False)
    assert (said.returncode, said.stdout.count("connection")) == (1, 1), said.stdout
    refused = machine.run("systemctl start placement", check=False)
    assert refused.returncode != 0
    assert "[placement_database]" in machine.run("journalctl -u placement --no-pager").stdout


def _configured(machine: Machine) -> Site:
    """Configure, make the database, start; wait until it answers."""
    port = free_port()
    conf = machine.root / "etc/placement/placement.conf"
    conf.write_text(conf.read_text() + SETTINGS)
    ini = machine.root / "etc/placement/uwsgi.ini"
    socket = "socket = /run/placement/uwsgi.sock\nchmod-socket = 666"
    assert socket in ini.read_text()
    ini.write_text(ini.read_text().replace(socket, f"http-socket = 127.0.0.1:{port}"))
    machine.run("runuser -u placement -- placement-manage db sync")
    machine.run("placement-manage config check")
    machine.run("systemctl reset-failed placement; systemctl enable --now placement")
    assert machine.run(f"stat -c %U /proc/{_main(machine)}").stdout.strip() == "placement"
    # A test may speak HTTP only to what it started: the container shares this machine's network.
    return Site(f"http://127.0.0.1:{port}", None, lambda: None)  # type: ignore[arg-type]


def _check_reloads(machine: Machine, site: Site) -> None:
    """A broken configuration is told and not loaded; a right one is; no request is lost by either."""
    conf = "/etc/placement/placement.conf"
    with conversation.Load(site) as load:
        wait_until("the load has begun", lambda: load.claimed > 20 or load.failures, 60)
        machine.run(f"sed -i 's/^connection =/conection =/' {conf}")
        refused = machine.run("systemctl reload placement", check=False)
        assert refused.returncode == 1
        told = machine.run("journalctl -u placement --no-pager").stdout
        assert "did you mean connection?" in told
        machine.run(f"sed -i 's/^conection =/connection =/' {conf}")
        _reload(machine, "systemctl reload placement")
        after = load.claimed
        wait_until("the load goes on", lambda: load.claimed > after + 20 or load.failures, 60)
    load.check_shown()


def _check_upgrade(machine: Machine, site: Site, package: Path) -> None:
    """A newer package takes the place of the old under load, keeps the configuration, loses nothing."""
    newer = machine.root.with_name("newer")
    subprocess.run(["dpkg-deb", "-R", package, newer], check=True, timeout=5 * ENDS_S)
    control = newer / "DEBIAN/control"
    control.write_text(control.read_text().replace("\nVersion: ", "\nVersion: 1:"))
    version = next(
        (newer / "usr/lib/placement-service/lib").glob("*/site-packages/placement/version.py")
    )
    version.write_text(version.read_text().replace('VERSION = "', 'VERSION = "99.'))
    compiler = [
        "/usr/bin/python3",
        "-m",
        "compileall",
        "-q",
        "-f",
        "--invalidation-mode",
        "unchecked-hash",
    ]
    subprocess.run([*compiler, version], check=True, timeout=ENDS_S)
    built = machine.root / "newer.deb"
    subprocess.run(["dpkg-deb", "-Znone", "-b", newer, built], check=True, timeout=5 * ENDS_S)
    with conversation.Load(site) as load:
        wait_until("the load has begun", lambda: load.claimed > 20 or load.failures, 60)
        _reload(machine, "apt-get install -qy /newer.deb")
        after = load.claimed
        wait_until("the load goes on", lambda: load.claimed > after + 20 or load.failures, 60)
    load.check_shown()
    built.unlink()
    assert machine.run("placement-manage --version").stdout.startswith("99.")
    assert "Placement 99." in machine.run("journalctl -u placement --no-pager").stdout
    assert "noauth2" in machine.run("cat /etc/placement/placement.conf").stdout


def _main(machine: Machine) -> str:
    return machine.run("systemctl show --property MainPID --value placement").stdout.strip()


def _reload(machine: Machine, command: str) -> None:
    """Run what reloads, and wait until every worker is a new one."""
    workers = "cat /proc/{0}/task/{0}/children".format(_main(machine))
    old = set(machine.run(workers).stdout.split())
    assert old
    machine.run(command)

    def replaced() -> bool:
        now = set(machine.run(workers).stdout.split())
        return len(now) >= len(old) and not now & old

    wait_until("every worker is new", replaced, 120)
