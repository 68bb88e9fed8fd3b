"""What several files of this folder share."""

from collections.abc import Iterator

import pytest

from tests.support.both_services import Both
from tests.support.databases import KINDS


@pytest.fixture(params=KINDS)
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    """This service and the OpenStack service on each kind of database, with one host of four VCPU."""
    made = Both(request.param)
    yield made
    made.old.dispose()
