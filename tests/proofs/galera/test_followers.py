"""The mirrors of tests/proofs/races with each server on another node: a token is true on all of them."""

import pytest

from tests.proofs.races.test_followers import *  # noqa: F403
from tests.support.racing import Arena, emptied

pytestmark = pytest.mark.long


@pytest.fixture
def place(standing: Arena) -> Arena:
    """Three servers, one on each node."""
    return emptied(standing)
