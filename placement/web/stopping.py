"""The check whether this process must stop, as far as its server shows that.

A server ends when its last request has its answer. A working request is completed; a request that only waits
asks here, and ends at once. WSGI does not define this, so each server is asked in its own way.
"""

import select
import signal
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

UNTOLD_S = 1.0
"""The longest wait under mod_wsgi: Apache notifies its processes of a stop only when all answers are
given.
"""

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_OF_PROCESS = Path("/proc/self")

_is_told = False


def note_stop() -> None:
    """Note that this process must stop. A signal handler can call this."""
    global _is_told
    _is_told = True


def is_told_to_stop() -> bool:
    """Return whether this process must stop; False if the server does not show it."""
    return _is_told or ("uwsgi" in sys.modules and bool(_find_pipe_of_uwsgi().poll(0)))


def bound_wait(seconds: float) -> float:
    """Return how long a request may wait if it calls :func:`is_told_to_stop` meanwhile."""
    return min(seconds, UNTOLD_S) if "mod_wsgi" in sys.modules else seconds


def listen_for_stop() -> None:
    """Learn from the signals of a server that handles them in Python, as gunicorn does.

    The server has loaded the application, and its handlers are still called. uWSGI has handlers unknown to
    Python, and a process without handlers is ended by the signal: then nothing is changed.
    """
    for number in _SIGNALS:
        with suppress(ValueError):
            # ValueError means that this is not the main thread, which alone handles signals.
            _listen_for(number)


def _listen_for(number: int) -> None:
    of_server = signal.getsignal(number)
    if not callable(of_server):
        return

    def handle(number: int, frame: FrameType | None) -> Any:
        note_stop()
        return of_server(number, frame)

    signal.signal(number, handle)


@cache
def _find_pipe_of_uwsgi() -> "select.poll":
    """Return a poll of the pipe that uWSGI closes to end the threads of a worker.

    uWSGI does not name the pipe: it is the one pipe for which its threads wait, in addition to sockets. The
    return type is in quotes, because eventlet, which other projects use in their tests, removes it.
    """
    told = select.poll()
    for entry in (_OF_PROCESS / "fd").iterdir():
        # OSError means that the descriptor was closed meanwhile, so it is another one.
        with suppress(OSError):
            if _leads_to(entry.name, "anon_inode:[eventpoll]"):
                lines = (_OF_PROCESS / "fdinfo" / entry.name).read_text().splitlines()
                waited_for = [line.split()[1] for line in lines if line.startswith("tfd:")]
                for number in waited_for:
                    if _leads_to(number, "pipe:"):
                        told.register(int(number), select.POLLHUP)
    return told


def _leads_to(number: str, what: str) -> bool:
    return str((_OF_PROCESS / "fd" / number).readlink()).startswith(what)
