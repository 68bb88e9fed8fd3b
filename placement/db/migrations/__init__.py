"""The history of the schema: one linear Alembic chain (specification 06 section 7.2).

Every step looks before it acts, because MySQL and MariaDB keep what an interrupted migration has
done so far: running it again finishes it. The other databases keep the steps that have committed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

Progress = Callable[[str, int, int], object]
"""Called with what is being done, how many rows of it are done, and how many there are."""


class MigrationBlocked(Exception):
    """The data is not ready for this revision; the message says what to do."""


class RevisionOvertaken(Exception):
    """Another process has completed the revision between two of its steps."""


@contextmanager
def afterwards(connection: Connection, statement: str) -> Iterator[None]:
    """Run a statement at the end of the block. The end of a connection that was lost does the same."""
    try:
        yield
    finally:
        if not connection.invalidated:
            connection.exec_driver_sql(statement)
