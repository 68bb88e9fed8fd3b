"""The list of all traits is kept, and right."""

from datetime import datetime

import pytest

from placement.db import schema
from placement.objects import trait
from placement.objects.trait import EveryTrait
from tests.support.databases import KINDS, opened, scratch_database
from tests.support.recorder import recorded


@pytest.mark.parametrize("kind", KINDS)
def test_what_another_worker_changed_is_seen(kind: str) -> None:
    """Also when a deleted trait was the newest, and the next one may get its id."""
    with scratch_database(kind, schema.HEAD) as url, opened(url) as here, opened(url) as there:
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
