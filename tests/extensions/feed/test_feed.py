"""What has changed since a token: all of it is named, or the token is too old (07 section 10)."""

import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest
from sqlalchemy import delete, select, update

from placement.db import change_rows, cloud_rows, invariants, models, scrub
from placement.db.coexistence import takeover
from placement.db.database import Transaction
from placement.extensions.feed import lookout
from placement.extensions.feed.feed import Token, find_token
from placement.extensions.feed.lookout import Lookout
from placement.objects.scrubber import Scrubber
from tests.db.test_scrub import forget, go_round
from tests.extensions.trees.test_trees import CELL, HOST, OTHER, SERVER, VOLUME, claim, links, stock
from tests.extensions.trees.test_trees import place as place
from tests.support import bodies, clock, recorder
from tests.support.both_services import HOST as SHARED_HOST
from tests.support.both_services import Both
from tests.support.following import mirror_of, require_equal
from tests.support.following import update as follow
from tests.support.processes import ENDS_S
from tests.support.service import Service
from tests.support.world import World, new_uuid

CHILD = "1f000000-0000-4000-8000-000000000009"


def token(service: Service) -> str:
    answer = service.send("GET", "/-/changes")
    assert (answer.status, answer.json["trees"]) == (200, [])
    return str(answer.json["next"])


def since(service: Service, given: str, **more: object) -> Any:
    words = "".join(f"&{name}={value}" for name, value in more.items())
    return service.send("GET", f"/-/changes?since={given}{words}")


def named(service: Service, given: str) -> dict[str, tuple[str, bool]]:
    """Return the trees that have changed, with how, and whether they are gone."""
    answer = since(service, given)
    assert answer.status == 200, answer
    return {each["root"]: (each["changed"], each["gone"]) for each in answer.json["trees"]}


def put_below(service: Service, key: str, name: str, parent: str | None) -> None:
    body = {"name": name, "parent_provider_uuid": parent}
    World(service).call("PUT", f"/resource_providers/{key}", body)


def reshape(service: Service) -> None:
    world = World(service)
    listed = {
        CELL: bodies.stock(world.generation(CELL), {}),
        HOST: bodies.stock(world.generation(HOST), {"VCPU": 8}),
    }
    body = {"inventories": listed, "allocations": {SERVER: bodies.entry({HOST: {"VCPU": 2}}, 1)}}
    world.call("POST", "/reshaper", body)


def claim_in_group(service: Service) -> None:
    body = {
        "strategy": "any",
        "claims": [
            {
                "consumer_uuid": VOLUME,
                "consumer_generation": None,
                "consumer_type": "INSTANCE",
                "query": f"resources=VCPU:1&in_tree={HOST}",
                "project_id": "p",
                "user_id": "u",
                "groups": ["web"],
            }
        ],
        "groups": {"web": {"rule": "apart"}},
        "hold_s": 600,
    }
    World(service).call("POST", "/-/claims", body)


USAGE = {HOST: ("usage", False)}
STOCK = {HOST: ("stock", False)}
BOTH_TREES = {HOST: ("stock", False), OTHER: ("stock", False)}
CHANGES: dict[str, tuple[Callable[[Service], object], dict[str, tuple[str, bool]]]] = {
    "claim": (lambda s: claim(s, VOLUME, generation=None), USAGE),
    "another amount": (lambda s: claim(s, SERVER, amount=3), USAGE),
    "another project": (lambda s: claim(s, SERVER, project_id="p2"), USAGE),
    "release": (lambda s: World(s).release(SERVER), USAGE),
    "claim with group and hold": (claim_in_group, USAGE),
    "claim of two trees": (
        lambda s: World(s).claim({CELL: {"VCPU": 1}, OTHER: {"VCPU": 1}}, VOLUME),
        {HOST: ("usage", False), OTHER: ("usage", False)},
    ),
    "reshape": (reshape, STOCK),
    "inventory": (lambda s: stock(s, CELL, total=9), STOCK),
    "traits": (lambda s: links(s, "traits", ["HW_CPU_X86_VMX"]), STOCK),
    "aggregates": (lambda s: links(s, "aggregates", [new_uuid()]), STOCK),
    "name": (
        lambda s: World(s).call("PUT", f"/resource_providers/{CELL}", {"name": "renamed"}),
        STOCK,
    ),
    "new tree": (
        lambda s: World(s).provider("new", key=CHILD),
        {CHILD: ("stock", False)},
    ),
    "new child": (lambda s: World(s).provider("child", CELL, key=CHILD), STOCK),
    "child becomes a tree": (
        lambda s: put_below(s, CELL, "cell", None),
        {HOST: ("stock", False), CELL: ("stock", False)},
    ),
    "child moves to another tree": (lambda s: put_below(s, CELL, "cell", OTHER), BOTH_TREES),
    "tree moves below another": (
        lambda s: put_below(s, OTHER, "o", HOST),
        {HOST: ("stock", False), OTHER: ("stock", True)},
    ),
}


