"""The races of gangs and groups with each server on another primary."""

from tests.proofs.galera.test_gang_races import *  # noqa: F403
