"""This service and the OpenStack service on one database (specification 06 section 13.1)."""

import logging

import pytest
from oslo_upgradecheck import upgradecheck
from sqlalchemy import text

from placement.cmd import status
from placement.db import invariants
from placement.db.coexistence import checksums, state, takeover, watch
from placement.db.database import Database
from placement.db.engine import make_engine
from tests.support.both_services import (
    AGGREGATE,
    CONSUMER,
    HOST,
    NODE,
    OLD_CONSUMER,
    OTHER,
    Both,
)
from tests.support.databases import synced
from tests.support.old_service import new_uuid


def test_what_the_old_service_takes_is_not_granted_again(both: Both) -> None:
    assert both.found("resources=VCPU:4") == {HOST}
    both.old.claim(OLD_CONSUMER, {HOST: {"VCPU": 3}})
    assert both.found("resources=VCPU:2") == set()
    assert both.used() == 3
    assert both.claim(CONSUMER, 2) == 409
    assert both.claim(CONSUMER, 1) == 204
    assert both.used() == 4


def test_what_the_old_service_frees_is_free_at_once(both: Both) -> None:
    """DELETE of allocations moves no generation there."""
    assert both.claim(CONSUMER, 1) == 204
    both.old.claim(OLD_CONSUMER, {HOST: {"VCPU": 3}})
    assert both.found("resources=VCPU:1") == set()
    both.old.release(OLD_CONSUMER)
    assert both.found("resources=VCPU:3") == {HOST}
    assert both.used() == 1
    assert both.claim(new_uuid(), 3) == 204
    assert both.used() == 4


def test_a_consumer_of_the_old_service_is_moved_and_removed_by_ours(both: Both) -> None:
    both.add_other()
    both.old.claim(OLD_CONSUMER, {HOST: {"VCPU": 3}})
    assert both.claim(OLD_CONSUMER, 2, OTHER) == 204
    assert (both.used(HOST), both.used(OTHER)) == (0, 2)
    assert both.ours.request("DELETE", f"/allocations/{OLD_CONSUMER}").status_int == 204
    assert (both.used(HOST), both.used(OTHER)) == (0, 0)


def test_a_swap_of_the_old_service_is_seen_on_both_sides(both: Both) -> None:
    """The provider that the consumer leaves is not stepped there."""
    both.add_other()
    assert both.claim(CONSUMER, 3) == 204
    assert both.found("resources=VCPU:4") == {OTHER}
    both.old.claim(CONSUMER, {OTHER: {"VCPU": 3}}, "p", "u")
    assert both.found("resources=VCPU:4") == {HOST}
    assert (both.used(HOST), both.used(OTHER)) == (0, 3)


def test_usages_of_owners_are_those_of_the_ledger(both: Both) -> None:
    both.old.claim(OLD_CONSUMER, {HOST: {"VCPU": 3}}, project="p", user="u")
    assert both.claim(CONSUMER, 1) == 204
    usages = both.get("/usages?project_id=p")["usages"]
    assert usages == {
        "unknown": {"consumer_count": 1, "VCPU": 3},
        "INSTANCE": {"consumer_count": 1, "VCPU": 1},
    }
    assert both.get("/usages?project_id=p&user_id=u")["usages"] == usages
    both.old.claim(OLD_CONSUMER, {HOST: {"VCPU": 2}}, project="q", user="u")
    assert both.get("/usages?project_id=p")["usages"].keys() == {"INSTANCE"}
    assert both.get("/usages?project_id=q")["usages"]["unknown"]["VCPU"] == 2