SERVER_S = f"uuid = '{SERVER}'"
OTHER_S = f"(SELECT {{}} FROM (SELECT * FROM consumers) AS c WHERE uuid = '{CHILD}')"
OWNERS_BY_HAND = {
    each: f"UPDATE consumers SET {each} = {OTHER_S.format(each)} WHERE {SERVER_S}"
    for each in ("project_id", "user_id", "consumer_type_id")
}
BY_HAND = OWNERS_BY_HAND | {
    "generation": f"UPDATE consumers SET generation = generation + 7 WHERE {SERVER_S}",
    "name of a project": "UPDATE projects SET external_id = 'renamed' WHERE external_id = 'other'",
    "name of a user": "UPDATE users SET external_id = 'renamed' WHERE external_id = 'other'",
    "name of a type": "UPDATE consumer_types SET name = 'RENAMED' WHERE name = 'OTHER'",
    "name of a group": "UPDATE consumer_groups SET name = 'renamed'",
    "end of a hold": "UPDATE consumer_holds SET expires_at = expires_at + 1000",
}


def scrub_by_workers(service: Service) -> None:
    service.db.write(forget)
    go_round(service.db, Scrubber(service.db, 0.5))


def scrub_by_command(service: Service) -> None:
    scrub.scrub_all(service.db)
    scrub.show_all_again(service.db)


@pytest.mark.parametrize(
    ("change", "mend"),
    [
        *((change, scrub_by_workers) for change in OWNERS_BY_HAND),
        *((change, scrub_by_command) for change in BY_HAND),
    ],
)
def test_owners_that_were_changed_by_hand_are_told(
    place: Service, change: str, mend: Callable[[Service], object]
) -> None:
    """To those who follow, and to those who have a tag, once the scrub was there."""
    claim_in_group(place)
    owner = {"project_id": "other", "user_id": "other", "consumer_type": "OTHER"}
    World(place).claim({CELL: {"VCPU": 1}}, CHILD, **owner)
    mend(place)
    mirror = mirror_of(place)
    mirror.update(0)
    tree = f"/-/trees/{HOST}?allocations=true"
    page = "/-/trees?allocations=true"
    tags = {path: place.request("GET", path).headers["etag"] for path in (tree, page)}

    with place.db.engine.connect() as connection:
        assert connection.exec_driver_sql(BY_HAND[change]).rowcount
    mend(place)

    for path, tag in tags.items():
        assert place.request("GET", path, if_none_match=tag).status_int == 200
    follow(mirror)
    require_equal(mirror, place)


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_names_its_trees_and_no_other(place: Service, change: str) -> None:
    """A mirror that reads these alone is what a whole read is."""
    write, trees = CHANGES[change]
    mirror, before = mirror_of(place), token(place)
    mirror.update(0)

    write(place)

    assert named(place, before) == trees
    assert follow(mirror) == (trees.keys(), False, True)
    require_equal(mirror, place)
    assert follow(mirror) == (set(), False, True)


