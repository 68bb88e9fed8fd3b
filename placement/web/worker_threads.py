"""The number of requests that this process serves at once, as far as its server shows it."""

import os
import sys

VARIABLE = "PLACEMENT_THREADS"
"""The environment variable of servers that show the number nowhere else: gunicorn's configuration file and
placement-api set it.
"""

UNKNOWN = 4


def count_threads() -> int:
    """Return the number of threads that serve requests, 4 if no server shows it."""
    if server := sys.modules.get("uwsgi"):
        return int(server.opt.get("threads", b"1"))
    if server := sys.modules.get("mod_wsgi"):
        return int(server.threads_per_process)
    told = os.environ.get(VARIABLE, "")
    return int(told) if told.isdecimal() else UNKNOWN
