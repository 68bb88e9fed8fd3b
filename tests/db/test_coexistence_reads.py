"""What a search reads during a coexistence: what has changed, and not the cloud (06 section 13.1)."""

from collections.abc import Callable

import pytest

from placement import telemetry
from placement.db import models
from placement.db.coexistence import checksums
from placement.objects.narrow_looks import look_for
from placement.objects.picture import Picture
from placement.search.request import CandidateRequest, Group
from tests.support.both_services import (
    AGGREGATE,
    CONSUMER,
    HOST,
    NODE,
    OLD_CONSUMER,
    OTHER,
    Both,
)
from tests.support.looks import read_cloud
from tests.support.old_service import new_uuid
from tests.support.recorder import recorded

BLOCK = 2**checksums.BLOCK_BITS
OTHERS = 5 * BLOCK


@pytest.fixture
def picture(both: Both) -> Picture:
    """A picture of a cloud of several blocks, as it is before the writes."""
    uuids = [new_uuid() for _ in range(OTHERS)]
    rows = [{"uuid": uuid, "name": uuid, "generation": 0} for uuid in uuids]
    both.db.write(lambda tx: tx.connection.execute(models.resource_providers.insert(), rows))
    both.old.create_trait("CUSTOM_T")
    made = Picture(both.db)
    read_cloud(made, len)
    return made


def refresh(
    picture: Picture, question: CandidateRequest | None = None
) -> tuple[str, float, float]:
    """Return what a read of the picture has found: kind, providers read, providers there are.

    :param question: what the read is for; the whole cloud.
    """
    trace = telemetry.begin()
    try:
        if question is None:
            read_cloud(picture, len)
        else:
            with look_for(picture, question):
                pass
    finally:
        telemetry.end()
    ((kind, times),) = trace.counts_by_label(telemetry.PICTURE_REFRESHES).items()
    assert times == 1
    read = trace.counts_by_label(telemetry.PICTURE_PROVIDERS_READ).get("", 0)
    return kind, read, trace.levels[telemetry.PICTURE_PROVIDERS]


def test_after_a_change_the_cloud_is_not_read_again(both: Both, picture: Picture) -> None:
    """Of either service: one block of providers is, in four statements that name them."""
    old, there = both.old, OTHERS + 1
    writes: list[Callable[[], object]] = [
        lambda: old.claim(OLD_CONSUMER, {HOST: {"VCPU": 1}}),
        lambda: both.claim(CONSUMER, 1),
        lambda: old.release(OLD_CONSUMER),
        lambda: both.ours.request("DELETE", f"/allocations/{CONSUMER}"),
        lambda: old.set_inventory(HOST, {"VCPU": {"total": 9}}),
        lambda: old.set_traits(HOST, {"CUSTOM_T"}),
        lambda: old.set_aggregates(HOST, {AGGREGATE}, steps=False),
        lambda: old.set_aggregates(HOST, set(), steps=True),
        lambda: old.rename_provider(HOST, "renamed"),
    ]
    for number, write in enumerate(writes):
        write()
        with recorded(both.db) as statements:
            kind, read, providers = refresh(picture)
        assert (number, kind, providers) == (number, "part", there)
        assert read <= BLOCK
        # The log, the checksums (those of allocations only if a consumer has changed), and the block.
        asked = [text for text in statements if "SELECT" in text.upper() and "FROM" in text.upper()]
        assert len(asked) - 1 - 4 in (4, 5), statements
        assert refresh(picture) == ("nothing", 0, there)
    assert read_cloud(picture, lambda cloud: cloud.names[cloud.index_of_uuid[HOST]]) == "renamed"


def test_another_shape_is_read_whole(both: Both, picture: Picture) -> None:
    """What is below what is seen on all of a tree, wherever its rows are."""
    for write in (
        lambda: both.old.create_provider(NODE, "node", HOST),
        lambda: both.old.move_provider(NODE, None),
        lambda: both.old.delete_provider(NODE),
    ):
        write()
        kind, read, providers = refresh(picture)
        assert kind == "whole"
        assert read == providers


def asked_of(both: Both, query: str) -> tuple[set[str], list[str]]:
    """Return what a search finds, and the statements that it sent."""
    with recorded(both.db) as statements:
        found = both.found(query)
    return found, [
        text for text in statements if "SELECT" in text.upper() and "FROM" in text.upper()
    ]