def test_what_is_deleted_is_named_though_no_row_knows_it(place: Service) -> None:
    """A tree is gone; a child is missing in the tree that had it."""
    World(place).provider("child", HOST, key=CHILD)
    World(place).call("DELETE", f"/resource_providers/{OTHER}/inventories")
    before = token(place)
    World(place).call("DELETE", f"/resource_providers/{CHILD}")
    assert named(place, before) == STOCK
    World(place).call("DELETE", f"/resource_providers/{OTHER}")
    assert named(place, before) == {HOST: ("stock", False), OTHER: ("stock", True)}
    World(place).provider("o", key=OTHER)
    assert named(place, before) == BOTH_TREES


def test_a_tree_that_came_and_went_is_named_as_gone(place: Service) -> None:
    """And one that was moved, and deleted where it had gone, in both trees."""
    before = token(place)
    World(place).provider("new", key=CHILD)
    put_below(place, CHILD, "new", OTHER)
    World(place).call("DELETE", f"/resource_providers/{CHILD}")
    assert named(place, before) == {OTHER: ("stock", False), CHILD: ("stock", True)}


def test_holds_that_are_over_are_a_change(place: Service) -> None:
    """Nobody else need search for that."""
    claim_in_group(place)
    before = token(place)
    clock.let_holds_end(place.db)
    assert named(place, before) == USAGE
    assert VOLUME not in str(World(place).get(f"/-/trees/{HOST}?allocations=true"))


def test_nothing_has_changed_costs_one_statement(place: Service) -> None:
    """And a change that the log names costs as many in any cloud."""
    before = token(place)
    with recorder.recorded(place.db) as sent:
        assert since(place, before).json == {"next": before, "trees": [], "complete": True}
    assert len(sent) == 1
    claim(place, SERVER)
    with recorder.recorded(place.db) as sent:
        assert named(place, before) == USAGE
    assert len([each for each in sent if each.startswith("SELECT")]) <= 4


def test_an_answer_that_is_cut_goes_on_at_its_next(place: Service) -> None:
    """No tree is lost between two answers, and no answer has more than asked for."""
    world, before = World(place), token(place)
    made = {world.provider() for _ in range(230)}
    seen: set[str] = set()
    for _ in range(3):
        answer = since(place, before, limit=100).json
        assert len(answer["trees"]) <= 100
        seen |= {each["root"] for each in answer["trees"]}
        before = answer["next"]
    assert seen == made
    assert answer["complete"]
    assert named(place, before) == {}


# -- what is lost is 410 -------------------------------------------------------------------------


