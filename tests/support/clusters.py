"""What the clusters of the tests have in common: nodes that clients reach one by one."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import pymysql

from tests.support.network import HERE, Machine
from tests.support.processes import PATIENCE, Startable, free_port, wait_until

JOIN_S = 60.0


class ClusterNode(Startable, ABC):
    """One server of a cluster: its machine, folder, port and process. Root has no password.

    ``sees_all``: the statement after which a session reads what was written on any node before.
    """

    sees_all = ""

    def __init__(self, name: str, folder: Path, machine: Machine = HERE) -> None:
        self.name, self.folder, self.machine = name, folder, machine
        self.data = folder / "data"
        self.port = free_port()
        self.others: list[Self] = []
        folder.mkdir()

    @abstractmethod
    def start(self, *arguments: str) -> None:
        """Start the server; return at once."""

    @abstractmethod
    def rejoin(self) -> None:
        """Start a killed node on what its disk holds and wait until it is a member again."""

    @abstractmethod
    def rejoin_empty(self) -> None:
        """Start a killed node on an empty disk and wait until it is a member again."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Say whether the node is a member and has all the data."""

    @abstractmethod
    def size(self) -> int:
        """Return how many nodes this one sees, itself included."""

    def wait_ready(self, timeout_s: float = JOIN_S) -> None:
        """Wait until the node is a member, and answers queries."""
        self.running.wait_until("it is a member", self.is_ready, timeout_s)

    def wait_given_up(self) -> None:
        """Wait until the others have agreed that this node is gone.

        A node that comes back under a new identity while they still argue about the old one can
        cost them their quorum.
        """
        alive = [other for other in self.others if other.process and other.process.runs]
        wait_until(
            f"the others have given {self.name} up",
            lambda: all(other.is_ready() and other.size() == len(alive) for other in alive),
        )

    def cut_off(self) -> None:
        """Drop every packet between this node and the others; clients still reach it."""
        self.machine.lose(other.machine for other in self.others)

    def reconnect(self) -> None:
        """End :meth:`cut_off`."""
        self.machine.find(other.machine for other in self.others)

    def url(self, database: str) -> str:
        """Return the SQLAlchemy URL of a database on this node."""
        return f"mysql+pymysql://root@{self.machine.address}:{self.port}/{database}"

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements on this node, each by itself; return the rows of the last."""
        return execute_at(self.machine.address, self.port, *statements)


def execute_at(host: str, port: int, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements there, each by itself; return the rows of the last."""
    connection = pymysql.connect(
        host=host,
        port=port,
        user="root",
        autocommit=True,
        connect_timeout=5,
        read_timeout=round(20 * PATIENCE),
        write_timeout=round(20 * PATIENCE),
    )
    with contextlib.closing(connection), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def url_of(nodes: Sequence[ClusterNode], database: str, *parameters: str) -> str:
    """Return a URL that prefers the first of the nodes."""
    hosts = [f"host={node.machine.address}:{node.port}" for node in nodes]
    return f"mysql+pymysql://root@/{database}?{'&'.join([*hosts, *parameters])}"


N = TypeVar("N", bound=ClusterNode)


class Cluster(Generic[N]):
    """Some nodes that replicate one another."""

    def __init__(self, nodes: Sequence[N]) -> None:
        self.nodes = list(nodes)
        for node in nodes:
            node.others = [other for other in nodes if other is not node]

    @property
    def read_your_writes(self) -> str:
        """The parameter of a URL with which a read sees what was written on any node."""
        return f"init_command={self.nodes[0].sees_all}"

    def writer(self) -> N:
        """Return a node that takes writes."""
        return self.nodes[0]

    def wait_complete(self, timeout_s: float = JOIN_S) -> None:
        """Wait until every node is ready and sees all the others."""
        wait_until(
            "all nodes see one another",
            lambda: all(n.is_ready() and n.size() == len(self.nodes) for n in self.nodes),
            timeout_s,
        )

    def create_database(self, name: str) -> list[str]:
        """Make a database anew; return its URL on each node."""
        self.writer().execute(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
        # On Galera a SELECT waits for the writes of other nodes, and SHOW does not: a node that is behind
        # would show the former database, and drop it later.
        found = f"SELECT 1 FROM information_schema.schemata WHERE schema_name = '{name}'"
        for node in self.nodes:
            wait_until(
                f"{node.name} has {name}", lambda node=node: node.execute(node.sees_all, found)
            )
        return [node.url(name) for node in self.nodes]

    def stop(self) -> None:
        """End every node; what they hold is thrown away, so nobody waits for a tidy end."""
        for node in self.nodes:
            node.kill()
