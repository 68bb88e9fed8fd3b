"""Damage stays where it is (specification 06 section 7.7): each foreign id and nullable column in turn.

What is asked, written and advised is tried after each line of ``tests.support.damage.TABLE``, on each kind of
database, alone and while the OpenStack service may write too.
"""

import argparse
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Integer, insert, select, update

from docs._tools.url_page import CLAIMS, EXPLORER, INSIGHT, ROUTES
from placement.cmd import audit
from placement.db import change_rows, invariants, models, online_migrations, scrub_rows, writes
from placement.db.change import Change
from placement.db.coexistence import state, takeover
from placement.db.database import Access, Database, Transaction
from placement.db.transport import Message
from placement.extensions.claims import tables as claims_tables
from placement.extensions.history import tables as history_tables
from placement.extensions.questions import capacity_rows
from placement.objects.replacement import ConsumerChange
from tests.support import bodies
from tests.support.client import VERSION, Answer
from tests.support.clock import let_holds_end
from tests.support.damage import (
    COUNTERS,
    DANGLING,
    GONE_UUID,
    HANGS,
    NO_NUMBERS,
    NOT_REFERENCES,
    NOT_SHARED,
    PARTS,
    RATIOS,
    SOUND,
    STRUCK,
    TABLE,
    VALUES,
    Damage,
    Saved,
    figures,
    partner,
    questions,
    unguarded,
    wide_questions,
)
from tests.support.databases import KINDS, synced, until_exit
from tests.support.effort import LONG
from tests.support.recorder import Hook, observed
from tests.support.revisions import execute
from tests.support.service import Service, configure

MODES = [f"{kind}-{mode}" for kind in KINDS for mode in ("unshared", "shared")]

CASES = [
    (line, mode)
    for number, line in enumerate(TABLE)
    for fitting in [[each for each in MODES if line.fits(each.split("-")[0])]]
    for place, mode in enumerate(fitting)
    if LONG or place == number % len(fitting)
]
"""The long mode tries all lines in all modes; else each is tried in one, and all modes have some."""
MOST_MESSAGES = 500
"""To the database, for one request: those of these small clouds need a tenth."""

SHAPES = f"small: resources=VCPU:1\nsound: resources={SOUND.custom}:1\n"


@dataclass
class Stage:
    """A database of both halves, and what was answered before any damage."""

    db: Database
    saved: Saved
    folder: Path
    asked: list[tuple[str, str]] = field(default_factory=list)
    before: dict[str, Any] = field(default_factory=dict)

    def service(self) -> "Recorded":
        """Return a service that has read nothing yet."""
        options = {
            "enabled": True,
            "metrics_per_provider": True,
            "metrics_per_consumer": True,
            "survival_interval": 1,
            "history_days": 1,
        }
        options["shapes_file"] = str(self.folder / "shapes.yaml")
        conf = configure(**{f"insight__{name}": value for name, value in options.items()})
        return Recorded(conf, self)

    def struck(self, damage: Damage) -> "Recorded":
        """Do the damage and nothing else, and return a service that has read nothing yet."""
        self.saved.put_back()
        damage.apply(self.db)
        return self.service()


class Recorded(Service):
    """Notes what it is asked, and lets no answer be a fault of the service, or take no end."""

    def __init__(self, conf: Any, stage: Stage) -> None:
        super().__init__(conf, stage.db)
        self.stage = stage

    def send(self, method: str, path: str, body: Any = None, version: str = VERSION) -> Answer:
        self.stage.asked.append((method, path))
        messages = count(1)

        def give_up_on_a_loop(_: Connection, sent: Message) -> None:
            assert next(messages) < MOST_MESSAGES, sent.text

        with observed(self.db, Hook(give_up_on_a_loop)):
            answer = super().send(method, path, body, version)
        assert answer.status < 500, (method, path, answer)
        return answer


