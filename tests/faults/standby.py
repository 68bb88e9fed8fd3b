"""A PostgreSQL primary and its standby, each of which may become the other.

They run with the files of ``etc/postgresql``. Started from the main thread only.
"""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg2

from tests.faults.servers import as_root, postgresql_program
from tests.support.deployment import ETC
from tests.support.processes import (
    PATIENCE,
    Process,
    as_user,
    free_ports,
    public_folder,
    ran,
    wait_until,
)

START_S = 60.0
USER = as_root("postgres")
SMALL = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "16MB",
    "wal_keep_size": "64MB",
    # What was written survives the process; only a power cut would need more.
    "fsync": "off",
}


class Member:
    """One of the two servers: its folder, port and process."""

    def __init__(self, name: str, folder: Path, port: int) -> None:
        self.name, self.folder, self.port = name, folder, port
        self.data = folder / "data"
        self.process: Process | None = None
        folder.mkdir()
        if USER:
            shutil.chown(folder, USER, USER)

    def run(self, program: str, *arguments: Any) -> None:
        """Run one of PostgreSQL's commands."""
        command = [*as_user(USER), postgresql_program(program), *map(str, arguments)]
        done = ran(command, cwd=self.folder)
        assert done.returncode == 0, done.stdout + done.stderr

    def install(self) -> None:
        """Make an empty server with the shipped settings."""
        self.run(
            *("initdb", "-U", "postgres", "--auth=trust", "--no-sync", "--wal-segsize=1"),
            *("-D", self.data),
        )
        (self.data / "conf.d").mkdir()
        shutil.copy(ETC / "postgresql" / "replication.conf", self.data / "conf.d")
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write("include_dir = 'conf.d'\n")
        for each in (self.data / "conf.d", self.data / "conf.d" / "replication.conf"):
            if USER:
                shutil.chown(each, USER, USER)

    def start(self) -> None:
        """Start, and wait until it answers."""
        words = [word for name, value in SMALL.items() for word in ("-c", f"{name}={value}")]
        command = [postgresql_program("postgres"), "-D", self.data, "-p", str(self.port), *words]
        self.process = Process(self.name, command, folder=self.folder, user=USER)
        self.process.wait_until("it answers", self.answers, START_S)

    def answers(self) -> bool:
        """Say whether it takes connections."""
        with contextlib.suppress(psycopg2.Error):
            self.ask("SELECT 1")
            return True
        return False

    def ask(self, statement: str) -> Any:
        """Run one statement; return the first value of its answer."""
        with contextlib.closing(self.connect()) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            cursor.execute(statement)
            row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    def connect(self) -> Any:
        """Return a connection of psycopg2."""
        where = f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"
        return psycopg2.connect(where, connect_timeout=int(3 * PATIENCE))

    def copy(self, primary: "Member") -> None:
        """Become a standby by a copy of everything."""
        self.run(
            *("pg_basebackup", "-D", self.data, "-R", "-c", "fast", "--no-sync"),
            *("-h", "127.0.0.1", "-p", primary.port, "-U", "postgres"),
        )
        self.start()
        self.wait_streaming(primary)

    def rewind(self, primary: "Member") -> None:
        """Become a standby of the one that took over, after a crash as a primary."""
        # Until its next checkpoint the new primary does not tell that it left the old one's history.
        primary.ask("CHECKPOINT")
        source = f"host=127.0.0.1 port={primary.port} user=postgres dbname=postgres"
        self.run("pg_rewind", "-D", self.data, "-R", "--no-sync", f"--source-server={source}")
        self.start()
        self.wait_streaming(primary)

    def wait_streaming(self, primary: "Member") -> None:
        """Wait until what the primary writes comes here."""
        asked = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        assert self.process is not None
        self.process.wait_until("it streams", lambda: primary.ask(asked) == 1, START_S)

    def promote(self) -> None:
        """Become the primary."""
        # Not by SQL: what is replayed meanwhile may cancel any statement of a standby.
        self.run("pg_ctl", "promote", "-D", self.data)

    def require_standby(self) -> None:
        """Acknowledge only what a standby has: etc/postgresql/synchronous.conf."""
        target = self.data / "conf.d" / "synchronous.conf"
        shutil.copy(ETC / "postgresql" / "synchronous.conf", target)
        if USER:
            shutil.chown(target, USER, USER)
        self.ask("SELECT pg_reload_conf()")
        asked = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'"
        wait_until("the standby is waited for", lambda: self.ask(asked) == 1)

    def require_none(self) -> None:
        """Acknowledge alone: what is done to a standby that is to be promoted and has none itself."""
        (self.data / "conf.d" / "synchronous.conf").unlink(missing_ok=True)
        self.ask("SELECT pg_reload_conf()")

    def freeze(self) -> None:
        """SIGSTOP: its kernel goes on to take connections."""
        assert self.process is not None
        self.process.freeze()

    def thaw(self) -> None:
        """SIGCONT."""
        assert self.process is not None
        self.process.thaw()

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.process.kill()


def url_of(*members: Member, more: str = "") -> str:
    """Return a URL that finds whichever is the primary, as docs/howto/postgresql-standby.rst shows it."""
    hosts = "&".join(f"host=127.0.0.1:{member.port}" for member in members)
    return f"postgresql://postgres@/postgres?{hosts}&target_session_attrs=read-write{more}"


@contextlib.contextmanager
def pair() -> Iterator[tuple[Member, Member]]:
    """Start a primary with a standby; asynchronous."""
    with public_folder("placement-standby-") as folder, contextlib.ExitStack() as stack:
        first, second = (
            Member(name, folder / name, port)
            for name, port in zip(("one", "two"), free_ports(2), strict=True)
        )
        for member in (first, second):
            stack.callback(member.kill)
        first.install()
        first.start()
        second.copy(first)
        yield first, second
