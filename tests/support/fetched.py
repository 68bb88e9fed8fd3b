"""Servers newer than those of this Debian, unpacked by ``tools/fetch``. One of them while a command runs:

    python -m tests.support.fetched mysql pytest -k mysql tests/db

The command finds its URL where the tests look for a server of its kind.
"""

import contextlib
import getpass
import os
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy

from tests.support.processes import Process, as_user, free_port, public_folder, ran

CHECKOUT = Path(__file__).resolve().parents[2]
START_S = 60.0

BESIDE = "PLACEMENT_TEST_FETCHED"
"""The variable that names the server beside which a command runs."""


def beside() -> str:
    """Return which unpacked server this command runs beside: those that a test starts are such ones too."""
    return os.environ.get(BESIDE, "")


def folder_of(name: str) -> Path:
    """Return where ``tools/fetch NAME`` unpacks a server, whether it has or not."""
    return Path(os.environ.get("PLACEMENT_TEST_SERVERS") or CHECKOUT / "var/servers") / name


def mysqld(data: Path, folder: Path, *options: str) -> list[str]:
    """Return the command of a fetched MySQL on a data directory.

    :param folder: for its temporary files.
    """
    root = folder_of("mysql")
    return [
        f"{root}/usr/sbin/mysqld",
        "--no-defaults",
        f"--user={getpass.getuser()}",
        f"--basedir={root}/usr",
        f"--lc-messages-dir={root}/usr/share/mysql",
        f"--plugin-dir={root}/usr/lib/mysql/plugin",
        f"--datadir={data}",
        f"--tmpdir={folder}",
        *options,
    ]


def postgresql_program(name: str) -> str:
    """Return the path of a program of the unpacked PostgreSQL."""
    [found] = folder_of("postgresql").glob(f"usr/lib/postgresql/*/bin/{name}")
    return str(found)


class Fetched(ABC):
    """An unpacked server on an empty data directory in ``folder``; clients come by TCP without a password.

    What is in it does not survive the machine, so nothing waits for the disk.
    """

    name = ""
    address = ""
    variable = ""
    user: str | None = None
    """As whom it runs if we are root. Another user may not see the checkout; PostgreSQL insists on one."""

    def __init__(self, folder: Path) -> None:
        self.root = folder_of(self.name)
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()

    @abstractmethod
    def installation(self) -> list[str]:
        """Return the command that makes the data directory."""

    @abstractmethod
    def launch(self) -> list[str]:
        """Return the command that starts the server."""

    @property
    def url(self) -> str:
        """The URL of an account that may create databases."""
        return self.address.format(self.port)

    def answers(self) -> bool:
        """Say whether it takes connections."""
        engine = sqlalchemy.create_engine(self.url, poolclass=sqlalchemy.NullPool)
        with contextlib.suppress(sqlalchemy.exc.DBAPIError):
            engine.connect().close()
            return True
        return False


class MySQL(Fetched):
    """A MySQL of Debian unstable."""

    name = "mysql"
    address = "mysql+pymysql://root@127.0.0.1:{}/mysql"
    variable = "PLACEMENT_TEST_MYSQL"

    def installation(self) -> list[str]:
        return mysqld(self.data, self.folder, "--initialize-insecure")

    def launch(self) -> list[str]:
        return mysqld(
            self.data,
            self.folder,
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.folder}/mysqld.sock",
            f"--pid-file={self.folder}/mysqld.pid",
            "--mysqlx=OFF",
            "--secure-file-priv=NULL",
            "--performance-schema=OFF",
            "--skip-log-bin",
            # Clients would encrypt otherwise, and tests read what they send.
            "--tls-version=",
            "--innodb-flush-log-at-trx-commit=0",
            "--max-connections=400",
        )


class MariaDB(Fetched):
    """A MariaDB of Debian unstable."""

    name = "mariadb"
    address = "mysql+pymysql://root@127.0.0.1:{}/mysql"
    variable = "PLACEMENT_TEST_MYSQL"

    def installation(self) -> list[str]:
        return [
            f"{self.root}/usr/bin/mariadb-install-db",
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            f"--user={getpass.getuser()}",
            f"--basedir={self.root}/usr",
            f"--datadir={self.data}",
            f"--tmpdir={self.folder}",
        ]

    def launch(self) -> list[str]:
        return [
            f"{self.root}/usr/sbin/mariadbd",
            "--no-defaults",
            f"--user={getpass.getuser()}",
            f"--basedir={self.root}/usr",
            f"--lc-messages-dir={self.root}/usr/share/mariadb",
            f"--plugin-dir={self.root}/usr/lib/mysql/plugin",
            f"--datadir={self.data}",
            f"--tmpdir={self.folder}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.folder}/mysqld.sock",
            f"--pid-file={self.folder}/mysqld.pid",
            "--skip-ssl",
            "--innodb-flush-log-at-trx-commit=0",
            "--max-connections=400",
        ]


class PostgreSQL(Fetched):
    """A PostgreSQL of Debian unstable."""

    name = "postgresql"
    user = "postgres"
    address = "postgresql+psycopg2://postgres@127.0.0.1:{}/postgres"
    variable = "PLACEMENT_TEST_POSTGRESQL"

    def installation(self) -> list[str]:
        return [
            postgresql_program("initdb"),
            *("-U", "postgres", "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8"),
            *("-D", str(self.data)),
        ]

    def launch(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "400",
            "fsync": "off",
        }
        words = [f"-c{name}={value}" for name, value in settings.items()]
        return [postgresql_program("postgres"), "-D", str(self.data), "-p", str(self.port), *words]


SERVERS: dict[str, type[Fetched]] = {each.name: each for each in (MySQL, MariaDB, PostgreSQL)}


@contextlib.contextmanager
def serving(name: str, *options: str) -> Iterator[Fetched]:
    """Start an unpacked server, yield it, and leave nothing behind.

    :param options: of the server, further ones.
    """
    if not folder_of(name).exists():
        pytest.skip(f"{name} of Debian unstable: tools/fetch {name} fetches it")
    with public_folder(f"placement-{name}-") as folder:
        server = SERVERS[name](folder)
        user = server.user if os.geteuid() == 0 else None
        if user:
            shutil.chown(folder, user, user)
        ran([*as_user(user), *server.installation()], check=True, cwd=folder)
        with Process(name, [*server.launch(), *options], folder=folder, user=user) as process:
            process.wait_until("it answers", server.answers, START_S)
            yield server


def main(name: str, *command: str) -> int:
    """Run a command with the variables of the tests that name the server; return how it ended."""
    with serving(name) as server:
        return subprocess.run(
            command, check=False, env={**os.environ, server.variable: server.url, BESIDE: name}
        ).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