@cache
def _stage(kind: str, mode: str) -> Stage:
    """Fill a database, once for a process."""
    db = until_exit(synced(kind))
    folder = Path(until_exit(tempfile.TemporaryDirectory()))
    (folder / "shapes.yaml").write_text(SHAPES)
    made = Stage(db, Saved(db), folder)
    service = made.service()
    for half in (SOUND, STRUCK):
        half.make(service)
    db.write(scrub_rows.insert_missing)
    db.write(lambda tx: capacity_rows.add(tx, {"small": 3}))
    if mode == "shared":
        takeover.release(db)
    assert told(db) == set()
    made.saved = Saved(db)
    made.before = answers(service, questions(SOUND))
    return made


@pytest.fixture
def stage(request: pytest.FixtureRequest) -> Stage:
    kind, mode = request.param.split("-")
    return _stage(kind, mode)


def told(db: Database) -> set[str]:
    """Return the faults that ``db check`` tells."""
    return {found.invariant.name for found in invariants.violations(db)}


# -- what is asked -------------------------------------------------------------------------------


def answers(service: Service, paths: Iterable[str]) -> dict[str, Any]:
    """Return what is answered of the sound half, and how many more of its class fit."""
    found: dict[str, Any] = {}
    for path in paths:
        answer = service.send("GET", path)
        found[path] = (answer.status, of_sound(answer.json) if answer.status == 200 else None)
    sound = service.send("GET", f"/-/capacity?resources={SOUND.custom}:1")
    found["count"] = sound.json["count"]
    return found


def of_sound(value: Any) -> Any:
    """Return a document without anything that names what is of the struck half."""
    if isinstance(value, list):
        return [of_sound(each) for each in value if not _names_struck(each)]
    if isinstance(value, dict):
        left = {k: v for k, v in value.items() if not _names_struck(k)}
        return {k: of_sound(v) for k, v in left.items()}
    return None if _names_struck(value) else value


def _names_struck(value: Any) -> bool:
    text = json.dumps(value)
    return any(word in text for word in (STRUCK.digit * 8, STRUCK.name, "LOST"))


def ask_all(stage: Stage, service: Service) -> None:
    """Ask everything: no answer is a fault, and all about the sound half are as before."""
    ask_of_struck(service)
    assert_sound(stage, service, questions(SOUND))


def ask_of_struck(service: Service) -> None:
    """Ask everything but what is told of the sound half alone."""
    for path in (*questions(STRUCK), *figures(STRUCK), *figures(SOUND)):
        service.send("GET", path)
    drains = [{"drain": half.uuid("root")} for half in (SOUND, STRUCK)]
    places = [{"place": STRUCK.query, "times": 2}]
    for changes in (drains[:1], drains[1:], places):
        service.send("POST", "/-/what-if", {"changes": changes, "query": SOUND.query})
    trees = [half.uuid("root") for half in (SOUND, STRUCK)]
    for goal in (
        {"place": SOUND.query, "times": 1000},
        {"empty": {"trees": trees}},
        {"empty": {"count": 2, "level": "aggregate"}},
        {"keep": [STRUCK.name]},
    ):
        service.send("POST", "/-/plans", {"goal": goal})


def assert_sound(stage: Stage, service: Service, paths: Iterable[str]) -> None:
    """Let the answers about the sound half be as before."""
    now = answers(service, paths)
    assert {path: now[path] for path in now if now[path] != stage.before[path]} == {}


# -- what is written -----------------------------------------------------------------------------


def held(db: Database, consumer: str) -> set[int]:
    """Return on which providers a consumer has allocations, whatever else of it is there."""
    rows = models.allocations
    wanted = select(rows.c.resource_provider_id).where(rows.c.consumer_id == consumer)
    return set(db.read(lambda tx: tx.column(wanted)))


def generation(service: Recorded, consumer: str) -> int | None:
    """Return the generation that a client knows."""
    shown = service.send("GET", f"/allocations/{consumer}").json.get("consumer_generation")
    return None if shown is None else int(shown)


SPARE = {STRUCK.uuid("spare"): {"VCPU": 1}}


