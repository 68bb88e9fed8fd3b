"""Claims decided here, with the OpenStack service on the same database (specification 09 section 6)."""

from typing import Any

from sqlalchemy import text

from tests.extensions.claims.test_claims import claim
from tests.support.both_services import CONSUMER, HOST, OTHER, Both
from tests.support.client import Answer
from tests.support.clock import let_holds_end
from tests.support.old_service import new_uuid


def place(both: Both, query: str, *consumers: str, **more: Any) -> Answer:
    """Let ours choose for consumers of the group "web"."""
    claims = [claim(consumer_uuid=each, query=query, groups=["web"]) for each in consumers]
    groups = {"web": {"rule": "apart"}}
    return both.ours.send("POST", "/-/claims", {"claims": claims, "groups": groups, **more})


def test_what_the_old_service_takes_is_not_granted_again(both: Both) -> None:
    """A gang fits where the other service has left room, and no further."""
    both.add_other()
    both.old.claim(new_uuid(), {HOST: {"VCPU": 3}})
    assert place(both, "resources=VCPU:2", CONSUMER, new_uuid()).status == 409
    assert place(both, "resources=VCPU:1", CONSUMER, new_uuid()).status == 200
    assert (both.used(HOST), both.used(OTHER)) == (4, 1)


def test_what_the_old_service_changes_is_seen(both: Both) -> None:
    """A trait is taken away between two claims."""
    both.old.set_traits(HOST, {"HW_CPU_X86_AVX2"})
    query = "resources=VCPU:1&required=HW_CPU_X86_AVX2"
    assert place(both, query, CONSUMER).status == 200
    both.old.set_traits(HOST, set())
    refused = place(both, query, new_uuid())
    assert (refused.status, refused.json["errors"][0]["exact"]) == (409, True)


def test_a_write_of_the_old_service_takes_a_hold_over(both: Both) -> None:
    """It steps the generation, and knows no holds: what it wrote stays."""
    assert place(both, "resources=VCPU:1", CONSUMER, hold_s=900).status == 200
    both.old.claim(CONSUMER, {HOST: {"VCPU": 2}}, "p", "u")
    assert both.get("/-/holds")["holds"] == []
    let_holds_end(both.db)

    both.found("resources=VCPU:1")

    count = text("SELECT count(*) FROM consumer_holds")
    assert both.db.read(lambda reader: reader.value(count)) == 0
    assert both.used() == 2


def test_a_hold_ends_beside_the_old_service(both: Both) -> None:
    """What is over is free, and a consumer that the other service has released leaves no row behind."""
    released = new_uuid()
    both.add_other()
    assert place(both, "resources=VCPU:4", CONSUMER, released, hold_s=900).status == 200
    both.old.release(released)
    assert [each["consumer_uuid"] for each in both.get("/-/holds")["holds"]] == [CONSUMER]
    let_holds_end(both.db)
    assert both.found("resources=VCPU:4") == {HOST, OTHER}
    assert both.get("/-/holds")["holds"] == []
    assert both.ours.send("GET", "/-/groups/web").status == 404


def test_a_member_that_the_old_service_moves_is_where_it_is(both: Both) -> None:
    """The rule is not kept then, and the group takes nobody."""
    both.add_other()
    assert place(both, "resources=VCPU:1", CONSUMER, new_uuid()).status == 200
    (elsewhere,) = {HOST, OTHER} - set(both.get(f"/allocations/{CONSUMER}")["allocations"])
    both.old.claim(CONSUMER, {elsewhere: {"VCPU": 1}}, "p", "u")
    assert both.get("/-/groups/web")["kept"] is False
    assert place(both, "resources=VCPU:1", new_uuid()).status == 409
