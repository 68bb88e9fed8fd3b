"""Cuts connections whose statement takes longer than it may: for drivers that cannot give up waiting.

psycopg waits for an answer of PostgreSQL for ever. As long as the kernel of the other machine acknowledges
packets, which it does for a frozen process, no setting of TCP helps. One thread for each process looks
once a second at who waits. To the driver a connection that is cut here has been lost.
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import Dialect, Engine, event

LOOK_S = 1.0


class Watchdog:
    """What threads wait for, and until when. ``looking``: the thread that watches them runs."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[float, Any]] = {}
        self._starting = threading.Lock()
        self._process = 0

    def run(self) -> None:
        """Make sure that this process, which may have been forked, has the thread."""
        if self._process == os.getpid():
            return
        with self._starting:
            if self._process != os.getpid():
                self._waiting = {}
                threading.Thread(target=self._look, name="watchdog", daemon=True).start()
                self._process = os.getpid()

    def begin(self, connection: Any, patience_s: float) -> None:
        """The calling thread waits for this connection of the driver from now on."""
        self._waiting[threading.get_ident()] = (time.monotonic() + patience_s, connection)

    def end(self) -> None:
        """The calling thread has its answer."""
        self._waiting.pop(threading.get_ident(), None)

    def _look(self) -> None:
        while True:
            time.sleep(LOOK_S)
            now = time.monotonic()
            for thread, (until, connection) in list(self._waiting.items()):
                # A statement that ends at this very moment costs its connection, and nothing else.
                if now > until and self._waiting.pop(thread, None) is not None:
                    _cut(connection)


def _cut(connection: Any) -> None:
    """End the conversation, and leave the descriptor to its owner, who waits on it."""
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as twin:
            twin.shutdown(socket.SHUT_RDWR)
    except Exception:
        # It is closed, or was lost meanwhile: nobody waits for it.
        return


_watchdog = Watchdog()


def watch(engine: Engine, patience_s: float) -> None:
    """Let no statement of ``engine`` take longer, by much more than a second."""

    @event.listens_for(engine, "connect")
    def connected(_connection: Any, _record: Any) -> None:
        _watchdog.run()

    # Events of the dialect: those of the engine cost a fifth of a small statement.
    for name in ("do_execute", "do_executemany"):
        event.listen(engine, name, _watched(engine.dialect, name, patience_s))


def _watched(dialect: Dialect, name: str, patience_s: float) -> Callable[..., bool]:
    """Return what runs a statement in the place of a method of the dialect, and says that it has."""

    def execute(cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
        _watchdog.begin(cursor.connection, patience_s)
        try:
            getattr(dialect, name)(cursor, statement, parameters, context)
        finally:
            _watchdog.end()
        return True

    return execute
