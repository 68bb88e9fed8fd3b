"""The scrub: what is derived is compared stretch by stretch, and mended (specification 06 section 7.8)."""

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import delete, func, select, text, update

from placement.db import change_rows, digests, models, scrub, scrub_rows
from placement.db.coexistence import state, takeover
from placement.db.coexistence.adoption import is_quiet
from placement.db.database import Database
from placement.objects import scrubber
from placement.objects.scrubber import Scrubber
from tests.support import bodies
from tests.support.databases import KINDS
from tests.support.processes import ENDS_S
from tests.support.recorder import recorded
from tests.support.service import Service, configure, running
from tests.support.world import World, new_uuid

SHARE = "placement_database__scrub_share"
AGGREGATE = "11110000-0000-4000-8000-00000000000a"

_providers = models.resource_providers


class Scene:
    """A service that has looked at its cloud: a host with a child, and two consumers of one project."""

    def __init__(self, service: Service) -> None:
        self.service, self.db = service, service.db
        self.world = World(service)
        self.host = self.world.provider(
            "host", None, {"VCPU": 8, "DISK_GB": 100}, ["HW_CPU_X86_AVX"], [AGGREGATE]
        )
        self.child = self.world.provider("child", self.host, {"VGPU": 4}, [], [])
        self.consumers = [new_uuid(), new_uuid()]
        for consumer, sets in zip(
            self.consumers, ({self.host: {"VCPU": 2}}, {self.child: {"VGPU": 1}}), strict=True
        ):
            entry = bodies.entry(sets, None, project_id="red", user_id="ann", consumer_type="INSTANCE")
            self.world.call("PUT", f"/allocations/{consumer}", entry)
        self.answers(service)

    def answers(self, service: Service) -> dict[str, Any]:
        """Return what a service says of all that is derived."""
        paths = (
            f"/resource_providers/{self.host}/usages",
            f"/resource_providers/{self.child}/usages",
            "/usages?project_id=red",
            "/resource_providers?required=HW_CPU_X86_AVX2",
            f"/resource_providers?in_tree={self.host}",
            f"/resource_providers?member_of={AGGREGATE}",
            "/allocation_candidates?resources=VCPU:7",
            "/allocation_candidates?resources=VCPU:1,VGPU:4",
            "/-/explain?resources=VCPU:8",
        )
        return {path: service.send("GET", path).text for path in paths}

    def fresh(self) -> dict[str, Any]:
        """Return what a service says that has just been started."""
        return self.answers(Service(self.service.conf, self.db))

    def by_hand(self, statement: Any) -> None:
        """Run a statement as someone would who knows nothing of the service."""
        with self.db.engine.connect() as connection:
            assert connection.execute(statement).rowcount


