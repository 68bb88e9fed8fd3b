"""PostgreSQL with a standby: it is promoted under load, and the service follows by itself.

PROMISE 4, 5 and 7. What asynchronous replication may lose is shown, and that synchronous replication loses
nothing. ``etc/postgresql`` is used as it is shipped.
"""

import contextlib
import random
import threading
from functools import partial

import psycopg2
import pytest

from tests.proofs.faults.failovers import SHORT, promote
from tests.proofs.faults.standby import Member, pair, url_of
from tests.proofs.year.crew import find_differences
from tests.proofs.year.sites import OPTIONS, RECOVERS_S, SiteCrew
from tests.support import deployment
from tests.support.databases import opened
from tests.support.deployment import Site
from tests.support.processes import PATIENCE, wait_until


def check_what_no_standby_has(site: Site, standby: Member) -> None:
    """It is not acknowledged; a COMMIT that waits is not ended by the deadline of the statement."""
    standby.freeze()
    answer = site.send("PUT", "/traits/CUSTOM_A")
    assert answer.status == 503
    assert answer.json["errors"][0]["reason"] == "outcome_unknown"
    standby.thaw()
    assert site.send("PUT", "/traits/CUSTOM_B").status == 201


def check_who_wakes_up(frozen: Member) -> None:
    """It takes itself for the primary, and acknowledges nothing that is written there: it has no standby."""
    frozen.thaw()
    acknowledged = []
    with contextlib.closing(frozen.connect()) as late:

        def commit() -> None:
            with contextlib.suppress(psycopg2.OperationalError):
                late.commit()
                acknowledged.append("late")

        late.cursor().execute("CREATE TABLE late ()")
        writes = threading.Thread(target=commit)
        writes.start()
        asked = (
            "SELECT count(*) FROM pg_stat_activity"
            f" WHERE wait_event = 'SyncRep' AND pid = {late.info.backend_pid}"
        )
        wait_until("its COMMIT waits", lambda: frozen.execute(asked) == 1)
        frozen.kill()
        writes.join()
    assert not acknowledged


@pytest.mark.ci
def test_a_standby_is_promoted_under_load() -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    scrubbing = OPTIONS | {"OS_PLACEMENT_DATABASE__SCRUB_SHARE": "50"}
    with (
        pair() as (one, two),
        deployment.several([url_of(one, two, more=SHORT)] * 2, **scrubbing) as served,
    ):
        crew = SiteCrew(served, seed)
        with crew.at_work():
            crew.wait_for_progress()
            # What is acknowledged from here on never leaves the primary.
            two.kill()
            crew.wait_for_progress()
        one.kill()
        two.start()
        two.promote()
        for site in served:
            follows = partial(site.send, "PUT", "/traits/CUSTOM_FOLLOWED")
            wait_until("it writes again", lambda send=follows: send().status in (201, 204), RECOVERS_S)
        with opened(url_of(two), patient=True) as db:
            lost = len(list(find_differences(db, (), crew.actors)))
        print(f"asynchronous: {lost} of {sum(crew.acknowledged)} lost")
        assert lost > 0

        one.rewind(two)
        two.require_standby()
        check_what_no_standby_has(served[0], one)
        crew = SiteCrew(served, seed + 1)
        with crew.at_work():
            crew.wait_for_progress()
            two.freeze()
            refused_s = promote(crew, one)
        check_who_wakes_up(two)
        # What was lost before was lost whole: nothing is left of it that only a scrub would see.
        crew.check(url_of(one))
        print(f"synchronous: 0 of {sum(crew.acknowledged)} lost, refused {refused_s:.1f} s")
        assert refused_s < RECOVERS_S * PATIENCE