def put(service: Recorded, what: str, sets: bodies.Sets) -> Answer:
    uuid = STRUCK.uuid(what)
    body = STRUCK.entry(sets, generation(service, uuid))
    return service.send("PUT", f"/allocations/{uuid}", body)


def post(service: Recorded, what: str, sets: bodies.Sets) -> Answer:
    uuid = STRUCK.uuid(what)
    body = {uuid: STRUCK.entry(sets, generation(service, uuid))}
    return service.send("POST", "/allocations", body)


def reshape(service: Recorded, what: str, sets: bodies.Sets) -> Answer:
    uuid = STRUCK.uuid(what)
    entries = {uuid: STRUCK.entry(sets, generation(service, uuid))}
    spare = STRUCK.uuid("spare")
    listed = service.send("GET", f"/resource_providers/{spare}/inventories").json
    body = {"inventories": {spare: listed}, "allocations": entries}
    return service.send("POST", "/reshaper", body)


def claim(service: Recorded, what: str, sets: bodies.Sets) -> Answer:
    query = f"resources=VCPU:1&in_tree={STRUCK.uuid('spare')}"
    known = generation(service, STRUCK.uuid(what))
    claims = [STRUCK.claim(what, known, query=query, groups=[f"{STRUCK.name}-2"])]
    rules = {f"{STRUCK.name}-2": {"rule": "together"}}
    answer = service.send("POST", "/-/claims", {"claims": claims, "groups": rules})
    if answer.status == 200:
        (granted,) = answer.json["claims"]
        assert granted["consumer_generation"] == generation(service, STRUCK.uuid(what))
    return answer


def audited(service: Recorded, what: str, sets: bodies.Sets) -> Answer:
    """Remove it as a leak: all others exist."""
    uuids = set(service.db.read(lambda tx: tx.column(select(models.consumers.c.uuid))))
    existing = service.stage.folder / "existing"
    existing.write_text("\n".join(uuids - {STRUCK.uuid(what)}))
    assert audit_of(service, existing) == audit.CLEAN
    return Answer(204)


def audit_of(service: Service, existing: Path) -> int:
    """Remove all leaks, and return the exit code."""
    parser = argparse.ArgumentParser()
    audit.add_parser(parser.add_subparsers())
    given = ["audit", "--consumers", str(existing), "--remove", "--yes", "--older-than", "0s"]
    # All of this small cloud may be leaks.
    given += ["--at-most", "100"]
    return audit.run(service.db, parser.parse_args(given))


Way = tuple[Callable[[Recorded, str, bodies.Sets], Answer], bodies.Sets]
WAYS: list[Way] = [
    (lambda service, what, _: service.send("DELETE", f"/allocations/{STRUCK.uuid(what)}"), {}),
    *((way, sets) for way in (put, post, reshape) for sets in ({}, SPARE)),
    (claim, SPARE),
    (audited, {}),
]


@pytest.mark.parametrize(("damage", "stage"), CASES, ids=str, indirect=["stage"])
def test_damage_stays_where_it_is(stage: Stage, damage: Damage) -> None:
    shared = stage.db.read(state.is_under_way)
    expected = set(damage.told) - (NOT_SHARED if shared else set())

    service = stage.struck(damage)

    assert told(stage.db) == expected
    ask_all(stage, service)
    write_providers(service)
    write_names(service)
    for path in wide_questions(STRUCK):
        service.send("GET", path)
    for number, (way, sets) in enumerate(WAYS):
        service = stage.struck(damage)
        empty(stage, service, "plain", way, sets)
        empty(stage, service, ("member", "other", "held")[number % 3], way, sets)
    pass_time(stage, damage, expected)
    service = stage.struck(damage)
    follow_advice(service)
    remove_all(service)
    assert told(stage.db) == set()
    assert_sound(stage, service, wide_questions(SOUND))