def test_a_search_of_one_tree_reads_that_tree(both: Both) -> None:
    """It sees every write of either at once, and compares neither consumers nor other providers."""
    old = both.old
    old.create_provider(OTHER, "other")
    old.set_inventory(OTHER, {"VCPU": {"total": 50}})
    old.create_trait("CUSTOM_T")
    both.found("resources=VCPU:1")
    writes: list[tuple[Callable[[], object], str, set[str]]] = [
        (lambda: old.claim(OLD_CONSUMER, {HOST: {"VCPU": 3}}), "VCPU:2", set()),
        (lambda: old.release(OLD_CONSUMER), "VCPU:4", {HOST}),
        (lambda: both.claim(CONSUMER, 2), "VCPU:3", set()),
        (lambda: old.claim(CONSUMER, {OTHER: {"VCPU": 2}}, "p", "u"), "VCPU:4", {HOST}),
        (lambda: old.set_inventory(HOST, {"VCPU": {"total": 9}}), "VCPU:9", {HOST}),
        (lambda: old.set_traits(HOST, {"CUSTOM_T"}), "VCPU:1&required=CUSTOM_T", {HOST}),
        (lambda: old.set_aggregates(HOST, {AGGREGATE}), f"VCPU:1&member_of={AGGREGATE}", {HOST}),
        (lambda: old.create_provider(NODE, "node", HOST), "VCPU:1", {HOST}),
        (lambda: old.set_inventory(NODE, {"VCPU": {"total": 20}}), "VCPU:20", {NODE}),
        (lambda: old.set_inventory(NODE, {}), "VCPU:20", set()),
    ]
    for number, (write, query, expected) in enumerate(writes):
        write()
        found, statements = asked_of(both, f"resources={query}&in_tree={HOST}")
        assert (number, found) == (number, expected)
        # The log, the members of the tree and their four contents; and names that the tree does not have.
        assert len(statements) in (6, 7), statements
        assert not any("FROM consumers" in text for text in statements)


def test_a_tree_that_does_not_exist(both: Both) -> None:
    both.found("resources=VCPU:1")
    assert both.found(f"resources=VCPU:1&in_tree={new_uuid()}") == set()
    wrong = f"/allocation_candidates?resources=VCPU:1&required=CUSTOM_T&in_tree={HOST}"
    assert both.ours.send("GET", wrong).status == 400


def test_what_nobody_has_is_looked_up_alone(both: Both) -> None:
    """And found as soon as some provider has it."""
    old = both.old
    old.create_trait("CUSTOM_T")
    both.found("resources=VCPU:1")
    large = {"VCPU": {"total": 5}, "MEMORY_MB": {"total": 100}}
    wanted: list[tuple[str, Callable[[], object]]] = [
        ("VCPU:5", lambda: old.set_inventory(HOST, large)),
        ("VCPU:1&required=CUSTOM_T", lambda: old.set_traits(HOST, {"CUSTOM_T"})),
        (
            f"VCPU:1&member_of={AGGREGATE}",
            lambda: old.set_aggregates(HOST, {AGGREGATE}, steps=False),
        ),
    ]
    for query, write in wanted:
        # What else has changed does not matter.
        old.claim(new_uuid(), {HOST: {"MEMORY_MB": 1}})
        found, statements = asked_of(both, f"resources={query}")
        assert found == set()
        assert len(statements) in (2, 3), statements
        assert not any("FROM consumers" in text for text in statements)
        write()
        assert both.found(f"resources={query}") == {HOST}


def test_what_nobody_has_reads_no_provider(both: Both, picture: Picture) -> None:
    """Not even one that has changed since."""
    both.old.rename_provider(HOST, "renamed")
    for name, amount in (("VCPU", 1000), ("VCPU", 2**31), ("PGPU", 1)):
        question = CandidateRequest((Group("", {name: amount}),))
        assert refresh(picture, question) == ("nothing", 0, OTHERS + 1)


def test_an_amount_beyond_every_number(both: Both) -> None:
    both.found("resources=VCPU:1")
    for amount in (2**31, 10**30):
        assert both.found(f"resources=VCPU:{amount}") == set()


def test_names_that_are_gone_are_refused(both: Both) -> None:
    """As they are where everything is compared."""
    both.old.create_trait("CUSTOM_T")
    both.found("resources=VCPU:1")
    path = "/allocation_candidates?resources=VCPU:1&required=CUSTOM_T"
    assert both.ours.send("GET", path).status == 200
    assert both.ours.request("DELETE", "/traits/CUSTOM_T", version="1.39").status_int == 204
    assert both.ours.send("GET", path).status == 400
