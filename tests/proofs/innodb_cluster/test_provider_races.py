"""The races of the provider side with each racer on another primary."""

from tests.proofs.galera.test_provider_races import *  # noqa: F403
