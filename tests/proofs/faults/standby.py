"""A PostgreSQL primary and its standby, each of which may become the other.

They run with the files of ``etc/postgresql``. Started from the main thread only.
"""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.proofs.faults.servers import START_S, PostgreSQLProcess
from tests.support.deployment import ETC
from tests.support.processes import free_ports, public_folder, wait_until


class Member(PostgreSQLProcess):
    """One of the two servers: its folder, port and process."""

    def __init__(self, name: str, folder: Path, port: int) -> None:
        self.name, self.folder, self.port = name, folder, port
        folder.mkdir()
        self._give(folder)

    def _give(self, path: Path) -> None:
        if self.user:
            shutil.chown(path, self.user, self.user)

    def install(self) -> None:
        """Make an empty server with the shipped settings."""
        self.initialise()
        settings = self.data / "conf.d"
        settings.mkdir()
        self._give(settings)
        self._ship("replication.conf")
        with (self.data / "postgresql.conf").open("a") as text:
            text.write("include_dir = 'conf.d'\n")

    def _ship(self, name: str) -> None:
        """Put a file of etc/postgresql where the server reads it."""
        self._give(Path(shutil.copy(ETC / "postgresql" / name, self.data / "conf.d")))

    def start(self) -> None:
        """Start, and wait until it answers."""
        self.process = self.started(self.name, wal_keep_size="64MB")
        self.process.wait_until("it answers", self.answers, START_S)

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
        primary.execute("CHECKPOINT")
        source = f"--source-server={primary.address}"
        self.run("pg_rewind", "-D", self.data, "-R", "--no-sync", source)
        self.start()
        self.wait_streaming(primary)

    def wait_streaming(self, primary: "Member") -> None:
        """Wait until what the primary writes comes here."""
        asked = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        self.running.wait_until("it streams", lambda: primary.execute(asked) == 1, START_S)

    def promote(self) -> None:
        """Become the primary."""
        # Not by SQL: what is replayed meanwhile may cancel any statement of a standby.
        self.run("pg_ctl", "promote", "-D", self.data)

    def require_standby(self) -> None:
        """Acknowledge only what a standby has: etc/postgresql/synchronous.conf."""
        self._ship("synchronous.conf")
        self.execute("SELECT pg_reload_conf()")
        asked = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'"
        wait_until("the standby is waited for", lambda: self.execute(asked) == 1)

    def require_none(self) -> None:
        """Acknowledge alone: what is done to a standby that is to be promoted and has none itself."""
        (self.data / "conf.d" / "synchronous.conf").unlink(missing_ok=True)
        self.execute("SELECT pg_reload_conf()")


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
