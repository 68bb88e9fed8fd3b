"""The history of the schema: one linear Alembic chain (specification 06 section 7.2).

Every step checks first whether it is done, because MySQL and MariaDB keep the work of an interrupted
migration; a second run finishes it. The other databases keep the committed steps.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

Progress = Callable[[str, int, int], object]
"""A callback that takes the current work, the rows done and the total."""


class MigrationBlocked(Exception):
    """The data is not ready for this revision; the message says what to do."""


class RevisionOvertaken(Exception):
    """Another process has completed the revision between two of its steps."""


@contextmanager
def afterwards(connection: Connection, statement: str) -> Iterator[None]:
    """Run a statement at the end of the block; a lost connection has the same effect."""
    try:
        yield
    finally:
        if not connection.invalidated:
            connection.exec_driver_sql(statement)
