"""The bad days of a Galera cluster behind HAProxy, each under claims without pause.

``python -m tests.galera.bad_days --writers one|all --seed S`` has all of them once; the test suite some.
"""

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from subprocess import TimeoutExpired

from placement.db.database import Database
from placement.db.engine import make_engine
from tests.deploy.conversation import create_provider
from tests.galera.balanced import CONFIGURATIONS, DATABASE, Balanced, balanced
from tests.support.galera import Node, galera_cluster
from tests.support.ledger import Ledger
from tests.support.processes import wait_until

Day = Callable[[Balanced, Ledger], float]
"""Does it, and returns how long clients were refused after there was a healthy majority, at the most."""

STOP_S = 60


def _majority(victim: Node, ledger: Ledger) -> float:
    victim.wait_given_up()
    return _calm(ledger)


def _calm(ledger: Ledger) -> float:
    """Wait until nobody is refused any more, and return how long that took from now."""
    since = time.monotonic()
    ledger.wait_for_progress()
    return ledger.wait_calm(since)


def killed(running: Balanced, ledger: Ledger) -> float:
    """SIGKILL; it comes back with what its disk has, and is sent the rest."""
    victim = running.cluster.nodes[0]
    victim.kill()
    refused_s = _majority(victim, ledger)
    victim.rejoin()
    return refused_s


def copied(running: Balanced, ledger: Ledger) -> float:
    """SIGKILL and a new disk; it comes back by a copy of everything."""
    victim = running.cluster.nodes[0]
    victim.kill()
    refused_s = _majority(victim, ledger)
    victim.rejoin_empty()
    return refused_s


def frozen(running: Balanced, ledger: Ledger) -> float:
    """SIGSTOP until the others have given it up and work."""
    victim = running.cluster.nodes[0]
    victim.freeze()
    refused_s = _majority(victim, ledger)
    victim.thaw()
    return refused_s


def partitioned(running: Balanced, ledger: Ledger) -> float:
    """No packet between it and the others; clients still reach it."""
    victim = running.cluster.nodes[0]
    victim.cut_off()
    wait_until("it notices", lambda: victim.status("wsrep_ready") == "OFF")
    refused_s = _majority(victim, ledger)
    victim.reconnect()
    return refused_s


def balancers_restarted(running: Balanced, ledger: Ledger) -> float:
    """One HAProxy after the other, with all connections."""
    refused_s = 0.0
    for balancer in running.balancers:
        balancer.restart()
        refused_s = max(refused_s, _calm(ledger))
    return refused_s


def nodes_rolled(running: Balanced, ledger: Ledger) -> float:
    """Each node is stopped in order and started again."""
    refused_s = 0.0
    for node in running.cluster.nodes:
        assert node.process is not None
        node.process.send(signal.SIGTERM)
        with suppress(TimeoutExpired):
            node.process.popen.wait(STOP_S)
        refused_s = max(refused_s, _majority(node, ledger))
        node.start()
        node.wait_ready()
        running.cluster.wait_complete()
    return refused_s


def services_rolled(running: Balanced, ledger: Ledger) -> float:
    """Each service process is stopped in order and started again."""
    refused_s = 0.0
    for service in running.services:
        service.stop()
        service.start()
        refused_s = max(refused_s, _calm(ledger))
    return refused_s


DAYS: dict[str, Day] = {
    "node killed": killed,
    "node killed, disk lost": copied,
    "node frozen": frozen,
    "node partitioned": partitioned,
    "HAProxy restarted": balancers_restarted,
    "nodes restarted in turn": nodes_rolled,
    "services restarted in turn": services_rolled,
}


def live(running: Balanced, day: str, seed: int) -> str:
    """Live through one day; return what it was like.

    :raises AssertionError: a promise was broken, or refusals did not end in time.
    """
    hosts = [
        create_provider(running.sites[0], f"{day}-{n}", VCPU=100_000, MEMORY_MB=10**7)["uuid"]
        for n in range(5)
    ]
    began = time.monotonic()
    with Ledger(running.sites, hosts, seed, restarting=day.startswith("services")) as ledger:
        ledger.wait_for_progress()
        refused_s = DAYS[day](running, ledger)
        running.cluster.wait_complete()
        refused_s = max(refused_s, _calm(ledger))
    for node in running.cluster.nodes:
        url = node.url(DATABASE) + "?init_command=SET SESSION wsrep_sync_wait=1"
        ledger.check(Database(make_engine(url)))
    return (
        f"{day}: {time.monotonic() - began:.0f} s, {sum(ledger.acknowledged)} acknowledged, 0 lost,"
        f" {len(ledger.refused)} refused, the last {refused_s:.1f} s after there was a majority;"
        f" longest answer {ledger.slowest_s:.1f} s"
    )


def main() -> int:
    """Live through all days with one set-up of HAProxy, and print what they were like."""
    parser = argparse.ArgumentParser(prog="python -m tests.galera.bad_days")
    parser.add_argument("--writers", choices=sorted(CONFIGURATIONS), default="one")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(1, 2**31)
    print(f"writers: {options.writers}, seed {seed}", flush=True)
    with galera_cluster() as cluster, balanced(cluster, options.writers) as running:
        for day in DAYS:
            print(live(running, day, seed), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