@pytest.fixture(params=KINDS)
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A small cloud on each kind of database."""
    with running(request.param, insight__enabled=True) as service:
        service.db.write(forget)
        yield Scene(service)


def forget(tx: Any) -> None:
    """Let nothing be scrubbed yet."""
    tx.change(delete(models.scrub))


def dump(db: Database) -> dict[str, list[str]]:
    """Return all rows but that of the scrub."""
    with db.engine.connect() as connection:
        return {
            table.name: sorted(map(repr, connection.execute(select(table)).all()))
            for table in models.whole_metadata().sorted_tables
            if table is not models.scrub
        }


def make_due(db: Database) -> None:
    db.write(lambda tx: tx.change(update(models.scrub).values(due_at=0)))


def progress(db: Database) -> scrub_rows.ScrubProgress:
    look = db.read(scrub_rows.read_progress)
    assert look is not None
    return look.progress


def go_round(db: Database, one: Scrubber) -> None:
    """Let it go through everything once."""
    db.write(scrub_rows.insert_missing)
    rounds = progress(db).rounds
    while progress(db).rounds == rounds:
        make_due(db)
        one.go_on()


BY_HAND = {
    "allocations deleted": (
        "usage",
        "DELETE FROM allocations WHERE consumer_id IN (SELECT uuid FROM consumers WHERE project_id IN"
        " (SELECT id FROM projects WHERE external_id = 'red'))",
    ),
    "an allocation changed": ("usage", "UPDATE allocations SET used = 5 WHERE used = 2"),
    "a counter changed": ("usage", "UPDATE inventories SET used = 0 WHERE used = 2"),
    "sums of owners deleted": ("owners", "DELETE FROM owner_usages"),
    "a consumer handed over": (
        "owners",
        "UPDATE consumers SET user_id = user_id, project_id = (SELECT MAX(id) FROM projects) + 1",
    ),
    "a ratio": ("contents", "UPDATE inventories SET allocation_ratio = 16.5 WHERE total = 8"),
    "reserved": ("contents", "UPDATE inventories SET reserved = 3 WHERE total = 8"),
    "a trait": (
        "contents",
        "INSERT INTO resource_provider_traits (trait_id, resource_provider_id)"
        " SELECT traits.id, resource_providers.id FROM traits, resource_providers"
        " WHERE traits.name = 'HW_CPU_X86_AVX2' AND resource_providers.name = 'child'",
    ),
    "no aggregate": ("contents", "DELETE FROM resource_provider_aggregates"),
    "an inventory deleted": ("contents", "DELETE FROM inventories WHERE total = 100"),
    "a name": ("contents", "UPDATE resource_providers SET name = 'gast' WHERE name = 'child'"),
    "a root": (
        "contents",
        "UPDATE resource_providers SET parent_provider_id = NULL WHERE name = 'child'",
    ),
}
"""Statements by what the scrub calls that which it mends."""


@pytest.mark.parametrize("what", BY_HAND)
def test_what_was_changed_by_hand_is_answered_as_by_a_fresh_service(
    scene: Scene, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    healed, statement = BY_HAND[what]
    before = scene.answers(scene.service)
    scene.by_hand(text(statement))

    with caplog.at_level(logging.WARNING):
        go_round(scene.db, Scrubber(scene.db, 0.5))

    after = scene.answers(scene.service)
    assert after == scene.fresh()
    assert after != before or what in ("a counter changed", "sums of owners deleted")
    assert scrub.WARNING in caplog.text
    assert scrub.scrub_all(scene.db) == ({}, []), "once is enough"
    assert healed in scrub.WHAT


def test_a_name_in_the_log_steers_no_terminal_and_forges_no_line(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.by_hand(update(models.projects).values(external_id="red\x1b[31m\nline"))
    scene.by_hand(text("UPDATE owner_usages SET used = used + 5"))
    with caplog.at_level(logging.WARNING):
        scrub.scrub_all(scene.db)
    told = [record.getMessage() for record in caplog.records]
    assert any("red\\x1b[31m\\nline" in each for each in told)
    assert all(map(str.isprintable, told))


def test_hosts_are_compared_in_each_round_and_sums_of_owners_in_every_third(scene: Scene) -> None:
    one = Scrubber(scene.db, 0.5)
    sums = select(func.count()).select_from(models.owner_usages)
    wrong_counters = select(func.count()).where(models.inventories.c.used == 7)
    for number in range(4):
        scene.db.write(lambda tx: tx.change(delete(models.owner_usages)))
        scene.by_hand(text("UPDATE inventories SET used = 7 WHERE total = 8"))

        go_round(scene.db, one)

        assert scene.db.read(lambda reader: reader.value(wrong_counters)) == 0
        assert bool(scene.db.read(lambda reader: reader.value(sums))) == (number % 3 == 0)


def test_a_host_that_was_filled_by_hand_is_offered_no_more(scene: Scene) -> None:
    """The first promise, after rows were moved to it by SQL."""
    scene.by_hand(text("UPDATE allocations SET used = 8 WHERE used = 2"))

    go_round(scene.db, Scrubber(scene.db, 0.5))

    entry = bodies.entry({scene.host: {"VCPU": 1}}, None, consumer_type="INSTANCE")
    scene.world.call("PUT", f"/allocations/{new_uuid()}", entry, expect=(409,))
    found = scene.world.get("/allocation_candidates?resources=VCPU:1")
    assert found["allocation_requests"] == []


def test_each_provider_is_named_with_what_was_found_and_what_it_is(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.by_hand(text("DELETE FROM allocations WHERE used = 2"))
    scene.by_hand(text("UPDATE inventories SET reserved = 3 WHERE total = 4"))

    with caplog.at_level(logging.WARNING):
        go_round(scene.db, Scrubber(scene.db, 0.5))

    said = [record.getMessage() for record in caplog.records]
    assert [each for each in said if scene.host in each and "VCPU was kept as 2 and is 0" in each]
    assert [each for each in said if "child was changed" in each and "VGPU total 4 reserved 3" in each]
    assert [each for each in said if each.startswith("Usage of project red")]


def test_a_scrub_that_finds_nothing_changes_not_a_byte(scene: Scene) -> None:
    """After each kind of write: no revision, no generation, no row but its own."""
    one = Scrubber(scene.db, 0.5)
    world, child = scene.world, f"/resource_providers/{scene.child}"

    def generation() -> int:
        return int(world.get(child)["generation"])

    other = world.provider("other")
    writes: list[tuple[str, str, Any]] = [
        ("PUT", child, {"name": "chîld", "parent_provider_uuid": scene.host}),
        ("PUT", child, {"name": "child", "parent_provider_uuid": other}),
        ("PUT", f"{child}/inventories", {"VGPU": {"total": 9, "allocation_ratio": 1.1}}),
        ("PUT", f"{child}/traits", ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"]),
        ("DELETE", f"{child}/traits", None),
        ("PUT", f"{child}/aggregates", [AGGREGATE, new_uuid()]),
        ("POST", "/reshaper", None),
        ("DELETE", f"/allocations/{scene.consumers[0]}", None),
        ("DELETE", f"/resource_providers/{world.provider()}", None),
    ]
    for method, path, given in writes:
        body = given
        if path.endswith(("inventories", "traits", "aggregates")) and method == "PUT":
            kind = path.rpartition("/")[2]
            body = {"resource_provider_generation": generation(), kind: given}
        if path == "/reshaper":
            stock = {"resource_provider_generation": generation(), "inventories": {"VGPU": {"total": 7}}}
            body = {"inventories": {scene.child: stock}, "allocations": {}}
        world.call(method, path, body)
        before = dump(scene.db)

        go_round(scene.db, one)

        assert dump(scene.db) == before, (method, path)
        unlike = scene.db.read(
            lambda reader: reader.rows(
                select(_providers.c.name).where(_providers.c.digest != digests.of_provider())
            )
        )
        assert not unlike


def test_the_first_round_notes_what_there_is_and_says_nothing(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """After the upgrade there are no digests, and workers of the release before leave them behind."""
    table = _providers
    scene.by_hand(update(table).where(table.c.name == "host").values(digest=None, own_revision=None))
    scene.by_hand(
        update(table).where(table.c.name == "child").values(revision=table.c.revision + 1, digest=7)
    )
    columns = select(table.c.name, table.c.revision, table.c.own_revision).order_by(table.c.name)
    before = {row[0]: row[1] for row in scene.db.read(lambda reader: reader.rows(columns))}

    go_round(scene.db, Scrubber(scene.db, 0.5))

    rows = scene.db.read(lambda reader: reader.rows(columns))
    assert caplog.text == ""
    assert {row[0]: row[1] - before[row[0]] for row in rows} == {"host": 0, "child": 1}
    assert all(row[1] == row[2] for row in rows)
    assert scrub.scrub_all(scene.db) == ({}, [])


def test_another_server_may_compute_digests_otherwise(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.db.write(scrub_rows.insert_missing)
    scene.by_hand(update(models.scrub).values(measure=42))
    scene.by_hand(update(_providers).values(digest=7))
    before = scene.answers(scene.service)

    go_round(scene.db, Scrubber(scene.db, 0.5))

    assert caplog.text == ""
    assert scene.answers(scene.service) == before
    scene.by_hand(update(_providers).values(digest=7))
    assert scrub.scrub_all(scene.db)[0] == {"contents": 2}


def test_what_cannot_be_mended_alone_is_named_once_in_a_round(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.by_hand(
        text(
            "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used)"
            " VALUES (987654, 'nobody', 0, 5)"
        )
    )
    one = Scrubber(scene.db, 0.5)

    go_round(scene.db, one)
    first = caplog.text
    go_round(scene.db, one)

    words = "allocations have a provider with inventory of their class"
    assert first.count(words) == 1
    assert caplog.text.count(words) == 2, "and again in the next round"
    scene.by_hand(text("DELETE FROM allocations WHERE used = 5"))


def test_one_worker_takes_a_stretch_and_is_followed_if_it_dies(scene: Scene) -> None:
    db = scene.db
    db.write(scrub_rows.insert_missing)
    look = db.read(scrub_rows.read_progress)
    assert look is not None
    until = look.now + 60_000

    took = [db.write(lambda tx: scrub_rows.take(tx, look.progress.due_at, until)) for _ in range(2)]

    assert took == [True, False]
    other = Scrubber(db, 0.5)
    other.go_on()
    assert progress(db).due_at == until, "it is taken"
    assert (progress(db).stage, progress(db).rounds) == ("", 0)
    # The one that took it dies, and the time comes.
    make_due(db)
    go_round(db, other)
    assert progress(db).rounds == 1
    # Whoever comes back late writes nothing.
    assert not db.write(lambda tx: scrub_rows.give_back(tx, until, look.progress))
    assert progress(db).rounds == 1


def test_a_stage_that_another_release_has_begins_the_round_anew(scene: Scene) -> None:
    scene.db.write(scrub_rows.insert_missing)
    scene.by_hand(update(models.scrub).values(stage="of tomorrow", position=10**9))
    scene.by_hand(text("UPDATE inventories SET used = 7 WHERE used = 2"))

    go_round(scene.db, Scrubber(scene.db, 0.5))

    assert scrub.scrub_all(scene.db) == ({}, [])


@pytest.mark.parametrize("share", [0.5, 50.0])
def test_the_pace_follows_from_the_share(scene: Scene, share: float) -> None:
    """A stretch of a second is followed by one in 200 seconds, or in two."""
    scene.db.write(scrub_rows.insert_missing)
    one = Scrubber(scene.db, share)
    look = scene.db.read(scrub_rows.read_progress)
    assert look is not None
    called_s = time.monotonic()

    given = one._give_back(look, look.progress, look.progress.due_at, called_s - 1.0)

    longest_s = time.monotonic() - called_s + 1.0
    assert 100 / share <= given <= longest_s * 100 / share
    assert 1000 * (1 + given) - 2 <= progress(scene.db).due_at - look.now <= 1000 * (longest_s + given)


YEAR_MS = 365 * 86_400_000
TIMES = ("due_at", "began_at", "ended_at")


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("off_ms", [YEAR_MS, -YEAR_MS, 2**62, -(2**62)])
def test_a_clock_that_was_wrong_stops_no_round(
    scene: Scene, name: str, off_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever time is in the row, a round is made, and the next one begins after its pause."""
    # The whole round is one stretch.
    monkeypatch.setattr(scrubber, "STRETCH_S", ENDS_S)
    db = scene.db
    db.write(scrub_rows.insert_missing)
    look = db.read(scrub_rows.read_progress)
    assert look is not None
    db.write(lambda tx: tx.change(update(models.scrub).values({"due_at": 0, name: look.now + off_ms})))
    one = Scrubber(db, 50.0)

    one.go_on()

    done = progress(db)
    assert done.rounds == 1
    assert 0 <= done.due_at - look.now <= 1000 * (scrubber.ROUND_S + 5 * ENDS_S)
    assert done.began_at == done.due_at


