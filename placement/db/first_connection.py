"""The first connection to a database that may be dead: in all no longer than is said beforehand.

The time that a driver is given is for one address, and some drivers count it only until the other side
has taken the connection: one that takes it and never says a word is waited for without end.
"""

import queue
import socket
import threading

from sqlalchemy import Engine, exc
from sqlalchemy.engine import URL

from placement.db import deadlines

UNBOUNDED_S = 150
"""Linux gives up a connection that nobody answers after about 130 s."""


def longest_attempt_s(url: URL) -> float:
    """Return how long one attempt may take that tries every address of every host of ``url``."""
    _, waits = deadlines.take(url)
    named = [each.rpartition(":")[0] if ":" in each else each for each in deadlines.hosts(url)]
    # A driver that is told 0 waits as long as the kernel does.
    return (waits.connect or UNBOUNDED_S) * sum(map(_addresses, named or [url.host or ""]))


def _addresses(host: str) -> int:
    """Count the addresses that a driver would try for a host; a path is that of a socket."""
    if not host or host.startswith("/"):
        return 1
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        # The driver will say it.
        return 1
    return max(1, len({each[4][0] for each in found}))


def connect(engine: Engine, within_s: float) -> None:
    """Make a connection for the pool of ``engine``, or give up after ``within_s`` seconds.

    :raises sqlalchemy.exc.DBAPIError: the connection was refused, or not made in this time.
    """
    if engine.dialect.name == "sqlite":
        engine.connect().close()
        return
    outcome: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def attempt() -> None:
        try:
            engine.connect().close()
        except BaseException as error:
            outcome.put(error)
        else:
            outcome.put(None)

    # Whoever hangs here for ever keeps no process from ending.
    threading.Thread(target=attempt, name="first connection", daemon=True).start()
    try:
        error = outcome.get(timeout=max(0.0, within_s))
    except queue.Empty:
        # The attempt keeps its place in the pool for as long as it hangs: the next one has a new pool.
        engine.dispose(close=False)
        silence = TimeoutError("connection timeout expired: no answer")
        raise exc.OperationalError("connect", None, silence, connection_invalidated=True) from None
    if error is not None:
        raise error
