"""The bad days of a Galera cluster behind HAProxy, each under the clients of a year.

``python -m tests.proofs.year --database galera --writers one|all`` has all of them; the test suite some.
"""

import contextlib
import functools
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from subprocess import TimeoutExpired
from typing import Any

from tests.proofs.faults.campaign import FaultReport
from tests.proofs.galera.balanced import CONFIGURATIONS, DATABASE, Balanced, balanced
from tests.proofs.year.sites import SiteCrew, live_through, soak
from tests.support.clusters import ClusterNode
from tests.support.galera import Node, galera_cluster
from tests.support.network import machines
from tests.support.processes import wait_until

Day = Callable[[Balanced, SiteCrew], float]
"""Does it, and returns how long clients were refused after there was a healthy majority, at the most."""

STOP_S = 60
CUT_S = 15.0
FREED_S = 45.0
"""Claims whose machine was cut off keep their hosts for lock_timeout and idle_transaction_timeout: 25 s."""


def without(leave: Callable[[Any], object], come_back: Callable[[Any], object]) -> Day:
    """Return a day on which the node that takes writes leaves, and comes back when the others work."""

    def lived(running: Balanced, crew: SiteCrew) -> float:
        victim: ClusterNode = running.cluster.writer()
        leave(victim)
        victim.wait_given_up()
        refused_s = crew.wait_calm()
        come_back(victim)
        return refused_s

    return lived


def partition(victim: Node) -> None:
    """Let no packet through between it and the others; clients still reach it."""
    victim.cut_off()
    wait_until("it notices", lambda: victim.status("wsrep_ready") == "OFF")


def balancers_restarted(running: Balanced, crew: SiteCrew) -> float:
    """One HAProxy after the other, with all connections."""
    refused_s = 0.0
    for balancer in running.balancers:
        balancer.restart()
        refused_s = max(refused_s, crew.wait_calm())
    return refused_s


def nodes_rolled(running: Balanced, crew: SiteCrew) -> float:
    """Each node is stopped in order and started again."""
    refused_s = 0.0
    for node in running.cluster.nodes:
        node.running.send(signal.SIGTERM)
        with contextlib.suppress(TimeoutExpired):
            node.running.popen.wait(STOP_S)
        node.wait_given_up()
        refused_s = max(refused_s, crew.wait_calm())
        node.start()
        node.wait_ready()
        running.cluster.wait_complete()
    return refused_s


def services_rolled(running: Balanced, crew: SiteCrew) -> float:
    """Each service process but the first is stopped in order and started again.

    The first shows what one holds after a long time.
    """
    refused_s = 0.0
    for service in running.services[1:]:
        service.stop()
        service.start()
        refused_s = max(refused_s, crew.wait_calm())
    return refused_s


def api_machine_cut_off(running: Balanced, crew: SiteCrew) -> float:
    """One API machine reaches no node; the other goes on. Returns how long the first took afterwards."""
    lonely = running.machines[0]
    nodes = [node.machine for node in running.cluster.nodes]
    lonely.lose(nodes)
    others = [n for n, service in enumerate(running.services) if service.machine is not lonely]
    for _ in range(3):
        crew.wait_for_progress(others, FREED_S)
        time.sleep(CUT_S / 3)
    lonely.find(nodes)
    return crew.wait_calm()


DAYS: dict[str, Day] = {
    "node killed": without(Node.kill, Node.rejoin),
    "node killed, disk lost": without(Node.kill, Node.rejoin_empty),
    "node frozen": without(Node.freeze, Node.thaw),
    "node partitioned": without(partition, Node.reconnect),
    "HAProxy restarted": balancers_restarted,
    "nodes restarted in turn": nodes_rolled,
    "services restarted in turn": services_rolled,
}
NETWORK_DAYS: dict[str, Day] = {
    # Nobody hears that anything ended.
    "node's machine unplugged": without(
        lambda it: it.machine.unplug(), lambda it: it.machine.plug()
    ),
    "API machine cut off from the nodes": api_machine_cut_off,
}
"""They need machines of their own."""


def live(running: Balanced, crew: SiteCrew, days: Mapping[str, Day], name: str) -> float:
    """Live through one of the days; return for how long clients were refused.

    :raises AssertionError: a promise was broken, or refusals did not end in time.
    """
    return live_through(
        crew, name, functools.partial(_complete, days[name], running), lambda: check(running, crew)
    )


def _complete(day: Day, running: Balanced, crew: SiteCrew) -> float:
    refused_s = day(running, crew)
    running.cluster.wait_complete()
    return max(refused_s, crew.wait_calm())


def check(running: Balanced, crew: SiteCrew) -> None:
    """Hold all nodes against the books."""
    assert crew.follower.parts, "the follower has read everything each time"
    first = running.cluster.writer()
    nodes = [first, *(each for each in running.cluster.nodes if each is not first)]
    crew.check(*(f"{node.url(DATABASE)}?{running.cluster.read_your_writes}" for node in nodes))


@contextlib.contextmanager
def machined(writers: str) -> Iterator[Balanced]:
    """Serve with each node and each API on a machine of its own; skip where none may be made."""
    with (
        machines(["db1", "db2", "db3", "api1", "api2"]) as (*nodes, one, two),
        galera_cluster(nodes) as cluster,
        balanced(cluster, CONFIGURATIONS[writers], (one, two)) as running,
    ):
        yield running


@contextlib.contextmanager
def on_loopback(writers: str) -> Iterator[Balanced]:
    """Serve with all on this machine."""
    with galera_cluster() as cluster, balanced(cluster, CONFIGURATIONS[writers]) as running:
        yield running


def run(writers: str, seconds: float, seed: int, *, network: bool = False) -> FaultReport:
    """Live through days for so long; everything it starts ends with it.

    :param network: on machines of their own, with the days that need them.
    """
    days = DAYS | NETWORK_DAYS if network else DAYS
    with (machined if network else on_loopback)(writers) as running:
        topology = f"Galera behind HAProxy, writers: {writers}"
        return live_on(running, topology, days, seconds, seed)


def live_on(
    running: Balanced, topology: str, days: Mapping[str, Day], seconds: float, seed: int
) -> FaultReport:
    """Live through days for so long."""

    def pids() -> dict[str, int]:
        return {each.name: each.process.pid for each in running.services if each.process}

    crew = SiteCrew(running.sites, seed)
    lives = {name: functools.partial(_complete, day, running) for name, day in days.items()}
    return soak(topology, crew, lives, lambda: check(running, crew), pids, seconds)
