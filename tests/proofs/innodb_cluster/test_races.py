"""The races of claims with each server on another primary: nobody shares a row lock."""

from tests.proofs.galera.test_races import *  # noqa: F403
