"""Database servers of our own, in folders of their own, to be killed, filled up and started again.

The servers of the machine are never touched. Started and started again from the main thread only
(tests/support/processes.py says why).
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

from tests.support.processes import (
    PATIENCE,
    Process,
    as_user,
    free_port,
    public_folder,
    require_program,
    wait_until,
)

DISK = "400m"
"""Small enough to fill up in a moment, large enough for an empty server."""

START_S = 60.0
CONNECT_S = int(2 * PATIENCE)
FILL = 1 << 20


class Server(ABC):
    """A database on a small disk. ``port``: where it listens; 0 for a file."""

    kind = ""
    user: str | None = None
    port = 0

    def __init__(self, folder: Path, own_disk: bool) -> None:
        self.folder = folder
        self.own_disk = own_disk
        self.process: Process | None = None
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

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.process.kill()

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

    def stop(self) -> None:
        """End the server."""
        if self.process is not None:
            self.process.kill()


def as_root(user: str) -> str | None:
    """Return the user as whom a server runs, if we are root."""
    return user if os.geteuid() == 0 else None


class PostgreSQL(Server):
    """A PostgreSQL server."""

    kind = "postgresql"
    user = as_root("postgres")

    def install(self) -> None:
        self.port = free_port()
        self._run(
            *("initdb", "-U", "postgres", "--auth=trust", "--no-sync", "--wal-segsize=1"),
            *("-D", self.folder / "data"),
        )

    def _run(self, name: str, *arguments: Any) -> None:
        command = [*as_user(self.user), postgresql_program(name), *map(str, arguments)]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder)

    def launch(self) -> Process:
        options = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "60",
            # What was written survives the process; only a power cut would need more.
            "fsync": "off",
            "shared_buffers": "16MB",
            "max_wal_size": "32MB",
            "min_wal_size": "4MB",
        }
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        command = [
            postgresql_program("postgres"),
            "-D",
            self.folder / "data",
            "-p",
            self.port,
            *words,
        ]
        return Process("postgresql", command, folder=self.folder, user=self.user)

    def _connect(self) -> Any:
        made = psycopg2.connect(
            host="127.0.0.1",
            port=self.port,
            user="postgres",
            dbname="postgres",
            connect_timeout=CONNECT_S,
        )
        made.autocommit = True
        return made

    def execute(self, *statements: str) -> None:
        """Run statements as the administrator."""
        connection = self._connect()
        for statement in statements:
            connection.cursor().execute(statement)
        connection.close()

    def let_in(self, *lines: str) -> None:
        """Let in whom these lines of ``pg_hba.conf`` let in."""
        (self.folder / "data" / "pg_hba.conf").write_text("\n".join(lines) + "\n")
        # A reload would be noticed later.
        self.kill()
        self.start()

    def answers(self) -> bool:
        with contextlib.suppress(psycopg2.Error):
            self._connect().close()
            return True
        return False

    def url(self, port: int) -> str:
        return f"postgresql://postgres@127.0.0.1:{port}/postgres"

    def read_only(self, on: bool) -> None:
        """As an operator does; running sessions learn it with the next configuration reload."""
        connection = self._connect()
        value = "on" if on else "off"
        cursor = connection.cursor()
        cursor.execute("SET default_transaction_read_only = off")
        cursor.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        cursor.execute("SELECT pg_reload_conf()")
        connection.close()

    def become_standby(self) -> None:
        """Start again as a server in recovery, as after a failover that clients have not seen."""
        self.kill()
        signal_file = self.folder / "data" / "standby.signal"
        signal_file.touch()
        if self.user:
            shutil.chown(signal_file, self.user, self.user)
        self.start()


def postgresql_program(name: str) -> str:
    """Return the path of a program of the newest PostgreSQL."""
    places = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    return require_program(name, *places)


class MariaDB(Server):
    """A MariaDB server; the service uses an ordinary account."""

    kind = "mysql"
    user = as_root("mysql")

    def install(self) -> None:
        self.port = free_port()
        command = [
            *as_user(self.user),
            require_program("mariadb-install-db"),
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--innodb-log-file-size=8M",
            f"--datadir={self.folder}/data",
            f"--tmpdir={self.folder}",
        ]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder)

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
            "--innodb-buffer-pool-size=32M",
            "--innodb-log-file-size=8M",
            # Written at each commit, so that it survives the process; synced each second.
            "--innodb-flush-log-at-trx-commit=2",
            "--performance-schema=OFF",
            "--skip-name-resolve",
        ]
        return Process("mariadb", command, folder=self.folder, user=self.user)

    def _connect(self) -> Any:
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            connect_timeout=CONNECT_S,
            autocommit=True,
        )

    def answers(self) -> bool:
        with contextlib.suppress(pymysql.Error, OSError):
            connection = self._connect()
            cursor = connection.cursor()
            cursor.execute("CREATE DATABASE IF NOT EXISTS placement")
            cursor.execute("CREATE USER IF NOT EXISTS placement@'127.0.0.1'")
            cursor.execute("GRANT ALL ON placement.* TO placement@'127.0.0.1'")
            connection.close()
            return True
        return False

    def url(self, port: int) -> str:
        return f"mysql://placement@127.0.0.1:{port}/placement"

    def read_only(self, on: bool) -> None:
        connection = self._connect()
        connection.cursor().execute(f"SET GLOBAL read_only = {int(on)}")
        connection.close()


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
        made = KINDS[kind](folder, own_disk)
        stack.callback(made.stop)
        yield made


def _mount(folder: Path) -> bool:
    if os.geteuid() != 0:
        return False
    options = f"size={DISK},mode=755"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
