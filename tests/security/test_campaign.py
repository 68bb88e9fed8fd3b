"""Hostile requests to each web server that we ship a configuration for (``python -m tests.security``
is the long version)."""

import pytest

from tests.security import campaign

pytestmark = pytest.mark.deploy

REQUESTS = 300


@pytest.mark.parametrize("server", campaign.SERVERS)
def test_nothing_gets_through(server: str) -> None:
    campaign.run(server, "sqlite", REQUESTS, seed=20).require_kept()
