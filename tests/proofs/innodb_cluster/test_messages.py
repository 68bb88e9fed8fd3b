"""How statements travel to a member: each alone, as to a node of Galera."""

from tests.proofs.galera.test_messages import *  # noqa: F403
