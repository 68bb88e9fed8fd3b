"""A group of three MySQL servers on loopback, as InnoDB Cluster has them: Group Replication.

    with innodb_cluster() as cluster:                      # one primary
    with innodb_cluster(multi_primary=True) as cluster:    # all of them take writes

MySQL is not installed: ``tools/fetch mysql`` unpacks it.
"""

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.support.clusters import JOIN_S, Cluster, ClusterNode
from tests.support.fetched import folder_of, mysqld
from tests.support.network import HERE, Machine
from tests.support.processes import Process, free_port, public_folder, ran, wait_until

GROUP = "6f1c8a3e-0000-4000-8000-706c6163656d"

SMALL = (
    "--innodb-buffer-pool-size=64M",
    "--innodb-redo-log-capacity=32M",
    "--innodb-flush-log-at-trx-commit=2",
    "--sync-binlog=0",
    "--max-connections=200",
)

EVERYWHERE = "CREATE USER root@'%'; GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;"
"""What lets clients and the other members in, by TCP."""

ALONE = "--group-replication-start-on-boot=OFF"
RECOVERY = "CHANGE REPLICATION SOURCE TO SOURCE_USER = 'root' FOR CHANNEL 'group_replication_recovery'"
"""As whom a member fetches what it has missed."""

STATE = """\
SELECT member_state, member_role FROM performance_schema.replication_group_members
WHERE member_id = @@server_uuid"""
SIZE = "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'"


class Member(ClusterNode):
    """One mysqld of the group.

    The others expel it some seconds after it was frozen. Thawed, it finds that out and joins again by itself.
    """

    sees_all = "SET SESSION group_replication_consistency = 'BEFORE'"

    def __init__(self, number: int, folder: Path, multi_primary: bool, machine: Machine) -> None:
        super().__init__(f"member{number}", folder / f"member{number}", machine)
        self.number, self.multi_primary = number, multi_primary
        self.pristine = folder / "pristine"
        self.group_port = free_port()

    @property
    def group_address(self) -> str:
        """Where the other members find it."""
        return f"{self.machine.address}:{self.group_port}"

    def install(self) -> None:
        """Take a copy of an empty data directory, which the first member makes."""
        if not self.pristine.exists():
            script = self.folder / "everywhere.sql"
            script.write_text(EVERYWHERE.replace("; ", ";\n") + "\n")
            made = mysqld(self.pristine, self.folder, "--initialize-insecure", f"--init-file={script}")
            ran(made, check=True, cwd=self.folder)
            # Each server makes an identity of its own.
            (self.pristine / "auto.cnf").unlink()
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.copytree(self.pristine, self.data)

    def start(self, *arguments: str) -> None:
        """Start the server, which joins the group if that is there; return at once."""
        seeds = ",".join(each.group_address for each in (self, *self.others))
        single = "OFF" if self.multi_primary else "ON"
        group = {
            "group-name": GROUP,
            "local-address": self.group_address,
            "group-seeds": seeds,
            "ip-allowlist": "127.0.0.0/8,198.18.0.0/15",
            "single-primary-mode": single,
            "enforce-update-everywhere-checks": "OFF",
            "member-expel-timeout": "0",
            # Otherwise a minority lets commits wait for ever.
            "unreachable-majority-timeout": "5",
            "recovery-get-public-key": "ON",
            # How long a member that comes back waits after a donor that was not there: 60 s by default.
            "recovery-reconnect-interval": "1",
        }
        command = mysqld(
            self.data,
            self.folder,
            *SMALL,
            f"--port={self.port}",
            f"--bind-address={self.machine.address}",
            f"--socket={self.folder}/mysqld.sock",
            f"--pid-file={self.folder}/mysqld.pid",
            "--mysqlx=OFF",
            "--secure-file-priv=NULL",
            "--skip-name-resolve",
            f"--report-host={self.machine.address}",
            f"--server-id={self.number}",
            "--gtid-mode=ON",
            "--enforce-gtid-consistency=ON",
            "--plugin-load-add=group_replication.so",
            *(f"--group-replication-{name}={value}" for name, value in group.items()),
            *arguments,
        )
        self.process = Process(self.name, command, folder=self.folder, machine=self.machine)

    def join(self, before: str = "DO 0", after: str = "DO 0") -> None:
        """Join the group for the first time, between two statements."""
        self.running.wait_until("it answers", self.answers, JOIN_S)
        self.execute(RECOVERY, before, "START GROUP_REPLICATION", after)

    def rejoin(self, timeout_s: float = JOIN_S) -> None:
        self.wait_given_up()
        self.start()
        self.wait_ready(timeout_s)

    def rejoin_empty(self, timeout_s: float = JOIN_S) -> None:
        self.wait_given_up()
        self.install()
        self.start(ALONE)
        self.join()
        self.wait_ready(timeout_s)

    def return_home(self) -> None:
        """Join again after it was cut off, as its operator does: by itself it tries every five minutes."""
        self.reconnect()
        wait_until(f"{self.name} has found out", lambda: self._state()[0] in ("ERROR", "OFFLINE"))
        self.execute("STOP GROUP_REPLICATION", "SET GLOBAL offline_mode = OFF", "START GROUP_REPLICATION")
        self.wait_ready()

    def answers(self) -> bool:
        """Say whether it takes connections."""
        with contextlib.suppress(pymysql.Error):
            self.execute("SELECT 1")
            return True
        return False

    def _state(self) -> tuple[Any, ...]:
        with contextlib.suppress(pymysql.Error):
            return next(iter(self.execute(STATE)), ("", ""))
        return ("", "")

    def is_ready(self) -> bool:
        return self._state()[0] == "ONLINE"

    def is_primary(self) -> bool:
        """Say whether it takes writes, as it believes itself."""
        return self._state() == ("ONLINE", "PRIMARY")

    def size(self) -> int:
        with contextlib.suppress(pymysql.Error):
            return int(self.execute(SIZE)[0][0])
        return 0


