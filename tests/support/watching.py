"""A thread that looks at committed states all the time: nothing is allocated that is not there."""

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from sqlalchemy import text

from placement.db.database import Database
from tests.support.book import Book

HELD = text("""
SELECT p.uuid, a.used, i.total, (i.total - i.reserved) * i.allocation_ratio
FROM (SELECT resource_provider_id AS of_provider, resource_class_id AS of_class, SUM(used) AS used
      FROM allocations GROUP BY resource_provider_id, resource_class_id) a
JOIN resource_providers p ON p.id = a.of_provider
LEFT JOIN inventories i ON i.resource_provider_id = a.of_provider AND i.resource_class_id = a.of_class
""")


def find_too_much(db: Database, hosts: Collection[str]) -> list[str]:
    """Return where more is allocated than there is, and where something is of which there is nothing.

    :param hosts: whose inventories nobody makes smaller.
    """
    return [
        f"{uuid} has {used} allocated of {total}"
        for uuid, used, total, capacity in db.read(lambda reader: reader.connection.execute(HELD).all())
        if total is None or (uuid in hosts and used > capacity)
    ]


@contextmanager
def watching(db: Database, book: Book, pause_s: float, hosts: Collection[str]) -> Iterator[None]:
    """Look at committed states until the end, and blame what is allocated and is not there."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(pause_s):
            for too_much in find_too_much(db, hosts):
                book.blame(f"1: {too_much}")
            book.count("states looked at")

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
