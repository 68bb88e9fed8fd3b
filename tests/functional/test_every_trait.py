"""The list of all traits is kept, and right."""

from datetime import datetime

import pytest

from placement.db import schema
from placement.db.database import Database
from placement.db.engine import make_engine
from placement.objects import trait
from placement.objects.trait import EveryTrait
from tests.support.databases import KINDS, scratch_database
from tests.support.recorder import recorded


@pytest.mark.parametrize("kind", KINDS)
def test_what_another_worker_changed_is_seen(kind: str) -> None:
    """Also when a deleted trait was the newest, and the next one may get its id."""
    with scratch_database(kind) as url:
        here, there = Database(make_engine(url)), Database(make_engine(url))
        schema.sync(there)
        every = EveryTrait(here)
        assert every.listing() == ([], None)
        for name in ("CUSTOM_A", "CUSTOM_B", "CUSTOM_C"):
            trait.ensure(there, name)
            assert every.listing().names[-1] == name
        trait.delete(there, "CUSTOM_A")
        assert every.listing().names == ["CUSTOM_B", "CUSTOM_C"]
        trait.delete(there, "CUSTOM_C")
        trait.ensure(there, "CUSTOM_D")
        assert every.listing().names == ["CUSTOM_B", "CUSTOM_D"]
        assert isinstance(every.listing().modified_at, datetime)
        with recorded(here) as statements:
            every.listing()
        assert len(statements) == 1
        for db in (here, there):
            db.dispose()
