"""A coexistence ends by itself when no other service writes any more (specification 06 section 13.1)."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, timedelta

import pytest
from oslo_upgradecheck import upgradecheck
from sqlalchemy import event, select, update

from placement.cmd import status
from placement.db import invariants, models
from placement.db.coexistence import state, takeover
from placement.db.coexistence import watch as watching
from placement.db.coexistence.watch import ForeignWriteWatch
from placement.db.database import Database, Transaction
from placement.db.engine import make_engine
from placement.objects.picture import Picture
from tests.cmd.test_config_check import user_who_may_only_read
from tests.support.both_services import (
    AGGREGATE,
    CONSUMER,
    HOST,
    OLD_CONSUMER,
    OTHER,
    Both,
)
from tests.support.databases import opened
from tests.support.looks import read_cloud
from tests.support.old_service import new_uuid
from tests.support.processes import ENDS_S
from tests.support.recorder import recorded
from tests.support.service import Service, configure

AFTER_S = 3600


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Every request looks whether another service writes, and counts for as long as it takes."""
    monkeypatch.setattr(watching, "CHECK_EVERY_S", 0.0)
    monkeypatch.setattr(watching, "STEP_S", ENDS_S)
    caplog.set_level(logging.INFO, "placement.db.coexistence.watch")


@pytest.fixture
def watch(both: Both) -> ForeignWriteWatch:
    """The watch of one worker, after a write of the old service that it has noted."""
    both.old.claim(OLD_CONSUMER, {HOST: {"VCPU": 2}}, project="p", user="u")
    made = ForeignWriteWatch(both.db, AFTER_S)
    made.check()
    return made


def pass_time(place: Both, seconds: int) -> None:
    """Move the noted time back in the database, as if so long had passed."""
    table = models.coexistence

    def work(tx: Transaction) -> None:
        ((since,),) = tx.rows(select(table.c.since).where(table.c.id > 1))
        earlier = since - timedelta(seconds=seconds)
        tx.change(update(table).where(table.c.id > 1).values(since=earlier))

    place.db.write(work)


def lasts(place: Both) -> bool:
    """Tell whether the coexistence is under way."""
    return place.db.read(state.is_under_way)


def require_end(both: Both, watch: ForeignWriteWatch, time_s: int) -> None:
    """Let the time pass, after which the next look ends the coexistence."""
    pass_time(both, time_s)
    watch.check()
    assert not lasts(both)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the log says of ends."""
    return [text for text in caplog.messages if "has ended" in text]


def test_it_ends_after_the_time_and_says_so(
    both: Both,
    watch: ForeignWriteWatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As by ``db sync --finish``: everything is counted, and searches go on."""
    pass_time(both, AFTER_S - 60)
    watch.check()
    assert lasts(both)
    require_end(both, watch, 60)
    assert len(lines(caplog)) == 1
    assert invariants.violations(both.db) == []
    assert both.found("resources=VCPU:2") == {HOST}
    assert both.claim(CONSUMER, 3) == 409
    both.old.claim(new_uuid(), {HOST: {"VCPU": 1}})
    assert both.claim(CONSUMER, 2) == 409
    assert both.claim(CONSUMER, 1) == 204


def test_it_ends_though_the_noted_time_was_of_a_clock_that_was_wrong(
    both: Both, watch: ForeignWriteWatch
) -> None:
    """A year in the future: the next look notes the time anew."""
    pass_time(both, -365 * 86_400)
    watch.check()
    require_end(both, watch, AFTER_S)


