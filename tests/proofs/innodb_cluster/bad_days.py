"""The bad days of a group of MySQL servers behind HAProxy, each under claims without pause.

``python -m tests.proofs.faults --database innodb-cluster`` has all of them; the test suite some.
"""

import contextlib
from collections.abc import Iterator

from tests.proofs.galera.bad_days import (
    Day,
    balancers_restarted,
    live_on,
    nodes_rolled,
    services_rolled,
    wait_calm,
    without,
)
from tests.proofs.galera.balanced import PRIMARY, Balanced, balanced
from tests.support.days import Soak
from tests.support.innodb_cluster import Member, innodb_cluster
from tests.support.ledger import Ledger
from tests.support.network import machines


def primary_switched(running: Balanced, ledger: Ledger) -> float:
    """Each member becomes the primary, in order and while clients write."""
    refused_s = 0.0
    for member in running.cluster.nodes[1:] + running.cluster.nodes[:1]:
        running.cluster.make_primary(member)
        refused_s = max(refused_s, wait_calm(ledger))
    return refused_s


DAYS: dict[str, Day] = {
    "primary killed": without(Member.kill, Member.rejoin),
    "primary killed, disk lost": without(Member.kill, Member.rejoin_empty),
    "primary frozen": without(Member.freeze, Member.thaw),
    "primary switched": primary_switched,
    "HAProxy restarted": balancers_restarted,
    "members restarted in turn": nodes_rolled,
    "services restarted in turn": services_rolled,
}
NETWORK_DAYS: dict[str, Day] = {
    "primary partitioned": without(Member.cut_off, Member.return_home),
}
"""They need machines of their own. There is none of an API machine: MySQL ends no idle transactions."""


@contextlib.contextmanager
def machined() -> Iterator[Balanced]:
    """Serve with each member and each API on a machine of its own; skip where none may be made."""
    with (
        machines(["db1", "db2", "db3", "api1", "api2"]) as (*members, one, two),
        innodb_cluster(members) as group,
        balanced(group, PRIMARY, (one, two)) as running,
    ):
        yield running


@contextlib.contextmanager
def on_loopback() -> Iterator[Balanced]:
    """Serve with all on this machine."""
    with innodb_cluster() as group, balanced(group, PRIMARY) as running:
        yield running


def run(seconds: float, seed: int, *, network: bool = False) -> Soak:
    """Live through days for so long; everything it starts ends with it.

    :param network: on machines of their own, with the days that need them.
    """
    days = DAYS | NETWORK_DAYS if network else DAYS
    with (machined if network else on_loopback)() as running:
        return live_on(running, "Group of MySQL servers behind HAProxy", days, seconds, seed)
