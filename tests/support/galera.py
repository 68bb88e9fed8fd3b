"""A three-node MariaDB Galera cluster on loopback, from Debian's mariadb-server, galera-4 and rsync.

    with galera_cluster() as cluster:
        cluster.nodes[0].url("placement")     # a SQLAlchemy URL; each node has its own port
        cluster.nodes[1].kill()               # SIGKILL
        cluster.nodes[1].rejoin()             # start again on what the disk holds, catch up
        cluster.nodes[2].cut_off()            # no packet to or from the others; clients still reach it

Timeouts of the group communication are short (a lost node is evicted after some 2 s, not 5 to 15),
which makes tests quick and changes nothing else.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pymysql

from tests.support.clusters import JOIN_S, Cluster, ClusterNode
from tests.support.network import HERE, Machine
from tests.support.processes import (
    Process,
    as_user,
    free_ports,
    lacking,
    public_folder,
    ran,
    require_program,
)

PROVIDERS = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")

GROUP_OPTIONS = {
    "gcache.size": "32M",
    # After a crash the node finds its own history again and needs only what it missed (IST).
    "gcache.recover": "yes",
    "evs.keepalive_period": "PT0.3S",
    "evs.inactive_check_period": "PT0.2S",
    "evs.suspect_timeout": "PT1.5S",
    "evs.inactive_timeout": "PT3S",
    "evs.install_timeout": "PT3S",
    "gmcast.peer_timeout": "PT1S",
}

SMALL = (
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=16M",
    "--innodb-flush-log-at-trx-commit=2",
    "--performance-schema=OFF",
    "--skip-name-resolve",
    "--max-connections=200",
)

EVERYWHERE = """\
FLUSH PRIVILEGES;
CREATE USER root@'%';
GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;
"""
"""What lets clients in that come from other machines."""


def _user() -> str | None:
    return "mysql" if os.geteuid() == 0 else None


def _give(path: Path) -> None:
    if _user():
        shutil.chown(path, "mysql", "mysql")


def install_mariadb(user: str | None, folder: Path, *options: str) -> None:
    """Make an empty data directory whose root account has no password, in ``folder``."""
    ran(
        [
            *as_user(user),
            require_program("mariadb-install-db"),
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            f"--datadir={folder}/data",
            f"--tmpdir={folder}",
            *options,
        ],
        check=True,
        cwd=folder,
    )


class Node(ClusterNode):
    """One mariadbd of the cluster: its machine, folder, ports and process.

    The others evict it some seconds after it was frozen. Thawed, it finds that out and joins again by itself.
    """

    sees_all = "SET SESSION wsrep_sync_wait = 1"

    def __init__(self, name: str, folder: Path, provider: str, machine: Machine = HERE) -> None:
        super().__init__(name, folder, machine)
        self.provider = provider
        self.group_port, self.catch_up_port, self.copy_port = free_ports(3)
        _give(folder)

    def _arguments(self) -> list[str]:
        options = {
            **GROUP_OPTIONS,
            "gmcast.listen_addr": f"tcp://{self.machine.address}:{self.group_port}",
            "ist.recv_addr": f"{self.machine.address}:{self.catch_up_port}",
        }
        group = ",".join(
            f"{node.machine.address}:{node.group_port}" for node in [self, *self.others]
        )
        return [
            require_program("mariadbd"),
            "--no-defaults",
            f"--datadir={self.data}",
            # A server that starts removes temporary tables from this folder, those of other servers too.
            f"--tmpdir={self.folder}",
            f"--socket={self.folder}/mysqld.sock",
            f"--pid-file={self.folder}/mysqld.pid",
            f"--port={self.port}",
            f"--bind-address={self.machine.address}",
            *SMALL,
            "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2",
            "--wsrep-on=ON",
            f"--wsrep-provider={self.provider}",
            f"--wsrep-provider-options={';'.join(f'{k}={v}' for k, v in options.items())}",
            "--wsrep-cluster-name=placement-tests",
            f"--wsrep-cluster-address=gcomm://{group}",
            f"--wsrep-node-name={self.name}",
            f"--wsrep-node-address={self.machine.address}:{self.group_port}",
            "--wsrep-sst-method=rsync",
            f"--wsrep-sst-receive-address={self.machine.address}:{self.copy_port}",
            "--wsrep-slave-threads=2",
        ]

    def install(self) -> None:
        """Make an empty data directory whose root account has no password."""
        everywhere = self.folder / "everywhere.sql"
        everywhere.write_text(EVERYWHERE)
        options = [f"--extra-file={everywhere}", "--innodb-log-file-size=16M"]
        install_mariadb(_user(), self.folder, *options)

    def start(self, *arguments: str) -> None:
        """Start the server; return at once. A missing data directory is filled by another node."""
        if not self.data.exists():
            self.data.mkdir(mode=0o700)
            _give(self.data)
        command = [*self._arguments(), *arguments]
        self.process = Process(
            self.name, command, folder=self.folder, user=_user(), machine=self.machine
        )

    def _recovered_position(self) -> str:
        """Return ``cluster:sequence number`` of the last transaction in the data directory."""
        recover = ("--wsrep-recover", f"--log-error={self.folder}/recover.log")
        done = ran([*as_user(_user()), *self._arguments(), *recover], cwd=self.folder)
        log = (self.folder / "recover.log").read_text(errors="replace")
        found = re.findall(r"Recovered position: (\S+)", log)
        if not found:
            raise AssertionError(f"{self.name} cannot recover ({done.returncode}):\n{log[-3000:]}")
        return found[-1]

    def rejoin(self, timeout_s: float = JOIN_S) -> None:
        """Start a killed node on what its disk holds and wait until it is a synced member."""
        self.wait_given_up()
        self.start(f"--wsrep-start-position={self._recovered_position()}")
        self.wait_ready(timeout_s)

    def rejoin_empty(self, timeout_s: float = JOIN_S) -> None:
        """Start the node on an empty disk: it gets a full copy from another one."""
        self.wait_given_up()
        shutil.rmtree(self.data)
        self.start()
        self.wait_ready(timeout_s)

    def cut_off(self) -> None:
        if self.machine is not HERE:
            super().cut_off()
            return
        self.execute("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")

    def reconnect(self) -> None:
        if self.machine is not HERE:
            super().reconnect()
            return
        self.execute("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'")

    def status(self, name: str) -> str | None:
        """Return a ``wsrep_`` status variable, or None while the node answers nobody."""
        try:
            rows = self.execute(f"SHOW GLOBAL STATUS LIKE '{name}'")
        except pymysql.Error:
            return None
        return str(rows[0][1]) if rows else None

    def is_ready(self) -> bool:
        state = self.status("wsrep_ready"), self.status("wsrep_local_state_comment")
        return state == ("ON", "Synced")

    def size(self) -> int:
        return int(self.status("wsrep_cluster_size") or 0)


class GaleraCluster(Cluster[Node]):
    """The nodes of one Galera cluster."""

    def start(self) -> None:
        """Bootstrap the first node, join the others."""
        first, *others = self.nodes
        first.install()
        first.start("--wsrep-new-cluster")
        first.wait_ready()
        for node in others:
            node.start()
        for node in others:
            node.wait_ready()
        self.wait_complete()


def require_galera() -> str:
    """Return the path of the Galera provider; skip, or fail in CI, where a piece is missing."""
    for program in ("mariadbd", "mariadb-install-db", "rsync"):
        require_program(program)
    for path in PROVIDERS:
        if Path(path).exists():
            return path
    lacking("galera-4")
    raise AssertionError


@contextlib.contextmanager
def galera_cluster(places: Sequence[Machine] = (HERE,) * 3) -> Iterator[GaleraCluster]:
    """Start a cluster with a node in each place, yield it, and leave nothing behind."""
    provider = require_galera()
    with public_folder("placement-galera-") as folder:
        cluster = GaleraCluster(
            [
                Node(f"node{number}", folder / f"node{number}", provider, machine)
                for number, machine in enumerate(places)
            ]
        )
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