def test_searches_see_every_kind_of_write(both: Both) -> None:
    """One write at a time, each between two searches of one process."""
    old = both.old
    old.create_provider(NODE, "node", HOST)
    old.set_inventory(NODE, {"PGPU": {"total": 1}})
    assert both.found("resources=VCPU:1,PGPU:1") == {HOST, NODE}
    old.set_traits(HOST, {"HW_CPU_X86_AVX2"})
    assert both.found("resources=VCPU:1&required=HW_CPU_X86_AVX2") == {HOST}
    old.set_traits(HOST, set())
    assert both.found("resources=VCPU:1&required=HW_CPU_X86_AVX2") == set()
    old.set_aggregates(HOST, {AGGREGATE}, steps=False)
    assert both.found(f"resources=VCPU:1&member_of={AGGREGATE}") == {HOST}
    old.set_aggregates(HOST, set(), steps=False)
    assert both.found(f"resources=VCPU:1&member_of={AGGREGATE}") == set()
    old.move_provider(NODE, None)
    assert both.found("resources=VCPU:1,PGPU:1") == set()
    old.move_provider(NODE, HOST)
    assert both.found("resources=VCPU:1,PGPU:1") == {HOST, NODE}
    old.set_inventory(HOST, {"VCPU": {"total": 9}})
    assert both.found("resources=VCPU:9") == {HOST}
    for name in ("one", "two"):
        old.rename_provider(HOST, name)
        shown = both.get("/resource_providers?resources=VCPU:1")["resource_providers"]
        assert [one["name"] for one in shown] == [name]
    old.delete_provider(NODE)
    assert both.found("resources=PGPU:1") == set()


def test_searches_see_what_leaves_every_sum_of_ids_as_it_was(both: Both) -> None:
    """Two aggregates for two others, two children that change places, a name of the same length."""
    old = both.old
    four = [f"33333333-3333-4333-8333-00000000001{number}" for number in range(4)]
    for each in four:
        old.set_aggregates(HOST, {each}, steps=False)
    old.set_aggregates(HOST, {four[0], four[3]}, steps=False)
    assert both.found(f"resources=VCPU:1&member_of={four[0]}") == {HOST}
    old.set_aggregates(HOST, {four[1], four[2]}, steps=False)
    assert both.found(f"resources=VCPU:1&member_of={four[0]}") == set()
    assert both.found(f"resources=VCPU:1&member_of={four[1]}") == {HOST}

    old.create_provider(OTHER, "other")
    below = {NODE: (HOST, OTHER), OLD_CONSUMER: (OTHER, HOST)}
    for child, (parent, _) in below.items():
        old.create_provider(child, child, parent)
        old.set_inventory(child, {"PGPU": {"total": 1}})
    for place in (0, 1, 0):
        for child, parents in below.items():
            old.move_provider(child, parents[place])
        inside = both.found(f"resources=PGPU:1&in_tree={HOST}")
        assert inside == {child for child, parents in below.items() if parents[place] == HOST}

    old.create_class("CUSTOM_A")
    old.set_one_inventory(HOST, "CUSTOM_A", {"total": 1})
    assert both.found("resources=CUSTOM_A:1") == {HOST}
    old.rename_class("CUSTOM_A", "CUSTOM_B")
    assert both.found("resources=CUSTOM_B:1") == {HOST}


def test_searches_see_a_removed_consumer_whose_id_another_has(both: Both) -> None:
    """SQLite gives it to the next one; a removal steps no generation of a provider."""
    old = both.old
    # Their hosts are in two blocks of ids.
    for _ in range(2**checksums.BLOCK_BITS):
        old.create_provider(new_uuid(), new_uuid())
    both.add_other()
    old.claim(OLD_CONSUMER, {HOST: {"VCPU": 4}})
    assert both.found("resources=VCPU:4") == {OTHER}

    old.release(OLD_CONSUMER)
    old.claim(CONSUMER, {OTHER: {"VCPU": 1}})

    assert both.found("resources=VCPU:4") == {HOST}
    assert both.found("resources=VCPU:1") == {HOST, OTHER}


