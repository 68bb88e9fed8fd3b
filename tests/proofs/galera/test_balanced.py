"""Some days of ``python -m tests.proofs.year --database galera``: PROMISE 4, 5 and 7 behind HAProxy."""

import random

import pytest

from tests.proofs.galera import bad_days
from tests.proofs.galera.bad_days import NETWORK_DAYS, live, machined
from tests.proofs.galera.balanced import CONFIGURATIONS, balanced
from tests.proofs.year.sites import SiteCrew
from tests.support.galera import GaleraCluster

DAYS = {"one": ("node killed, disk lost",), "all": ("node frozen", "HAProxy restarted")}


@pytest.mark.long
@pytest.mark.parametrize("writers", sorted(DAYS))
def test_nothing_acknowledged_is_lost_on_a_bad_day(cluster: GaleraCluster, writers: str) -> None:
    """And refusals end within 15 seconds of a healthy majority."""
    seed = random.randrange(1, 2**31)
    print(f"writers: {writers}, seed {seed}")
    with balanced(cluster, CONFIGURATIONS[writers]) as running:
        crew = SiteCrew(running.sites, seed)
        for day in DAYS[writers]:
            print(day, live(running, crew, bad_days.DAYS, day))


@pytest.mark.long
def test_nothing_acknowledged_is_lost_when_the_network_breaks() -> None:
    """Each node and each API has a machine of its own: a network namespace."""
    seed = random.randrange(1, 2**31)
    print(f"seed {seed}")
    with machined("one") as running:
        crew = SiteCrew(running.sites, seed)
        for day in ("node partitioned", *NETWORK_DAYS):
            print(day, live(running, crew, bad_days.DAYS | NETWORK_DAYS, day))