def fill_log(service: Service) -> None:
    """Write so often that each slot is cut."""
    text = "1:1;" * (change_rows.LENGTH // 4)
    service.db.write(
        lambda tx: tx.connection.execute(
            update(models.provider_changes).values(
                mark=models.provider_changes.c.mark + len(text) // 4, recent=text
            )
        )
    )


def write_too_many(service: Service) -> None:
    """More providers than all slots have room for."""
    service.db.write(lambda tx: change_rows.note(tx, range(10**6, 10**6 + 2_000)))


def lose_slot(service: Service) -> None:
    rows = models.provider_changes
    service.db.write(lambda tx: tx.connection.execute(delete(rows).where(rows.c.slot == 7)))


def repair_counters(service: Service) -> None:
    rows = models.inventories
    service.db.write(lambda tx: tx.connection.execute(update(rows).values(used=rows.c.used + 1)))
    assert invariants.repair(service.db, invariants.COUNTERS) == 2


def rename_class(service: Service) -> None:
    world = World(service)
    world.call("PUT", "/resource_classes/CUSTOM_A")
    world.set_inventory(CELL, {"CUSTOM_A": 8, "VCPU": 8})
    world.call("PUT", "/resource_classes/CUSTOM_A", {"name": "CUSTOM_B"}, version="1.6")


def scrub_what_was_changed_by_hand(service: Service) -> None:
    rows = models.inventories
    service.db.write(lambda tx: tx.change_unshown(update(rows).values(total=9, updated_at=None)))
    assert scrub.scrub_all(service.db)[0] == {"contents": 2}


def scrub_what_an_older_release_has_written(service: Service) -> None:
    """It moves the revision, and keeps no checksum."""
    rows, providers = models.inventories, models.resource_providers
    moved = update(providers).values(revision=providers.c.revision + 1, updated_at=None)
    service.db.write(lambda tx: tx.change_unshown(update(rows).values(total=9, updated_at=None)))
    service.db.write(lambda tx: tx.change_unshown(moved))
    assert scrub.scrub_all(service.db) == ({}, [])


LOSSES = {
    each.__name__: each
    for each in (
        fill_log,
        write_too_many,
        lose_slot,
        repair_counters,
        rename_class,
        scrub_what_was_changed_by_hand,
        scrub_what_an_older_release_has_written,
    )
}


@pytest.mark.parametrize("loss", LOSSES)
def test_what_the_log_does_not_name_makes_tokens_too_old(place: Service, loss: str) -> None:
    """The mirror reads everything, and goes on."""
    mirror, before = mirror_of(place), token(place)
    mirror.update(0)

    LOSSES[loss](place)

    answer = since(place, before)
    assert (answer.status, answer.json["errors"][0]["reason"]) == (410, "token_too_old")
    assert mirror.update(0).whole
    require_equal(mirror, place)
    for broken in invariants.violations(place.db):
        assert invariants.repair(place.db, broken.invariant)
    follow(mirror)
    claim(place, SERVER)
    assert follow(mirror) == ({HOST}, False, True)
    require_equal(mirror, place)


MANY = (15, 16, 30, 31, 100, 890, 1_800)
"""Providers of one transaction, with ids of seven digits: a slot has room for 30, half of one for 14."""


@pytest.mark.parametrize("number", MANY)
@pytest.mark.parametrize("left", ["", HOST])
@pytest.mark.parametrize("seed", [0, 40, 63])
def test_a_large_write_is_named_whole(place: Service, number: int, left: str, seed: int) -> None:
    """By entries of several slots, of which each keeps what was written before."""
    ids = set(range(10**6, 10**6 + number))

    def read_log(tx: Any) -> change_rows.Log:
        log, _ = cloud_rows.log(tx)
        assert log is not None
        return log

    def write(tx: Transaction) -> None:
        tx.slot_seed = seed
        change_rows.note(tx, [1])
        change_rows.note(tx, ids, stock_only=not left, left=left)

    earlier = place.db.read(read_log)
    place.db.write(lambda tx: [write_small(tx, slot) for slot in range(change_rows.SLOTS)])
    before = place.db.read(read_log)
    place.db.write(write)
    changed = place.db.read(read_log).changed_since(before)

    # Each entry names the tree too, so that not all have room.
    if number > 1_500 and left:
        assert changed is None
        return
    assert changed is not None
    assert changed.whole | set(changed.stock) == {1, *ids}
    if number <= 900:
        assert place.db.read(read_log).changed_since(earlier), "what was written before is still named"


@pytest.mark.parametrize("number", [15, 35, 60, 200, 500, 890])
def test_of_two_large_writes_the_first_is_still_named(place: Service, number: int) -> None:
    """Also where both take the same slots, with ids of seven digits."""
    before = token(place)
    for first in (10**6, 2 * 10**6):
        place.db.write(lambda tx, first=first: write_ids(tx, range(first, first + number)))

    log = place.db.read(lambda reader: cloud_rows.log(reader)[0])
    marks = dict(enumerate(Token.parse(before).marks))
    named = {id_ for slot in marks for entry in log.entries_since(slot, marks[slot]) for id_ in entry.ids}
    assert len(named) == 2 * number
    assert since(place, before).status == 200


def write_ids(tx: Transaction, ids: range) -> None:
    tx.slot_seed = 0
    change_rows.note(tx, ids)


@pytest.mark.parametrize("number", [50, 200, 500])
def test_who_asks_after_each_large_write_is_always_told(place: Service, number: int) -> None:
    """One reshape of all hosts after another; a gang on all of them, and its end."""
    world = World(place)
    hosts = [world.host(PGPU=1) for _ in range(number)]
    known = token(place)

    def ask() -> set[str]:
        nonlocal known
        answer = since(place, known)
        assert answer.status == 200, answer
        known = answer.json["next"]
        return {each["root"] for each in answer.json["trees"]}

    ask()
    for turn in range(8):
        # All are written alike.
        generation = world.generation(hosts[0])
        listed = {host: bodies.stock(generation, {"PGPU": turn + 2}) for host in hosts}
        world.call("POST", "/reshaper", {"inventories": listed, "allocations": {}})
        assert ask() == set(hosts)
    gang = {new_uuid(): bodies.entry({host: {"PGPU": 1}}, None) for host in hosts}
    gone = {uuid: bodies.entry({}, 1) for uuid in gang}
    for body in (gang, gone) * 4:
        world.call("POST", "/allocations", body)
        assert ask() == set(hosts)


def write_small(tx: Transaction, slot: int) -> None:
    tx.slot_seed = slot
    change_rows.note(tx, [2])


def test_a_large_claim_is_told_and_no_mirror_reads_everything(place: Service) -> None:
    """A gang of 60 on 60 hosts."""
    world = World(place)
    hosts = [world.host(PGPU=1) for _ in range(60)]
    mirror, before = mirror_of(place), token(place)
    mirror.update(0)

    asked = [one_of_gang() for _ in hosts]
    assert place.send("POST", "/-/claims", {"claims": asked}).status == 200

    assert named(place, before) == dict.fromkeys(hosts, ("usage", False))
    assert follow(mirror) == (set(hosts), False, True)
    require_equal(mirror, place)


def one_of_gang() -> dict[str, Any]:
    return {
        "consumer_uuid": new_uuid(),
        "consumer_generation": None,
        "project_id": "p",
        "user_id": "u",
        "consumer_type": "INSTANCE",
        "query": "resources=PGPU:1",
    }


def test_a_backup_that_was_restored_makes_tokens_too_old(place: Service) -> None:
    """Also once it was written again, so that a slot has come by the same mark."""
    rows = models.provider_changes

    def backup(tx: Transaction) -> list[Any]:
        return list(tx.rows(select(rows.c.slot, rows.c.mark, rows.c.recent)))

    def restore(tx: Transaction) -> None:
        for slot, mark, recent in saved:
            tx.connection.execute(
                update(rows).where(rows.c.slot == slot).values(mark=mark, recent=recent)
            )

    def write(tx: Transaction) -> None:
        tx.slot_seed = 3
        change_rows.note(tx, [written])

    saved = place.db.write(backup)
    # The same step each time: what a restored database draws once in 30,000 times.
    with mock.patch.object(change_rows.secrets, "randbelow", return_value=5):
        written = 1
        place.db.write(write)
        before = token(place)
        place.db.write(restore)
        assert since(place, before).status == 410
        written = 2
        place.db.write(write)
        assert since(place, before).status == 410


def test_a_token_is_of_one_database(place: Service) -> None:
    """One of the same length is 410, another text 400."""
    other = urlsafe_b64decode(token(place) + "==")[::-1]
    strange = urlsafe_b64encode(other).decode().rstrip("=")
    assert since(place, strange).status == 410
    for text in ("", "x", "é", strange[1:], "A" * 5000):
        assert since(place, text).status == 400, text


def test_a_write_that_commits_late_is_not_passed_over(place: Service) -> None:
    """Its slot was taken before the token was given; another slot has moved on."""
    holds, go = threading.Event(), threading.Event()
    ids = {
        row[1]: row[0]
        for row in place.db.read(
            lambda tx: tx.rows(
                select(models.resource_providers.c.id, models.resource_providers.c.uuid)
            )
        )
    }
    if place.db.dialect == "sqlite":
        pytest.skip("one transaction at a time writes there")

    def early(tx: Transaction) -> None:
        tx.slot_seed = 1
        change_rows.note(tx, [ids[OTHER]])
        tx.value(select(models.traits.c.id).limit(1))
        holds.set()
        assert go.wait(ENDS_S)

    def late(tx: Transaction) -> None:
        tx.slot_seed = 2
        change_rows.note(tx, [ids[CELL]])

    before = token(place)
    with ThreadPoolExecutor(1) as writers:
        done = writers.submit(place.db.write, early)
        assert holds.wait(ENDS_S)
        place.db.write(late)
        answer = since(place, before).json
        assert [each["root"] for each in answer["trees"]] == [HOST]
        go.set()
        done.result(ENDS_S)
    assert named(place, answer["next"]) == {OTHER: ("stock", False)}


# -- the shared mode -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mysql"])
def test_the_other_service_makes_tokens_too_old(kind: str) -> None:
    """It writes no log: whatever it changes is 410, and nothing is nothing. The end is a change too."""
    both = Both(kind)
    mirror = mirror_of(both.ours)
    mirror.update(0)
    assert follow(mirror) == (set(), False, True)
    child = new_uuid()
    for write in (
        lambda: both.old.claim(SERVER, {SHARED_HOST: {"VCPU": 1}}),
        lambda: both.old.release(SERVER),
        lambda: both.old.rename_provider(SHARED_HOST, "renamed"),
        lambda: both.old.create_provider(child, "child", SHARED_HOST),
        lambda: both.claim(VOLUME, 1),
    ):
        write()
        assert follow(mirror).whole
        require_equal(mirror, both.ours)
        assert follow(mirror) == (set(), False, True)
    takeover.finish(both.db)
    assert follow(mirror).whole
    require_equal(mirror, both.ours)
    both.claim(VOLUME, 2)
    assert follow(mirror) == ({SHARED_HOST}, False, True)
    require_equal(mirror, both.ours)


# -- waiting -------------------------------------------------------------------------------------


def never() -> bool:
    return False


def test_who_waits_is_told_at_once(place: Service) -> None:
    """All who wait share the looks; another's write ends it, and no connection is kept meanwhile."""
    ways = Lookout(place.db, 3)
    known = find_token(place.db)
    looks = mock.Mock(side_effect=lookout.find_token)
    with mock.patch.object(lookout, "find_token", looks), ThreadPoolExecutor(3) as waiting:
        began_s = time.monotonic()
        ends = [waiting.submit(ways.wait, known, ENDS_S, never) for _ in range(3)]
        while looks.call_count < 3:
            assert not any(end.done() for end in ends)
            time.sleep(0.01)
        claim(place, SERVER)
        assert all(end.result(ENDS_S) for end in ends)
        took_s = time.monotonic() - began_s
    assert looks.call_count <= took_s / lookout.LOOK_EVERY_S + 2
    assert place.db.engine.pool.checkedout() == 0
    assert find_token(place.db) != known


def test_no_more_wait_than_may(place: Service) -> None:
    """The others are answered at once; whoever has hung up makes room."""
    ways, known, gone = Lookout(place.db, 1), find_token(place.db), threading.Event()
    with ThreadPoolExecutor(1) as waiting:
        first = waiting.submit(ways.wait, known, ENDS_S, gone.is_set)
        while ways.wait(known, 0, never):
            assert not first.done()
        gone.set()
        assert first.result(ENDS_S)
    assert ways.wait(known, 0, never)
    assert not Lookout(place.db, 0).wait(known, ENDS_S, never)


def test_a_look_that_fails_is_one_request_s_error(place: Service) -> None:
    """The others look themselves."""
    ways, known = Lookout(place.db, 1), find_token(place.db)
    with (
        mock.patch.object(lookout, "find_token", side_effect=ZeroDivisionError),
        pytest.raises(ZeroDivisionError),
    ):
        ways.wait(known, ENDS_S, never)
    claim(place, SERVER)
    assert ways.wait(known, ENDS_S, never)


def test_a_process_of_one_thread_does_not_wait(place: Service) -> None:
    """It would serve nobody meanwhile."""
    before = token(place)
    with mock.patch.object(Lookout, "wait", side_effect=AssertionError):
        alone = {"wsgi.multithread": False}
        path = f"/-/changes?since={before}&wait_s=60"
        assert place.request("GET", path, environ=alone).json["trees"] == []


def test_the_service_waits_as_long_as_asked(place: Service) -> None:
    """Over the whole pipeline: nothing for a second, then a change."""
    before = token(place)
    threaded = {"wsgi.multithread": True}

    def ask(seconds: int) -> Any:
        path = f"/-/changes?since={before}&wait_s={seconds}"
        return place.request("GET", path, environ=threaded).json

    began_s = time.monotonic()
    assert ask(1)["trees"] == []
    assert time.monotonic() - began_s >= 1
    with ThreadPoolExecutor(1) as waiting:
        answer = waiting.submit(ask, 60)
        while not answer.running():
            time.sleep(0.01)
        claim(place, SERVER)
        assert [each["root"] for each in answer.result(ENDS_S)["trees"]] == [HOST]


def keep_slots(tx: Transaction, number: int) -> None:
    """Leave the log so many rows, as SQL by hand may; no write takes a row beyond the last slot."""
    tx.change(delete(models.provider_changes).where(models.provider_changes.c.slot >= number))
    rows = [{"slot": slot, "mark": 1, "recent": ""} for slot in range(change_rows.SLOTS, number)]
    tx.insert(models.provider_changes, rows)


DAMAGED_TOKENS = {
    "a stray character": lambda given: f"{given[:9]}!{given[9:]}",
    "a stray quote at the end": lambda given: given + "'",
    "one character more": lambda given: given + "A",
    "one character less": lambda given: given[:-1],
    "its half": lambda given: given[: len(given) // 2],
    "its first four": lambda given: given[:4],
    "another alphabet": lambda given: "+" + given[1:],
    "padding": lambda given: given + "==",
    "a letter that is none": lambda given: given[:-1] + "%C3%A4",
    "a line's end": lambda given: given + "%0A",
    "a space": lambda given: "+" + given,
}


@pytest.mark.parametrize("damage", DAMAGED_TOKENS)
def test_a_damaged_token_is_400(place: Service, damage: str) -> None:
    """It is not a token that is too old: who reads all again with it would not find out."""
    for whole in (token(place), "A" * 22):
        answer = since(place, DAMAGED_TOKENS[damage](whole).replace("+", "%2B"))
        assert (answer.status, answer.json["errors"][0]["field"]) == (400, "since")


@pytest.mark.parametrize("number", [0, 1, 63, 64, 65])
def test_the_log_may_have_any_number_of_rows(place: Service, number: int) -> None:
    """Where it is not whole, no token is known; the scrub makes it whole."""
    known = token(place)
    place.db.write(lambda tx: keep_slots(tx, number))
    try:
        fresh = token(place)
        for given in (known, fresh):
            for wait_s in (0, 1):
                path = f"/-/changes?since={given}&wait_s={wait_s}"
                answer = place.request("GET", path, environ={"wsgi.multithread": True})
                assert answer.status_int == (200 if number == change_rows.SLOTS else 410)
        assert place.send("GET", "/allocation_candidates?resources=VCPU:1").status == 200
        scrub.scrub_all(place.db)
        assert since(place, token(place)).status == 200
    finally:
        place.db.write(change_rows.restore)


@pytest.mark.parametrize(
    "query", ["wait_s=61", "wait_s=-1", "limit=99", "limit=10001", "limit=0", "x=1"]
)
def test_what_cannot_be_is_400(place: Service, query: str) -> None:
    """With what is wrong."""
    answer = place.send("GET", f"/-/changes?{query}")
    assert answer.status == 400
    assert query.partition("=")[0] in answer.detail
