"""``db sync`` on two primaries at once."""

from tests.proofs.galera.test_sync import *  # noqa: F403