def test_one_of_many_workers_ends_it(
    both: Both,
    watch: ForeignWriteWatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pass_time(both, AFTER_S)
    together = threading.Barrier(4)
    failures: list[BaseException] = []

    def work() -> None:
        another = ForeignWriteWatch(both.db, AFTER_S)
        try:
            together.wait(ENDS_S)
            another.check()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    assert not lasts(both)
    assert len(lines(caplog)) == 1


def test_every_write_of_the_other_service_postpones_it(
    both: Both, watch: ForeignWriteWatch
) -> None:
    """One of each kind, the deletion of a consumer too, which steps no generation."""
    old = both.old
    writes: list[Callable[[], object]] = [
        lambda: old.create_provider(OTHER, "other"),
        lambda: old.set_inventory(OTHER, {"VCPU": {"total": 4}}),
        lambda: old.claim(OLD_CONSUMER, {OTHER: {"VCPU": 2}}),
        lambda: old.set_traits(OTHER, {"HW_CPU_X86_AVX2"}),
        lambda: old.set_aggregates(OTHER, {AGGREGATE}, steps=True),
        lambda: old.release(OLD_CONSUMER),
        lambda: old.claim(new_uuid(), {HOST: {"VCPU": 1}}),
    ]
    for write in writes:
        pass_time(both, AFTER_S - 60)
        write()
        watch.check()
        pass_time(both, AFTER_S - 60)
        watch.check()
        assert lasts(both)
    require_end(both, watch, 60)
    assert invariants.violations(both.db) == []


def test_writes_of_our_own_do_not_postpone_it(both: Both, watch: ForeignWriteWatch) -> None:
    """Also on what the other service has made, written and claimed."""
    both.add_other()
    watch.check()
    pass_time(both, AFTER_S - 60)
    for host in (HOST, OTHER):
        assert both.claim(CONSUMER, 1, host) == 204
        assert both.claim(new_uuid(), 1, host) == 204
    assert both.ours.request("DELETE", f"/allocations/{CONSUMER}").status_int == 204
    assert both.ours.request("DELETE", f"/allocations/{OLD_CONSUMER}").status_int == 204
    watch.check()
    require_end(both, watch, 60)
    assert invariants.violations(both.db) == []


def test_zero_is_never(both: Both) -> None:
    never = ForeignWriteWatch(both.db)
    with recorded(both.db) as statements:
        never.check()
        never.check()
    assert len(statements) == 2
    assert lasts(both)


@pytest.mark.parametrize("late", ["claim", "release"])
def test_what_is_written_while_everything_is_counted_keeps_it_going(
    both: Both,
    watch: ForeignWriteWatch,
    monkeypatch: pytest.MonkeyPatch,
    late: str,
) -> None:
    """The counters would be wrong otherwise, of a deletion for ever."""
    count = takeover.count_anew

    def counting(db: Database) -> Iterator[None]:
        yield from count(db)
        if late == "claim":
            both.old.claim(new_uuid(), {HOST: {"VCPU": 1}})
        else:
            both.old.release(OLD_CONSUMER)

    pass_time(both, AFTER_S)
    with monkeypatch.context() as patched:
        patched.setattr(watching, "count_anew", counting)
        watch.check()
    assert lasts(both)
    watch.check()
    require_end(both, watch, AFTER_S)
    assert invariants.violations(both.db) == []


def test_each_request_counts_for_a_moment_only(
    both: Both,
    watch: ForeignWriteWatch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a large cloud no request waits until all is counted."""
    for number in range(4):
        both.old.create_provider(new_uuid(), f"host-{number}")
    monkeypatch.setattr(takeover, "BATCH", 1)
    monkeypatch.setattr(watching, "STEP_S", 0.0)
    watch.check()
    pass_time(both, AFTER_S)
    requests = 0
    while lasts(both):
        watch.check()
        requests += 1
        assert requests < 50
    assert requests > 5


@contextmanager
def who_only_reads(url: str) -> Iterator[Database]:
    """The database for a worker whose user may write nothing; SQLite has no users."""
    if url.startswith("sqlite"):
        database = Database(make_engine(url))
        event.listen(
            database.engine, "connect", lambda made, _: made.execute("PRAGMA query_only = 1")
        )
        yield database
        database.dispose()
        return
    with user_who_may_only_read(url) as theirs, opened(theirs) as database:
        yield database


def test_who_may_not_write_says_once_what_to_do(
    both: Both,
    watch: ForeignWriteWatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And serves: the search that would have ended the coexistence is answered."""
    pass_time(both, AFTER_S)
    url = both.db.engine.url.render_as_string(hide_password=False)
    with who_only_reads(url) as database:
        picture = Picture(database, AFTER_S)
        for _ in range(3):
            assert read_cloud(picture, len) == 1
    assert lasts(both)
    told = [text for text in caplog.messages if "could not end" in text]
    assert len(told) == 1
    assert "db sync --finish" in told[0]


def test_since_when_it_lasts_is_told_wherever_an_operator_looks(both: Both) -> None:
    """The upgrade check, the health document and the gauge."""
    begun, told = both.db.read(state.read_begin), both.db.read(state.describe)
    assert begun is not None
    assert told is not None
    assert f"since {begun:%Y-%m-%d %H:%M}" in told
    check = next(each for each in status.SHOWN_IF_FOUND if each.title == "Shared Database")
    health = Service(configure(insight__enabled=True, healthcheck__path="/healthcheck"), both.db)

    def gauge() -> float:
        name = "placement_shared_since_timestamp_seconds "
        text = health.request("GET", "/-/metrics").text
        (line,) = [each for each in text.splitlines() if each.startswith(name)]
        return float(line.removeprefix(name))

    shown = check.result(both.db)
    assert told in shown.details
    assert shown.code == upgradecheck.Code.SUCCESS
    assert health.request("GET", "/healthcheck").text == f"OK. {told}"
    assert gauge() == begun.replace(tzinfo=UTC).timestamp()

    takeover.finish(both.db)

    assert check.result(both.db).details is None
    assert health.request("GET", "/healthcheck").text == "OK"
    health = Service(configure(insight__enabled=True), both.db)
    assert gauge() == 0
