"""The races of tests/proofs/races with each server on another node: nobody shares a row lock."""

import pytest

from tests.proofs.races.test_claim_races import *  # noqa: F403
from tests.support.racing import Arena, emptied


@pytest.fixture(scope="module")
def place(standing: Arena) -> Arena:
    """Three servers, one on each node."""
    return emptied(standing)