def pass_time(stage: Stage, damage: Damage, expected: set[str]) -> None:
    """Let holds end over the damage: each kind of request is answered that is the first to see it."""
    # An inventory whose provider is gone is not counted when its allocations go.
    bearable = expected | ({COUNTERS} if PARTS in expected else set())
    for first in (ask_of_struck, write_names, lambda service: claim(service, "new", SPARE)):
        service = stage.struck(damage)
        let_holds_end(stage.db)
        first(service)
        assert told(stage.db) <= bearable


def empty(stage: Stage, service: Recorded, what: str, way: Any, sets: bodies.Sets) -> None:
    """Write a consumer of the struck half: what it held before is gone, and it can be deleted."""
    uuid = STRUCK.uuid(what)
    answer = way(service, what, sets)
    has_no_record = answer.status == 404 and generation(service, uuid) is None
    assert answer.status in (200, 204) or has_no_record, (way, what, answer)
    if way is not audited and not has_no_record:
        left = set(provider_ids(stage.db, STRUCK.uuid("spare"))) if sets else set()
        assert held(stage.db, uuid) == left, (way, what)
    if held(stage.db, uuid) and put(service, what, {}).status != 204:
        assert service.send("DELETE", f"/allocations/{uuid}").status == 204
    assert held(stage.db, uuid) == set()


def provider_ids(db: Database, uuid: str) -> list[int]:
    rows = models.resource_providers
    return db.read(lambda tx: tx.column(select(rows.c.id).where(rows.c.uuid == uuid)))


def write_providers(service: Recorded) -> None:
    """Write everything of each provider of the struck half that is there: nothing is refused for ever."""
    for uuid in STRUCK.providers:
        path = f"/resource_providers/{uuid}"
        shown = service.send("GET", path)
        if shown.status == 404:
            continue
        for method, part, body in changes(shown.json["name"]):
            known = service.send("GET", path).json["generation"]
            if method != "DELETE" and part != "":
                body = {"resource_provider_generation": known, **body}
            answer = service.send(method, path + part, body)
            assert answer.status in (200, 201, 204, 404) or answer.json["errors"][0]["reason"] in (
                *("inventory_in_use", "unknown_inventory", "unknown_resource_class"),
                *("unknown_trait", "inventory_exists"),
            ), (method, part, answer)
        known = service.send("GET", path).json["generation"]
        inventories = {uuid: bodies.stock(known, {"VCPU": 7, "VGPU": 7, "DISK_GB": 1000})}
        answer = service.send("POST", "/reshaper", {"inventories": inventories, "allocations": {}})
        assert answer.status == 204 or answer.json["errors"][0]["reason"] == "inventory_in_use"


def write_names(service: Recorded) -> None:
    """Write what is not of one provider, and what is claimed: no answer is a fault."""
    held_one = {"consumer_uuid": STRUCK.uuid("held"), "consumer_generation": 1}
    child = {"name": "STRUCK-new", "uuid": STRUCK.uuid("new")}
    child["parent_provider_uuid"] = STRUCK.uuid("child")
    for method, path, body in (
        ("POST", "/-/claims/confirm", {"consumers": [held_one]}),
        ("POST", f"/-/claims/{STRUCK.uuid('held')}/confirm", None),
        ("POST", "/-/claims", {"claims": [STRUCK.claim("new", groups=[STRUCK.name])]}),
        ("DELETE", f"/resource_classes/{STRUCK.custom}", None),
        ("DELETE", f"/traits/{STRUCK.custom}", None),
        ("POST", "/resource_classes", {"name": f"{STRUCK.custom}_2"}),
        ("PUT", f"/resource_classes/{STRUCK.custom}", None),
        ("PUT", f"/traits/{STRUCK.custom}", None),
        ("POST", "/resource_providers", child),
    ):
        service.send(method, path, body)
    goal = {"empty": {"trees": [STRUCK.uuid("root")]}}
    answer = service.send("POST", "/-/plans", {"goal": goal, "hold_s": 9})
    for step in answer.json["steps"] if answer.status == 200 else ():
        # Otherwise it would hold what is removed next.
        service.send("DELETE", f"/allocations/{step['held_by']['consumer_uuid']}")