def test_every_other_kind_of_write_counts(both: Both) -> None:
    """Swaps of two consumers, another project, a reshape, inventories one by one, names."""
    old = both.old
    both.add_other()
    old.claim(OLD_CONSUMER, {HOST: {"VCPU": 3}}, "p", "u", type="INSTANCE")
    assert both.found("resources=VCPU:2") == {OTHER}
    # As Nova does to move an instance: a migration takes over what it held.
    migration = new_uuid()
    old.claim_many({OLD_CONSUMER: {OTHER: {"VCPU": 3}}, migration: {HOST: {"VCPU": 3}}}, "p", "u")
    assert (both.used(HOST), both.used(OTHER)) == (3, 3)
    assert both.found("resources=VCPU:2") == set()
    assert both.claim(CONSUMER, 2, OTHER) == 409
    old.claim_many({migration: {}}, "p", "u")
    assert both.found("resources=VCPU:4") == {HOST}
    old.claim(OLD_CONSUMER, {OTHER: {"VCPU": 3}}, "q", "u", type="INSTANCE")
    assert both.get("/usages?project_id=p")["usages"] == {}
    assert both.get("/usages?project_id=q")["usages"]["INSTANCE"]["VCPU"] == 3

    old.create_provider(NODE, "node", OTHER)
    whole = {"VCPU": {"total": 4}}
    moved = {OLD_CONSUMER: {NODE: {"VCPU": 3}}}
    old.reshape({OTHER: {}, NODE: whole}, moved, {OLD_CONSUMER: ("q", "u", None)})
    assert both.used(NODE) == 3
    assert both.found("resources=VCPU:1") == {HOST, NODE}
    assert both.claim(CONSUMER, 2, NODE) == 409
    assert both.claim(CONSUMER, 1, NODE) == 204

    old.set_one_inventory(HOST, "VCPU", {"total": 9})
    assert both.found("resources=VCPU:9") == {HOST}
    old.set_inventory(HOST, {})
    assert both.found("resources=VCPU:1") == set()
    old.create_trait("CUSTOM_T")
    old.set_traits(NODE, {"CUSTOM_T"})
    assert both.found("resources=PGPU:1&required=CUSTOM_T") == set()
    old.set_traits(NODE, set())
    old.delete_trait("CUSTOM_T")
    gone = "/allocation_candidates?resources=VCPU:1&required=CUSTOM_T"
    assert both.ours.request("GET", gone, version="1.39").status_int == 400
    takeover.finish(both.db)
    assert invariants.violations(both.db) == []


def test_the_tag_of_a_tree_follows_every_write(both: Both) -> None:
    """A tag that stays would tell a client that nothing has changed."""
    old, tags = both.old, []

    def tag() -> str:
        path = f"/-/trees/{HOST}?allocations=true"
        headers = {"if_none_match": tags[-1]} if tags else {}
        answer = both.ours.request("GET", path, **headers)
        assert answer.status_int == 200
        return answer.headers["etag"]

    tags.append(tag())
    for write in (
        lambda: old.claim(OLD_CONSUMER, {HOST: {"VCPU": 3}}),
        lambda: old.release(OLD_CONSUMER),
        lambda: old.set_aggregates(HOST, {AGGREGATE}, steps=False),
        lambda: old.rename_provider(HOST, "renamed"),
    ):
        write()
        tags.append(tag())
    assert len(set(tags)) == len(tags)


def test_finish_counts_everything_and_believes_it(both: Both) -> None:
    both.old.claim(OLD_CONSUMER, {HOST: {"VCPU": 3}}, project="p", user="u")
    assert both.claim(CONSUMER, 1) == 204
    both.old.release(OLD_CONSUMER)
    both.old.claim(new_uuid(), {HOST: {"VCPU": 1}}, project="p", user="u")
    told: list[tuple[str, int, int]] = []

    takeover.finish(both.db, lambda *told_now: told.append(told_now))

    assert ("resource providers counted", 1, 1) in told
    # Of VCPU, and of consumers.
    assert ("usages of projects counted", 2, 2) in told
    assert not both.db.read(state.is_under_way)
    assert invariants.violations(both.db) == []
    assert both.used() == 2
    assert both.found("resources=VCPU:2") == {HOST}
    assert both.claim(new_uuid(), 3) == 409
    assert both.claim(new_uuid(), 2) == 204
    assert invariants.violations(both.db) == []


def test_after_the_finish_a_foreign_write_is_an_error_and_grants_nothing(
    both: Both, caplog: pytest.LogCaptureFixture
) -> None:
    takeover.finish(both.db)
    assert both.claim(CONSUMER, 1) == 204
    both.old.claim(OLD_CONSUMER, {HOST: {"VCPU": 3}})
    with caplog.at_level(logging.ERROR):
        assert both.claim(new_uuid(), 1) == 409
        assert both.claim(CONSUMER, 1) == 204
    assert f"Another service wrote resource provider {HOST}" in caplog.text
    assert both.used() == 4
    assert both.found("resources=VCPU:1") == set()


