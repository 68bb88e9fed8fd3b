"""Database servers of our own, in folders of their own, to be killed, filled up and started again.

The servers of the machine are never touched. Beside an unpacked server (tests/support/fetched.py) those of
its kind are unpacked too. Started and started again from the main thread only (tests/support/processes.py
says why).
"""

import contextlib
import os
import shutil
import sqlite3
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pymysql

from tests.support import fetched
from tests.support.galera import install_mariadb
from tests.support.processes import (
    PATIENCE,
    Process,
    Startable,
    as_user,
    free_port,
    public_folder,
    ran,
    require_program,
    wait_until,
)

DISK = "400m"
"""Small enough to fill up in a moment, large enough for an empty server."""

START_S = 60.0
CONNECT_S = int(3 * PATIENCE)
FILL = 1 << 20
SMALL = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "16MB",
    # What was written survives the process; only a power cut would need more.
    "fsync": "off",
}
"""Settings of each PostgreSQL."""

SMALL_MYSQL = (
    "--innodb-buffer-pool-size=32M",
    # Written at each commit, so that it survives the process; synced each second.
    "--innodb-flush-log-at-trx-commit=2",
    "--performance-schema=OFF",
)
"""Options of each MariaDB and MySQL."""

SMALL_LOG = {"mariadb": "--innodb-log-file-size=8M", "mysql": "--innodb-redo-log-capacity=8M"}


class Server(Startable, ABC):
    """A database on a small disk. ``port``: where it listens; 0 for a file."""

    kind = ""
    user: str | None = None
    port = 0

    def __init__(self, folder: Path, own_disk: bool) -> None:
        self.folder = folder
        self.own_disk = own_disk
        if self.user:
            shutil.chown(folder, self.user, self.user)
        self.install()
        self.start()

    @abstractmethod
    def install(self) -> None:
        """Make an empty database cluster."""

    @abstractmethod
    def launch(self) -> Process | None:
        """Start the server process."""

    @abstractmethod
    def answers(self) -> bool:
        """Say whether the server takes connections."""

    @abstractmethod
    def url(self, port: int) -> str:
        """Return the SQLAlchemy URL of the service's database through a port."""

    def start(self) -> None:
        """Start, again and again if it must be, and return when it answers."""

        def up() -> bool:
            if self.process is None or not self.process.runs:
                self.process = self.launch()
            return self.answers()

        wait_until(f"{self.kind} answers", up, START_S)

    def read_only(self, on: bool) -> None:
        """Refuse writes, or take them again."""
        raise NotImplementedError

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"

    def fill_disk(self) -> None:
        """Leave no room."""
        with self._ballast.open("ab", buffering=0) as ballast, contextlib.suppress(OSError):
            while True:
                ballast.write(b"\0" * FILL)

    def free_disk(self) -> None:
        """Give the room back, and start what did not survive."""
        self._ballast.unlink(missing_ok=True)
        if self.process is not None:
            self.start()


def as_root(user: str) -> str | None:
    """Return the user as whom a server runs, if we are root."""
    return user if os.geteuid() == 0 else None


class PostgreSQLProcess(Startable):
    """The programs of PostgreSQL on one data directory, and its administrator."""

    user = as_root("postgres")
    folder: Path
    port: int

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.folder / "data"

    def run(self, program: str, *arguments: Any) -> None:
        """Run one of PostgreSQL's commands."""
        command = [*as_user(self.user), postgresql_program(program), *map(str, arguments)]
        ran(command, check=True, cwd=self.folder)

    def initialise(self) -> None:
        """Make an empty server."""
        self.run(
            *("initdb", "-U", "postgres", "--auth=trust", "--no-sync", "--wal-segsize=1"),
            *("-D", self.data),
        )

    def started(self, name: str, **options: str) -> Process:
        """Start the server with more options than those that make it small."""
        words = [f"-c{name}={value}" for name, value in (SMALL | options).items()]
        command = [postgresql_program("postgres"), "-D", self.data, "-p", self.port, *words]
        return Process(name, command, folder=self.folder, user=self.user)

    def connect(self) -> Any:
        """Return a connection of psycopg2."""
        return psycopg2.connect(self.address, connect_timeout=CONNECT_S)

    @property
    def address(self) -> str:
        """How a program of PostgreSQL finds it."""
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    def execute(self, *statements: str) -> Any:
        """Run statements as the administrator; return the first value of the last answer, if any."""
        with contextlib.closing(self.connect()) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    def answers(self) -> bool:
        """Say whether it takes connections."""
        with contextlib.suppress(psycopg2.Error):
            self.connect().close()
            return True
        return False