def changes(name: str | None) -> Iterator[tuple[str, str, Any]]:
    """Yield the writes of one provider: method, what follows its path, body."""
    yield ("PUT", "", {"name": f"{name}-renamed"})
    yield ("PUT", "/inventories", {"inventories": {"VCPU": {"total": 5}, "VGPU": {"total": 5}}})
    yield ("PUT", "/inventories/VCPU", {"total": 6})
    yield ("POST", "/inventories", {"resource_class": STRUCK.custom, "total": 6})
    yield ("DELETE", f"/inventories/{STRUCK.custom}", None)
    yield ("PUT", "/traits", {"traits": ["HW_CPU_X86_VMX", STRUCK.custom]})
    yield ("PUT", "/aggregates", {"aggregates": [STRUCK.uuid("aggregate")]})
    yield ("DELETE", "/traits", None)
    yield ("DELETE", "/inventories", None)


def follow_advice(service: Recorded) -> None:
    """Do what ``db check`` says, as often as it says something new."""
    for _ in range(4):
        for found in invariants.violations(service.db):
            invariant = found.invariant
            if invariant.repair is not None:
                invariants.repair(service.db, invariant)
            elif "online_data_migrations" in invariant.advice:
                ids = online_migrations.IncompleteIds("nobody", "nobody")
                for _, migrate in online_migrations.list_migrations():
                    migrate(service.db, ids, 50)
            elif invariant.name == DANGLING:
                query = invariant.query.with_only_columns(models.allocations.c.consumer_id)
                for uuid in set(service.db.read(partial(Access.column, statement=query))):
                    service.send("DELETE", f"/allocations/{uuid}")
            elif invariant.name == RATIOS:
                path = f"/resource_providers/{STRUCK.uuid('root')}/inventories/{STRUCK.custom}"
                record = service.send("GET", path).json
                assert record["allocation_ratio"] == 0
                answer = service.send("PUT", path, record | {"allocation_ratio": 1.0})
                assert answer.status == 200, answer
            elif invariant.name == VALUES:
                correct_numbers(service.db)
            else:
                assert invariant.name == HANGS
                providers = models.resource_providers
                with unguarded(service.db) as connection:
                    lost = providers.c.uuid == STRUCK.uuid("child")
                    connection.execute(
                        update(providers).where(lost).values(parent_provider_id=None)
                    )
    assert told(service.db) == set()


def correct_numbers(db: Database) -> None:
    """Replace each text in a column of numbers: by NULL where that may be, else by a number."""
    for table in models.whole_metadata().tables.values():
        for column in table.columns:
            if isinstance(column.type, Integer):
                right = "NULL" if column.nullable else "1"
                wrong = f"typeof({column.name}) = 'text'"
                execute(db, f"UPDATE {table.name} SET {column.name} = {right} WHERE {wrong}")


def remove_all(service: Recorded) -> None:
    """Remove the whole struck half."""
    # A row that led to nobody has got a consumer by now.
    for uuid in (*STRUCK.consumers, GONE_UUID):
        answer = service.send("DELETE", f"/allocations/{uuid}")
        assert answer.status in (204, 404), answer
    for uuid in STRUCK.providers:
        answer = service.send("DELETE", f"/resource_providers/{uuid}")
        assert answer.status in (204, 404), answer


def test_the_table_has_every_foreign_id_and_every_nullable_column() -> None:
    done = {
        (table, name, each.how)
        for each in TABLE
        for table in each.tables.split()
        for name in each.columns.split() or ("",)
    }
    for table in models.whole_metadata().tables.values():
        # The row of a coexistence is its begin, and not there at its end.
        assert table is models.coexistence or any(table.name == struck for struck, *_ in done)
        for column in table.c:
            # NULL is how the row of the scrub begins, and in the history it says that there was nothing.
            if column.nullable and table not in (models.scrub, history_tables.history):
                assert (table.name, column.name, "NULL") in done
            points_to = partner(table.name, column.name)
            if points_to is not None:
                assert (table.name, column.name, "nowhere") in done
                assert (points_to.table.name, "", "removed") in done
            else:
                assert not column.foreign_keys
                assert column.name in NOT_REFERENCES or not column.name.endswith("_id"), column


