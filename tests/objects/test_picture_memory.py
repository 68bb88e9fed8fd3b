"""What a worker holds of a cloud, and when it lets go of it."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import insert

from placement.db import cloud_rows, models, writes
from placement.db.change import Change
from placement.db.database import Database
from placement.db.engine import make_engine
from placement.handlers import candidate_answer
from placement.objects.picture import Picture
from placement.search.cloud import Cloud
from placement.search.request import CandidateRequest, Group
from placement.search.search import search
from tests.support import service
from tests.support.looks import read_cloud
from tests.support.recorder import recorded

PROVIDERS = 600
"""So many changes at once that the cloud is read anew."""


@pytest.fixture
def db() -> Iterator[Database]:
    """A database with hosts of one class."""
    made = service.database()
    service.empty(made)

    def fill(tx: Any) -> None:
        numbers = range(1, PROVIDERS + 1)
        ids = [{"id": n, "root_provider_id": n, "uuid": f"{n:036d}", "name": n} for n in numbers]
        tx.connection.execute(insert(models.resource_providers), ids)
        held = {"total": 8, "reserved": 0, "min_unit": 1, "max_unit": 8, "step_size": 1}
        held |= {"allocation_ratio": 1.0, "resource_class_id": 0}
        rows = [{"resource_provider_id": n, **held} for n in numbers]
        tx.connection.execute(insert(models.inventories), rows)

    made.write(fill)
    yield made
    service.empty(made)


def change_everything(db: Database) -> None:
    db.write(lambda tx: writes.finish(tx, Change(touched=range(1, PROVIDERS + 1))))


def answered(cloud: Cloud) -> "weakref.ref[Cloud]":
    """Use the cloud as a request does."""
    result = search(cloud, CandidateRequest((Group("_1", {"VCPU": 1}), Group("", {"VCPU": 1}))))
    assert len(result) == PROVIDERS
    candidate_answer.prepare(cloud, result, {"VCPU"}, (1, 39)).write_pieces()
    return weakref.ref(cloud)


def test_a_replaced_cloud_is_freed_at_once(db: Database) -> None:
    """No cycle keeps it until a collection of garbage: memory is bounded by what is current."""
    picture = Picture(db)
    gc.disable()
    try:
        first = read_cloud(picture, answered)
        change_everything(db)
        second = read_cloud(picture, answered)

        assert first() is None
        assert second() is not None
    finally:
        gc.enable()


def test_garbage_is_collected_again_after_a_load(db: Database) -> None:
    """Reading a cloud pauses the collector; nobody else notices, failed or not."""
    assert read_cloud(Picture(db), lambda cloud: gc.isenabled())

    without_tables = Database(make_engine("sqlite://"))
    with pytest.raises(Exception, match="no such table"):
        read_cloud(Picture(without_tables), answered)
    without_tables.dispose()
    assert gc.isenabled()


@pytest.mark.parametrize("count", [1, 2, 33])
def test_blocks_are_compared_by_the_revisions_of_no_other(db: Database, count: int) -> None:
    """A few are ranges of the primary key; the providers of block 0 are in none of these."""
    blocks = range(1, 1 + count)
    with recorded(db) as statements:
        found = db.snapshot(lambda tx: cloud_rows.revisions(tx, blocks))

    ids = range(1, PROVIDERS + 1)
    assert found.keys() == {id_ for id_ in ids if id_ >> cloud_rows.BLOCK_BITS in blocks}
    assert statements[0].count("BETWEEN") == (count if count < 33 else 0)
