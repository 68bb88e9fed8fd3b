"""Some days of ``tests.proofs.year --database innodb-cluster``: PROMISE 4, 5 and 7 behind what chooses."""

import random

import pytest

from tests.proofs.galera.bad_days import live
from tests.proofs.galera.balanced import balanced
from tests.proofs.innodb_cluster.bad_days import CHOOSERS, DAYS, NETWORK_DAYS, machined
from tests.proofs.year.sites import SiteCrew
from tests.support.innodb_cluster import Group


@pytest.mark.parametrize("through", CHOOSERS)
def test_nothing_acknowledged_is_lost_on_a_bad_day(group: Group, through: str) -> None:
    """And refusals end within 15 seconds of a primary that can commit."""
    seed = random.randrange(1, 2**31)
    print(f"seed {seed}")
    with balanced(group, CHOOSERS[through]) as running:
        crew = SiteCrew(running.sites, seed)
        for day in ("primary killed", "primary frozen", "primary switched", "balancers restarted"):
            print(day, live(running, crew, DAYS, day))


@pytest.mark.parametrize("through", CHOOSERS)
def test_nothing_acknowledged_is_lost_when_the_network_breaks(through: str) -> None:
    """Each member and each API has a machine of its own: a network namespace."""
    seed = random.randrange(1, 2**31)
    print(f"seed {seed}")
    with machined(through) as running:
        crew = SiteCrew(running.sites, seed)
        for day in NETWORK_DAYS:
            print(day, live(running, crew, NETWORK_DAYS, day))