def test_every_route_is_asked() -> None:
    stage = _stage("sqlite", "unshared")
    service = stage.struck(TABLE[0])
    ask_all(stage, service)
    for way, sets in WAYS:
        way(service, "plain", sets)
    write_providers(service)
    write_names(service)
    remove_all(service)
    routes = {**ROUTES, **INSIGHT, **CLAIMS, **EXPLORER}
    for template, methods in routes.items():
        pattern = re.compile(re.sub(r"\{[^}]*\}", "[^?]+", template) + r"(\?.*)?")
        asked = {method for method, path in stage.asked if pattern.fullmatch(path)}
        assert methods.keys() <= asked, template


@pytest.mark.parametrize(
    ("how", "stage"),
    [(how, mode) for how, kinds in NO_NUMBERS.items() for mode in MODES if mode.split("-")[0] in kinds],
    indirect=["stage"],
)
def test_nothing_is_claimed_by_a_ratio_that_is_no_number(stage: Stage, how: str) -> None:
    """NaN is larger than all numbers for PostgreSQL, and a service that had read it answered only 500."""
    damage = Damage("inventories", "allocation_ratio", how)
    service, root = stage.struck(damage), STRUCK.uuid("root")

    for amount in (1, 1_000_000):
        body = STRUCK.entry({root: {STRUCK.custom: amount}}, None)
        assert service.send("PUT", f"/allocations/{STRUCK.uuid('new')}", body).status == 409
        query = f"resources={STRUCK.custom}:{amount}&in_tree={root}"
        candidates = service.send("GET", f"/allocation_candidates?{query}").json["allocation_requests"]
        assert root not in {uuid for each in candidates for uuid in each["allocations"]}


@pytest.mark.parametrize("stage", MODES, indirect=True)
def test_a_list_shows_the_parent_that_is_stored(stage: Stage) -> None:
    """Also where the stored root is not that of the parent; and a search of the tree is answered."""
    child, root = STRUCK.uuid("child"), STRUCK.uuid("root")
    for how in ("NULL", "nowhere"):
        service = stage.struck(Damage("resource_providers", "root_provider_id", how))
        # Read with the cloud, and then alone.
        for _ in range(2):
            listed = service.send("GET", "/resource_providers").json["resource_providers"]
            (shown,) = (each for each in listed if each["uuid"] == child)
            assert shown["parent_provider_uuid"] == root
            found = service.send("GET", f"/allocation_candidates?resources=VGPU:1&in_tree={child}")
            assert [[*each["allocations"]] for each in found.json["allocation_requests"]] == [
                [child]
            ]
            path = f"/resource_providers/{child}"
            body = {"name": f"{STRUCK.name}-child"}
            assert service.send("PUT", path, body).json["parent_provider_uuid"] == root


@pytest.mark.parametrize("stage", MODES, indirect=True)
def test_a_hold_without_a_consumer_keeps_nobody(stage: Stage) -> None:
    """As restores and TRUNCATE leave it: each request is answered that is the first to see it."""
    row = insert(claims_tables.consumer_holds).values(consumer_id=999, generation=1, expires_at=1)
    firsts = [("GET", path) for path in (*questions(STRUCK), *figures(STRUCK))]
    service = stage.struck(NO_DAMAGE)
    for method, path in (*firsts, ("POST", "/-/claims")):
        with unguarded(stage.db) as connection:
            connection.execute(row)
        body = {"claims": [STRUCK.claim("new")]} if method == "POST" else None
        service.send(method, path, body)
        # Whoever does not look for room leaves it.
        service.send("GET", "/allocation_candidates?resources=VCPU:1")
        assert 999 not in _ids(stage, claims_tables.consumer_holds.c.consumer_id, models.consumers.c.id)


