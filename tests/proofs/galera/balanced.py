"""A cluster behind HAProxy, as ``etc/`` ships it: two API machines, each a HAProxy and two service processes.

Or behind something else that chooses the server (tests/proofs/innodb_cluster/router.py).

The machines are network namespaces, or all of them this one. Started from the main thread only.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pymysql

from tests.support import deployment
from tests.support.clusters import Cluster, ClusterNode, execute_at
from tests.support.deployment import ETC, PROGRAMS, Site, shipped
from tests.support.network import HERE, Machine
from tests.support.processes import (
    Process,
    Startable,
    answers,
    free_port,
    free_ports,
    listens,
    public_folder,
    require_program,
)

SERVICES = 2
DATABASE = "balanced"


class Chooser(Startable, ABC):
    """What stands on an API machine and leads to the servers. ``port``: where it takes connections."""

    machine: Machine
    port: int

    @property
    def address(self) -> str:
        """Where it takes connections. (The service is on its machine; so is who makes the schema.)"""
        return f"{self.machine.address}:{self.port}"

    @abstractmethod
    def start(self) -> None:
        """Start, and wait until it leads to those alone that take writes."""

    def restart(self) -> None:
        """End it with all its connections, and start it again."""
        self.kill()
        self.start()

    def leads_to_writers(self) -> bool:
        """Say so of as many connections as there are nodes: they may be taken in turns."""
        with contextlib.suppress(pymysql.Error):
            found = [execute_at(self.machine.address, self.port, "SELECT @@read_only") for _ in ADDRESSES]
            return found == [[(0,)]] * len(ADDRESSES)
        return False


class Choosing(Protocol):
    """A way to choose the server."""

    def prepared(
        self, cluster: Cluster[Any], folder: Path
    ) -> AbstractContextManager[Callable[[Machine, Path], Chooser]]:
        """Prepare the cluster, and yield what makes a chooser on a machine; both folders are for files."""


class Balancing(NamedTuple):
    """Files of ``etc/``: the configuration of HAProxy, and what says of a node whether it takes work.

    ``options``: the variable that names the options of its client.
    """

    configuration: str
    check: str
    options: str

    @contextlib.contextmanager
    def prepared(
        self, cluster: Cluster[Any], folder: Path
    ) -> Iterator[Callable[[Machine, Path], Chooser]]:
        """Let each node say whether it takes work."""
        with contextlib.ExitStack() as stack:
            checks = []
            for node in cluster.nodes:
                process, port = _check(node, self, folder)
                stack.callback(process.kill)
                checks.append(port)
            yield lambda machine, home: Balancer(machine, home, cluster, checks, self.configuration)


CONFIGURATIONS = {
    "one": Balancing("haproxy/placement-galera.cfg", "galera/galera-check", "GALERA_CHECK_OPTIONS"),
    "all": Balancing("haproxy/placement-galera-all.cfg", "galera/galera-check", "GALERA_CHECK_OPTIONS"),
}
"""Who takes the writes."""

PRIMARY = Balancing(
    "haproxy/placement-innodb-cluster.cfg", "innodb-cluster/group-check", "GROUP_CHECK_OPTIONS"
)
"""For a group of MySQL servers."""

ADDRESSES = ("192.0.2.21:3306", "192.0.2.22:3306", "192.0.2.23:3306")
BASE = "global\n    maxconn 500\ndefaults\n    maxconn 500\n"


@dataclass
class Service(Startable):
    """One process that serves on a port of its own, also after it was started again."""

    name: str
    folder: Path
    port: int
    environment: dict[str, str]
    machine: Machine

    def start(self) -> None:
        """Start, and wait until it answers."""
        command = [PROGRAMS / "placement-api", "--config-file", self.folder / "placement.conf"]
        self.process = Process(
            self.name,
            [*command, "--host", self.machine.address, "--port", self.port],
            folder=self.folder,
            environment=self.environment,
            machine=self.machine,
        )
        self.process.wait_until("it answers", lambda: answers(self.url), 60)

    @property
    def url(self) -> str:
        """Where it is found."""
        return f"http://{self.machine.address}:{self.port}"

    def stop(self) -> None:
        """Let it finish what it has begun, and end."""
        if self.process is not None:
            self.process.stop(40)


class Balancer(Chooser):
    """One HAProxy with a shipped configuration."""

    def __init__(
        self,
        machine: Machine,
        folder: Path,
        cluster: Cluster[Any],
        checks: list[int],
        configuration: str,
    ) -> None:
        self.machine, self.folder = machine, folder
        self.port = free_port()
        places = {
            "bind 127.0.0.1:3307": f"bind {self.address}",
            "check port 9200 ": "check ",
        }
        for address, node, check in zip(ADDRESSES, cluster.nodes, checks, strict=True):
            places[address] = f"{node.machine.address}:{node.port} port {check}"
        text = shipped(configuration, folder, **places)
        (folder / "haproxy.cfg").write_text(BASE + text)

    def start(self) -> None:
        command = [require_program("haproxy"), "-db", "-f", str(self.folder / "haproxy.cfg")]
        self.process = Process("haproxy", command, folder=self.folder, machine=self.machine)
        self.process.wait_until("its checks have looked", self.leads_to_writers)


@dataclass
class Balanced:
    """What runs. ``sites``: the service processes as those who write to them see them."""

    cluster: Cluster[Any]
    machines: list[Machine]
    balancers: list[Chooser]
    services: list[Service]
    sites: list[Site]


def _check(node: ClusterNode, balancing: Balancing, folder: Path) -> tuple[Process, int]:
    """Let a script of ``etc/`` answer for a node, as systemd does with our units."""
    port, address = free_port(), node.machine.address
    options = f"--no-defaults --host={address} --port={node.port} --user=root"
    command = [
        require_program("systemd-socket-activate"),
        *("--accept", "--inetd", "--listen", f"{address}:{port}"),
        *("--setenv", f"{balancing.options}={options}"),
        # MySQL's own client is not there.
        *("--setenv", "GROUP_CHECK_CLIENT=mariadb"),
        str(ETC / balancing.check),
    ]
    process = Process(f"check-{port}", command, folder=folder, machine=node.machine)
    return process.wait_until("it listens", lambda: listens(port, address)), port


@contextlib.contextmanager
def balanced(
    cluster: Cluster[Any], choosing: Choosing, places: Sequence[Machine] = (HERE,) * 2
) -> Iterator[Balanced]:
    """Serve through two HAProxies, or what else chooses.

    :param places: the API machines.
    """
    cluster.create_database(DATABASE)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(public_folder("placement-balanced-"))
        make = stack.enter_context(choosing.prepared(cluster, folder))
        balancers, services = [], []
        for number, machine in enumerate(places):
            home = folder / f"machine{number}"
            home.mkdir()
            balancer = make(machine, home)
            balancer.start()
            stack.callback(balancer.kill)
            balancers.append(balancer)
            url = (
                f"mysql+pymysql://root@{balancer.address}/{DATABASE}"
                f"?{cluster.read_your_writes}"
            )
            environment = deployment.prepare(home, url, "[insight]\nenabled = true\n")
            for place, port in enumerate(free_ports(SERVICES)):
                service = Service(f"api{number}{place}", home, port, environment, machine)
                service.start()
                stack.callback(service.stop)
                services.append(service)
        sites = [Site(s.url, s.process, lambda: None) for s in services if s.process]
        yield Balanced(cluster, list(places), balancers, services, sites)
