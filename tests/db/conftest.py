"""Databases, and the OpenStack service on them, which several files of this folder use."""

from collections.abc import Iterator

import pytest

from tests.support.both_services import Both
from tests.support.databases import KINDS
from tests.support.revisions import database as database
from tests.support.revisions import kind as kind
from tests.support.revisions import revision as revision
from tests.support.revisions import synced as synced
from tests.support.revisions import url as url


@pytest.fixture(params=KINDS)
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    """This service and the OpenStack service on each kind of database, with one host of four VCPU."""
    made = Both(request.param)
    yield made
    made.old.dispose()