def test_a_scrub_that_cannot_go_on_says_so_once_and_raises_nothing(
    scene: Scene, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.db.write(scrub_rows.insert_missing)
    make_due(scene.db)
    # No such column in the statement: as for a user of the database without rights on the table.
    monkeypatch.setattr(scrub_rows, "_TAKE", update(models.scrub).values(due_at=text("nonesuch")))
    one = Scrubber(scene.db, 0.5)

    one.go_on()
    one.go_on()

    said = [record for record in caplog.records if "could not go on" in record.getMessage()]
    assert len([each for each in said if each.levelno == logging.WARNING]) == 1
    assert not one.is_due()


@pytest.fixture
def shared(scene: Scene) -> Iterator[Scene]:
    """The scene while the OpenStack service may write too."""
    takeover.release(scene.db)
    try:
        scene.answers(scene.service)
        yield scene
    finally:
        takeover.finish(scene.db)


@pytest.mark.parametrize(
    "what", ["a trait", "an allocation changed", "allocations deleted", "a counter changed"]
)
def test_in_the_shared_mode_what_was_changed_is_read_again_and_nothing_said(
    shared: Scene, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    shared.by_hand(text(BY_HAND[what][1]))
    caplog.clear()

    go_round(shared.db, Scrubber(shared.db, 0.5))

    assert caplog.text == "", "the other service may have done it"
    assert shared.answers(shared.service) == shared.fresh()
    assert scrub.scrub_all(shared.db) == ({}, [])


def test_in_the_shared_mode_a_counter_that_is_corrected_does_not_hide_a_write(shared: Scene) -> None:
    """The time for which the other service was quiet begins anew: its deletion shows by the counter alone."""
    found = shared.db.read(state.read_foreign_writes)
    shared.db.write(lambda tx: state.note_state(tx, found.state))
    assert shared.db.read(is_quiet)
    shared.by_hand(text(BY_HAND["allocations deleted"][1]))
    assert not shared.db.read(is_quiet)

    go_round(shared.db, Scrubber(shared.db, 0.5))

    after = shared.db.read(state.read_foreign_writes)
    assert (after.surplus, after.noted) == (0, None)
    assert not shared.db.read(is_quiet)


def test_in_the_shared_mode_the_log_gets_its_slots_again(shared: Scene) -> None:
    """The other service does not know the table, and followers need it when the coexistence ends."""
    shared.by_hand(delete(models.provider_changes))

    healed, left = scrub.scrub_all(shared.db)

    assert (healed, left) == ({"rows": change_rows.SLOTS}, [])


def counted(service: Service) -> int:
    """Return how many messages a request sends, with what follows its answer."""
    with recorded(service.db) as messages:
        service.send("GET", f"/usages?project_id={new_uuid()}")
    return len(messages)


def test_requests_carry_a_stretch_when_it_is_due_and_not_one_message_else() -> None:
    with running() as service:
        service.db.write(forget)
        plain = counted(service)
        sharing = Service(configure(**{SHARE: 0.5}), service.db)
        assert counted(sharing) == plain, "nothing is due in the first second"
        assert service.db.read(scrub_rows.read_progress) is None


def test_a_stretch_follows_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as service:
        service.db.write(forget)
        monkeypatch.setattr(scrubber.random, "uniform", lambda low, high: 0.0)
        sharing = Service(configure(**{SHARE: 0.5}), service.db)
        off = Service(configure(**{SHARE: 0}), service.db)

        off.send("GET", "/traits")
        assert service.db.read(scrub_rows.read_progress) is None
        while (look := service.db.read(scrub_rows.read_progress)) is None or not look.progress.rounds:
            sharing.send("GET", "/traits")

        assert look.progress.ended_at


def test_metrics_show_what_was_scrubbed_and_healed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrubber.random, "uniform", lambda low, high: 0.0)
    with running(insight__enabled=True, **{SHARE: 0.5}) as service:
        service.db.write(forget)
        world = World(service)
        world.provider("host", None, {"VCPU": 8})
        with service.db.engine.connect() as connection:
            connection.execute(text("UPDATE inventories SET used = 3"))

        shown = ""
        while 'placement_healed_total{what="usage"} 1.0' not in shown:
            shown = service.send("GET", "/-/metrics").text

        for stage in scrub.STAGES:
            assert f'placement_scrubbed_total{{stage="{stage.name}"}}' in shown
        assert 'stage="consumers"' not in shown


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DELETE FROM users", "Usage of project red differed from its allocations: VCPU of user (row "),
        ("DELETE FROM projects", "Usage of project (row "),
        ("UPDATE users SET external_id = ''", "VCPU of user '', type INSTANCE, by -1"),
        ("UPDATE users SET external_id = 'a\n\x1b[1mb'", "VCPU of user a\\n\\x1b[1mb, type INSTANCE, by -1"),
        ("UPDATE consumers SET consumer_type_id = NULL", "VCPU of user ann, type unknown, by -3"),
        ("UPDATE inventories SET resource_class_id = 99999 WHERE total = 8",
         "(row 99999 of resource_classes, which is missing) was kept as 2 and is 0"),
    ],
)  # fmt: skip
def test_names_that_are_missing_empty_or_hostile_are_said(
    statement: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An id is not taken for a name, and the sums of one user by several types are told apart."""
    with running("sqlite", insight__enabled=True) as service:
        service.db.write(forget)
        scene = Scene(service)
        with service.db.engine.connect() as connection:
            connection.execute(text("PRAGMA foreign_keys = OFF"))
            connection.execute(text(statement))
            connection.execute(text("UPDATE allocations SET used = 3 WHERE used = 2"))
            connection.commit()

        with caplog.at_level(logging.WARNING):
            scrub.scrub_all(scene.db)

    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if said in line], lines
    assert not [line for line in lines if "\n" in line or "\x1b" in line]
