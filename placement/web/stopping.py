"""Whether this process was told to stop, as far as its server says.

A server ends when its last request has its answer. What works is let end; what only waits asks here, and ends
at once. WSGI has no word for it, so each server is asked in its own way.
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
"""The longest wait under mod_wsgi: Apache tells its processes of a stop when all answers are given."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_OF_PROCESS = Path("/proc/self")

_is_told = False


def note_stop() -> None:
    """Note that this process was told to stop. A signal handler may call it."""
    global _is_told
    _is_told = True


def is_told_to_stop() -> bool:
    """Return whether this process was told to stop; it says no where the server does not tell."""
    return _is_told or ("uwsgi" in sys.modules and bool(_find_pipe_of_uwsgi().poll(0)))


def bound_wait(seconds: float) -> float:
    """Return for how long a request may wait that asks :func:`is_told_to_stop` meanwhile."""
    return min(seconds, UNTOLD_S) if "mod_wsgi" in sys.modules else seconds


def listen_for_stop() -> None:
    """Learn from the signals of a server that handles them in Python, as gunicorn does.

    It has loaded the application, and its handlers continue to be called. uWSGI has handlers that Python does
    not know, and whoever has none is ended by the signal: then nothing is changed.
    """
    for number in _SIGNALS:
        with suppress(ValueError):
            # ValueError: not in the main thread, where no signal is handled.
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
    """Return what tells that the pipe is closed by which uWSGI ends the threads of a worker.

    uWSGI does not say which it is: the one pipe for which its threads wait, beside their sockets. The return
    type is in quotes, because eventlet, under which other projects run this in their tests, takes it away.
    """
    told = select.poll()
    for entry in (_OF_PROCESS / "fd").iterdir():
        # OSError: it was closed meanwhile, so it is another.
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