def test_what_nobody_claims_from_is_found_by_the_look_of_every_minute(
    both: Both, caplog: pytest.LogCaptureFixture
) -> None:
    takeover.finish(both.db)
    assert both.found("resources=VCPU:4") == {HOST}
    both.old.claim(OLD_CONSUMER, {HOST: {"VCPU": 3}})
    both.old.create_provider(OTHER, "other")
    with caplog.at_level(logging.ERROR):
        watch.report(both.db)
    assert "resource provider host although" in caplog.text
    assert "resource provider other although" in caplog.text
    assert both.used() == 3
    assert both.found("resources=VCPU:2") == set()
    assert watch.report(both.db).providers == 0


def test_a_log_line_says_how_many_foreign_writes_there_are(
    both: Both, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        watch.report(both.db)
    assert "Another service" not in caplog.text
    both.old.claim(OLD_CONSUMER, {HOST: {"VCPU": 3}})
    assert both.claim(CONSUMER, 1) == 204
    both.old.claim(OLD_CONSUMER, {HOST: {"VCPU": 2}})
    with caplog.at_level(logging.WARNING):
        found = watch.report(both.db)
    assert (found.writes, found.providers) == (2, 1)
    assert "2 writes to 1 resource providers" in caplog.text


def test_release_begins_anew(both: Both) -> None:
    takeover.finish(both.db)
    assert both.found("resources=VCPU:4") == {HOST}
    takeover.release(both.db)
    both.old.claim(OLD_CONSUMER, {HOST: {"VCPU": 3}})
    assert both.found("resources=VCPU:2") == set()
    both.old.release(OLD_CONSUMER)
    assert both.found("resources=VCPU:4") == {HOST}
    takeover.release(both.db)
    takeover.finish(both.db)
    takeover.finish(both.db)
    assert invariants.violations(both.db) == []


def test_a_process_that_lives_through_a_repair_keeps_no_old_picture(both: Both) -> None:
    """Repairs are made by another process; what they put right moves a revision, and is read again."""
    both.old.create_provider(NODE, "node", HOST)
    both.old.set_inventory(NODE, {"PGPU": {"total": 1}})
    takeover.finish(both.db)
    elsewhere = Database(make_engine(both.db.engine.url))

    def spoil(words: str) -> None:
        both.db.write(lambda tx: tx.connection.execute(text(f"{words}, revision = revision + 1")))

    # As a fault would leave it, and seen by the process: then the repair must be seen as well.
    both.db.write(lambda tx: tx.connection.execute(text("UPDATE inventories SET used = 4")))
    spoil("UPDATE resource_providers SET root_provider_id = id")
    assert both.found("resources=VCPU:1") == set()
    assert both.found("resources=MEMORY_MB:1,PGPU:1") == set()
    for found in invariants.check(elsewhere):
        if found.count:
            invariants.repair(elsewhere, found.invariant)
    elsewhere.dispose()
    assert both.found("resources=VCPU:4") == {HOST}
    assert both.found("resources=MEMORY_MB:1,PGPU:1") == {HOST, NODE}
    assert invariants.violations(both.db) == []


def test_a_process_that_lives_through_a_takeover_keeps_no_old_picture(both: Both) -> None:
    """Out and in again, with writes of the old service while this process looks away."""
    for used in (3, 0):
        takeover.finish(both.db)
        assert both.found("resources=VCPU:2") == ({HOST} if used else set())
        takeover.release(both.db)
        if used:
            both.old.claim(OLD_CONSUMER, {HOST: {"VCPU": used}})
        else:
            both.old.release(OLD_CONSUMER)
    takeover.finish(both.db)
    assert both.found("resources=VCPU:4") == {HOST}


def test_what_is_used_is_told_from_the_ledger_not_from_a_stale_counter(both: Both) -> None:
    """``db check`` while the counters are stale, and the upgrade check for what projects use."""
    both.old.claim(OLD_CONSUMER, {HOST: {"VCPU": 4}}, project="p")
    both.old.set_one_inventory(HOST, "VCPU", {"total": 3})
    over = next(
        f for f in invariants.check(both.db) if f.invariant.name == "used is within capacity"
    )
    assert over.count == 1
    assert "used 4" in over.examples[0]
    takeover.finish(both.db)
    both.db.write(lambda tx: tx.connection.execute(text("UPDATE owner_usages SET used = used + 1")))
    assert status.WRONG_COUNTERS.result(both.db).code == upgradecheck.Code.WARNING


def test_a_new_database_is_our_own(both: Both) -> None:
    with synced("sqlite") as fresh:
        assert not fresh.read(state.is_under_way)
    assert both.db.read(state.is_under_way)
