"""The bad days of a group of MySQL servers behind HAProxy or MySQL Router, each under the clients of a year.

``python -m tests.proofs.year --database innodb-cluster`` has all of them; the test suite some.
"""

import contextlib
from collections.abc import Iterator

from tests.proofs.faults.campaign import FaultReport
from tests.proofs.galera.bad_days import (
    Day,
    api_machine_cut_off,
    balancers_restarted,
    live_on,
    nodes_rolled,
    services_rolled,
    without,
)
from tests.proofs.galera.balanced import PRIMARY, Balanced, Choosing, balanced
from tests.proofs.innodb_cluster.router import Routing
from tests.proofs.year.sites import SiteCrew
from tests.support.innodb_cluster import Member, innodb_cluster
from tests.support.network import machines

CHOOSERS: dict[str, Choosing] = {"haproxy": PRIMARY, "router": Routing()}

KERNEL = {
    "tcp_keepalive_time": 15,
    "tcp_keepalive_intvl": 5,
    "tcp_keepalive_probes": 3,
    "tcp_retries2": 6,
}
"""Of each server, as docs/howto/mysql-innodb-cluster.rst says."""


def primary_switched(running: Balanced, crew: SiteCrew) -> float:
    """Each member becomes the primary, in order and while clients write."""
    refused_s = 0.0
    for member in running.cluster.nodes[1:] + running.cluster.nodes[:1]:
        running.cluster.make_primary(member)
        refused_s = max(refused_s, crew.wait_calm())
    return refused_s


DAYS: dict[str, Day] = {
    "primary killed": without(Member.kill, Member.rejoin),
    "primary killed, disk lost": without(Member.kill, Member.rejoin_empty),
    "primary frozen": without(Member.freeze, Member.thaw),
    "primary switched": primary_switched,
    "balancers restarted": balancers_restarted,
    "members restarted in turn": nodes_rolled,
    "services restarted in turn": services_rolled,
}
NETWORK_DAYS: dict[str, Day] = {
    "primary partitioned": without(Member.cut_off, Member.return_home),
    "API machine cut off from the members": api_machine_cut_off,
}
"""They need machines of their own."""

NEW_MEMBER = "primary killed, disk lost"
"""It is another server, which MySQL Shell tells the Routers of."""


@contextlib.contextmanager
def machined(through: str) -> Iterator[Balanced]:
    """Serve with each member and each API on a machine of its own; skip where none may be made."""
    with machines(["db1", "db2", "db3", "api1", "api2"]) as (*members, one, two):
        for each in members:
            each.set_kernel(**KERNEL)
        with (
            innodb_cluster(members) as group,
            balanced(group, CHOOSERS[through], (one, two)) as running,
        ):
            yield running


@contextlib.contextmanager
def on_loopback(through: str) -> Iterator[Balanced]:
    """Serve with all on this machine."""
    with innodb_cluster() as group, balanced(group, CHOOSERS[through]) as running:
        yield running


def run(through: str, seconds: float, seed: int, *, network: bool = False) -> FaultReport:
    """Live through days for so long; everything it starts ends with it.

    :param through: one of ``CHOOSERS``.
    :param network: on machines of their own, with the days that need them.
    """
    days = DAYS | NETWORK_DAYS if network else DAYS
    if through == "router":
        days = {name: day for name, day in days.items() if name != NEW_MEMBER}
    with (machined if network else on_loopback)(through) as running:
        return live_on(running, f"Group of MySQL servers behind {through}", days, seconds, seed)