class Group(Cluster[Member]):
    """The members of one group."""

    def start(self) -> None:
        """Begin the group with the first member, let the others join."""
        for member in self.nodes:
            member.install()
        first, *others = self.nodes
        first.start(ALONE)
        first.join(
            "SET GLOBAL group_replication_bootstrap_group = ON",
            "SET GLOBAL group_replication_bootstrap_group = OFF",
        )
        first.wait_ready()
        for member in others:
            member.start(ALONE)
        for member in others:
            member.join()
        self.wait_complete()

    def writer(self) -> Member:
        found: list[Member] = []
        wait_until("there is a primary", lambda: found.extend(filter(Member.is_primary, self.nodes)) or found)
        return found[0]

    def make_primary(self, member: Member) -> None:
        """Switch the primary in order, while clients write.

        Transactions that run are ended after two seconds. Without that the old primary waits for a statement
        that waits for a lock, whose holder waits for the old primary, until the wait for the lock is over.
        """
        [[uuid]] = member.execute("SELECT @@server_uuid")
        member.execute(f"SELECT group_replication_set_as_primary('{uuid}', 2)")
        wait_until(f"{member.name} is the primary", lambda: self.writer() is member)


@contextlib.contextmanager
def innodb_cluster(
    places: Sequence[Machine] = (HERE,) * 3, *, multi_primary: bool = False
) -> Iterator[Group]:
    """Start a group with a member in each place, yield it, and leave nothing behind."""
    if not folder_of("mysql").exists():
        pytest.skip("no MySQL was fetched: tools/fetch mysql")
    with public_folder("placement-group-") as folder:
        group = Group(
            [
                Member(number, folder, multi_primary, machine)
                for number, machine in enumerate(places, 1)
            ]
        )
        try:
            group.start()
            yield group
        finally:
            group.stop()
