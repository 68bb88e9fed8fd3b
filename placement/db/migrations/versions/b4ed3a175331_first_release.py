"""The schema of release 1.0.0 (Stein), the first that was this service's own.

Nothing to do: the revisions before it lead here. A copy of the tables of nova's API database from
Rocky or Stein is stamped with this revision.
"""

revision = "b4ed3a175331"
down_revision = "0e6a91c5d327"


def upgrade() -> None:
    """Change nothing."""
