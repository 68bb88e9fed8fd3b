"""Roots with a fresh Debian, and systemd started in one of them, for what is installed into a system."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.processes import ENDS_S, Process, ran, require_program

START_S = 300


def make_root(root: Path, *packages: str) -> None:
    """Unpack the Debian of this machine, from where its apt finds it, as small as it gets."""
    release = dict(
        line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if line
    )["VERSION_CODENAME"].strip('"')
    listed = ran(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Codename: " + release],
        check=True,
    ).stdout.split()
    made = ran(
        [
            require_program("debootstrap"),
            "--variant=minbase",
            f"--include={','.join(packages)}",
            release,
            str(root),
            listed[0],
        ],
    )
    assert made.returncode == 0, made.stdout[-3000:] + made.stderr[-3000:]


def copy_root(root: Path, to: Path) -> None:
    """Copy a root with owners and links, sharing what the file system can share."""
    subprocess.run(["cp", "-a", "--reflink=auto", root, to], check=True, timeout=600)


class Machine:
    """Debian with systemd as its first process; it shares the network of this machine."""

    def __init__(self, root: Path, leader: int) -> None:
        self.root = root
        self._leader = leader

    def run(self, command: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run a line of sh in it as root."""
        done = ran(
            [
                *("nsenter", "--target", str(self._leader), "--all"),
                *("/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"),
                *("DEBIAN_FRONTEND=noninteractive", "/bin/sh", "-c", command),
            ],
            stdin=subprocess.DEVNULL,
        )
        assert not check or done.returncode == 0, command + "\n" + done.stdout + done.stderr
        return done


@contextlib.contextmanager
def booted(root: Path, folder: Path) -> Iterator[Machine]:
    """Start systemd in a root; it ends with the block."""
    command = [
        require_program("systemd-nspawn"),
        *("--quiet", "--register=no", "--keep-unit", "--resolv-conf=replace-host"),
        *("--directory", str(root), "--boot"),
    ]
    with Process("machine", command, folder=folder) as container:
        children = Path(f"/proc/{container.pid}/task/{container.pid}/children")
        container.wait_until("it has a first process", children.read_text, 60)
        machine = Machine(root, int(children.read_text().split()[0]))

        def is_up() -> bool:
            said = machine.run("systemctl is-system-running", check=False).stdout.strip()
            return said in ("running", "degraded")

        container.wait_until("systemd has started", is_up, START_S)
        try:
            yield machine
        finally:
            machine.run("systemctl --no-block poweroff", check=False)
            with contextlib.suppress(subprocess.TimeoutExpired):
                container.popen.wait(ENDS_S)


def in_root(root: Path, command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a line of sh in a root in which nothing runs, with the settings of pip of this machine.

    /proc and /dev are there for the time of the command, in a mount namespace of its own.
    """
    certificates = os.environ.get("PIP_CERT")
    if certificates:
        inside = root / certificates.lstrip("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(certificates, inside)
    mounts = 'mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && exec chroot "$0" "$@"'
    return ran(
        ["unshare", "--mount", "sh", "-c", mounts, str(root), "/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        env={
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            **({"PIP_CERT": certificates} if certificates else {}),
            **environment,
        },
    )
