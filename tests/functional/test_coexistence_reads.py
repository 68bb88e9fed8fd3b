"""What a search reads during a coexistence: what has changed, and not the cloud (06 section 13.1)."""

from collections.abc import Callable

import pytest

from placement import telemetry
from placement.db import coexistence_rows, models
from placement.objects.picture import Picture
from tests.functional.test_coexistence import (
    AGGREGATE,
    CONSUMER,
    HOST,
    NODE,
    OLD_CONSUMER,
    Both,
    both,  # noqa: F401
)
from tests.support.old_service import new_uuid
from tests.support.recorder import recorded

BLOCK = 2**coexistence_rows.BLOCK_BITS
OTHERS = 5 * BLOCK


@pytest.fixture
def picture(both: Both) -> Picture:  # noqa: F811
    """A picture of a cloud of several blocks, as it is before the writes."""
    uuids = [new_uuid() for _ in range(OTHERS)]
    rows = [{"uuid": uuid, "name": uuid, "generation": 0} for uuid in uuids]
    both.db.write(lambda tx: tx.connection.execute(models.resource_providers.insert(), rows))
    both.old.create_trait("CUSTOM_T")
    made = Picture(both.db)
    made.read(len)
    return made


def refreshes(picture: Picture) -> tuple[tuple[str, int, int], ...]:
    """Return what a read of the picture has found: kind, providers read, providers there are."""
    trace = telemetry.begin()
    try:
        picture.read(len)
    finally:
        telemetry.end()
    return trace.refreshes


def test_after_a_change_the_cloud_is_not_read_again(both: Both, picture: Picture) -> None:  # noqa: F811
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
            ((kind, read, providers),) = refreshes(picture)
        assert (number, kind, providers) == (number, "part", there)
        assert read <= BLOCK
        # The log, the signs (those of allocations only if a consumer has changed), the contents of the block.
        asked = [text for text in statements if "SELECT" in text.upper() and "FROM" in text.upper()]
        assert len(asked) - 1 - 4 in (4, 5), statements
        assert refreshes(picture) == (("nothing", 0, there),)
    assert picture.read(lambda cloud: cloud.names[cloud.index_of_uuid[HOST]]) == "renamed"


def test_another_shape_is_read_whole(both: Both, picture: Picture) -> None:  # noqa: F811
    """What is below what is seen on all of a tree, wherever its rows are."""
    for write in (
        lambda: both.old.create_provider(NODE, "node", HOST),
        lambda: both.old.move_provider(NODE, None),
        lambda: both.old.delete_provider(NODE),
    ):
        write()
        ((kind, read, providers),) = refreshes(picture)
        assert kind == "whole"
        assert read == providers