NO_DAMAGE = Damage("scrub", "", "removed")
"""A row that comes again."""


@pytest.mark.parametrize("stage", MODES, indirect=True)
def test_a_ring_of_parents_keeps_nobody(stage: Stage) -> None:
    """A provider of it may be moved out of it."""
    root, child = STRUCK.uuid("root"), STRUCK.uuid("child")
    service = stage.struck(NO_DAMAGE)
    rows = models.resource_providers
    (child_id,) = provider_ids(stage.db, child)
    with unguarded(stage.db) as connection:
        ring = update(rows).where(rows.c.uuid == root).values(parent_provider_id=child_id)
        connection.execute(ring)
    ask_of_struck(service)
    for parent in (STRUCK.uuid("spare"), root, None):
        body = {"name": "STRUCK-ring", "parent_provider_uuid": parent}
        service.send("PUT", f"/resource_providers/{child}", body)


@pytest.mark.parametrize("stage", MODES, indirect=True)
def test_what_is_gone_is_told_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """Not by each search, and again only if something else is gone."""
    service = stage.struck(Damage("resource_classes", "", "removed"))
    (lost,) = _ids(stage, models.inventories.c.resource_class_id, models.resource_classes.c.id)
    for _ in range(2):
        # Read whole again: as after a change of many.
        service.send("GET", "/resource_providers")
        stage.db.write(lambda tx: writes.finish(tx, Change(is_unnamed=True)))
    logged = [record.getMessage() for record in caplog.records]
    told_so = [each for each in logged if "refer to deleted rows" in each]
    assert len(told_so) == 1
    assert f"resource_classes: [{lost}]" in told_so[0]


def _ids(stage: Stage, refers_to: Any, key: Any) -> set[int]:
    """Return the ids that a column has and its partner has not."""
    found, known = (
        set(stage.db.read(partial(Access.column, statement=select(column))))
        for column in (refers_to, key)
    )
    return found - known


@pytest.mark.parametrize("stage", MODES, indirect=True)
def test_the_audit_goes_on_after_one_that_it_cannot_remove(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are removed, and it says which one has stayed."""
    service = stage.struck(Damage("resource_providers", "", "removed", what="child"))
    file = stage.folder / "nobody"
    file.write_text("\n".join(SOUND.consumers[:-1]))
    remove = audit.allocation.remove

    def refuse_one(tx: Transaction, changes: Sequence[ConsumerChange]) -> None:
        if changes[0].uuid == STRUCK.uuid("plain"):
            raise audit.allocation.LedgerMoved
        remove(tx, changes)

    monkeypatch.setattr(audit.allocation, "remove", refuse_one)
    code = audit_of(service, file)

    assert code == audit.FOUND
    assert f"{STRUCK.uuid('plain')} stays as it is: " in capsys.readouterr().out
    left = [uuid for uuid in STRUCK.consumers if held(stage.db, uuid)]
    assert left == [STRUCK.uuid("plain")]
    monkeypatch.undo()
    assert audit_of(service, file) == audit.CLEAN
    assert not held(stage.db, STRUCK.uuid("plain"))


@pytest.mark.parametrize("stage", MODES, indirect=True)
def test_a_slot_of_the_log_that_was_moved_is_missed_and_put_back(stage: Stage) -> None:
    """There are as many as before, but a write that draws it would go unseen."""
    stage.saved.put_back()
    slots = models.provider_changes
    with unguarded(stage.db) as connection:
        moved = {"slot": change_rows.SLOTS + 13}
        connection.execute(update(slots).where(slots.c.slot == 7).values(moved))

    assert told(stage.db) == {invariants.SLOTS.name}
    invariants.repair(stage.db, invariants.SLOTS)

    assert told(stage.db) == set()
    shown = stage.db.read(partial(Access.column, statement=select(slots.c.slot)))
    assert sorted(shown) == [*range(change_rows.SLOTS)]