class PostgreSQL(PostgreSQLProcess, Server):
    """A PostgreSQL server."""

    kind = "postgresql"

    def install(self) -> None:
        self.port = free_port()
        self.initialise()

    def launch(self) -> Process:
        sizes = {"max_wal_size": "32MB", "min_wal_size": "4MB"}
        return self.started("postgresql", max_connections="60", **sizes)

    def let_in(self, *lines: str) -> None:
        """Let in whom these lines of ``pg_hba.conf`` let in."""
        (self.data / "pg_hba.conf").write_text("\n".join(lines) + "\n")
        # A reload would be noticed later.
        self.kill()
        self.start()

    def url(self, port: int) -> str:
        return f"postgresql://postgres@127.0.0.1:{port}/postgres"

    def read_only(self, on: bool) -> None:
        """As an operator does; running sessions learn it with the next configuration reload."""
        self.execute(
            "SET default_transaction_read_only = off",
            f"ALTER SYSTEM SET default_transaction_read_only = {'on' if on else 'off'}",
            "SELECT pg_reload_conf()",
        )

    def become_standby(self) -> None:
        """Start again as a server in recovery, as after a failover that clients have not seen."""
        self.kill()
        signal_file = self.data / "standby.signal"
        signal_file.touch()
        if self.user:
            shutil.chown(signal_file, self.user, self.user)
        self.start()


def postgresql_program(name: str) -> str:
    """Return the path of a program of the newest PostgreSQL."""
    if fetched.beside() == "postgresql":
        return fetched.postgresql_program(name)
    places = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    return require_program(name, *places)


class MariaDB(Server):
    """A MariaDB server; the service uses an ordinary account."""

    kind = "mysql"
    user = as_root("mysql")

    def install(self) -> None:
        self.port = free_port()
        install_mariadb(self.user, self.folder, SMALL_LOG["mariadb"])

    def launch(self) -> Process:
        command = [
            require_program("mariadbd"),
            "--no-defaults",
            f"--datadir={self.folder}/data",
            # A server that starts removes temporary tables from this folder, those of other servers too.
            f"--tmpdir={self.folder}",
            f"--socket={self.folder}/mysqld.sock",
            f"--pid-file={self.folder}/mysqld.pid",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            SMALL_LOG["mariadb"],
            *SMALL_MYSQL,
            "--skip-name-resolve",
        ]
        return Process("mariadb", command, folder=self.folder, user=self.user)

    def execute(self, *statements: str) -> None:
        """Run statements as the administrator."""
        connection = pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", connect_timeout=CONNECT_S
        )
        with contextlib.closing(connection), connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def answers(self) -> bool:
        with contextlib.suppress(pymysql.Error, OSError):
            self.execute(
                "CREATE DATABASE IF NOT EXISTS placement",
                "CREATE USER IF NOT EXISTS placement@'127.0.0.1'",
                "GRANT ALL ON placement.* TO placement@'127.0.0.1'",
            )
            return True
        return False

    def url(self, port: int) -> str:
        return f"mysql://placement@127.0.0.1:{port}/placement"

    def read_only(self, on: bool) -> None:
        self.execute(f"SET GLOBAL read_only = {int(on)}")


class UnpackedMySQL(MariaDB):
    """A MySQL, or a newer MariaDB, that is not installed."""

    user = None

    def install(self) -> None:
        self.unpacked = fetched.SERVERS[fetched.beside()](self.folder)
        self.port = self.unpacked.port
        self.small = SMALL_LOG[self.unpacked.name]
        ran([*self.unpacked.installation(), self.small], check=True, cwd=self.folder)

    def launch(self) -> Process:
        command = [*self.unpacked.launch(), self.small, *SMALL_MYSQL]
        return Process(self.unpacked.name, command, folder=self.folder)


class SQLite(Server):
    """A file."""

    kind = "sqlite"

    def install(self) -> None:
        """Nothing: the service makes the file."""

    def launch(self) -> None:
        return None

    def answers(self) -> bool:
        return True

    def url(self, port: int) -> str:
        return f"sqlite:///{self.folder}/placement.sqlite"

    def lock(self) -> Any:
        """Take the write lock as another program would; close the result to give it back."""
        other = sqlite3.connect(self.folder / "placement.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        return other


KINDS: dict[str, type[Server]] = {each.kind: each for each in (PostgreSQL, MariaDB, SQLite)}


@contextlib.contextmanager
def server(kind: str) -> Iterator[Server]:
    """Start a server, on a disk of its own if we may make one."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(public_folder(f"placement-faults-{kind}-"))
        own_disk = _mount(folder)
        if own_disk:
            stack.callback(subprocess.run, ["umount", "--lazy", folder], check=False)
        is_unpacked = kind == "mysql" and fetched.beside() in SMALL_LOG
        made = (UnpackedMySQL if is_unpacked else KINDS[kind])(folder, own_disk)
        stack.callback(made.kill)
        yield made


def _mount(folder: Path) -> bool:
    if os.geteuid() != 0:
        return False
    options = f"size={DISK},mode=755"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
