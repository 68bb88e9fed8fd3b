"""How many rows of a table MariaDB has rebuilt, seen from another connection."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import Connection, exc

LOOK_EVERY_S = 0.5

_ROWS = sa.text(
    "SELECT coalesce(table_rows, 0) FROM information_schema.tables"
    " WHERE table_schema = DATABASE() AND table_name = :name"
)
_PROGRESS = sa.text("SELECT stage, progress FROM information_schema.processlist WHERE id = :id")


@contextmanager
def watched(
    connection: Connection, table_name: str, tell: Callable[[str, int, int], object]
) -> Iterator[None]:
    """Tell about the change of a table that is made inside; the number of rows is an estimate.

    MySQL does not show how far it is: then there is nothing to tell.
    """
    rows = int(connection.scalar(_ROWS, {"name": table_name}) or 0)
    session = connection.scalar(sa.text("SELECT CONNECTION_ID()"))
    done = threading.Event()

    def look() -> None:
        try:
            with connection.engine.connect() as other:
                while not done.wait(LOOK_EVERY_S):
                    found = other.execute(_PROGRESS, {"id": session}).first()
                    if found is not None and found.stage:
                        part = 1 if found.stage > 1 else float(found.progress) / 100
                        tell(table_name, int(rows * part), rows)
        except exc.SQLAlchemyError:
            return

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
