"""Placement under gunicorn: ``gunicorn --config /etc/placement/gunicorn.conf.py``.

Reload without a refused request: SIGHUP to the master process, after "placement-manage config check
--before reload". Workers that cannot load their configuration end the whole instance.
"""

import multiprocessing
import os

wsgi_app = "placement.wsgi.api:application"
# Only behind nginx: otherwise a client that is slow to send its request occupies a thread, without end.
bind = "unix:/run/placement/gunicorn.sock"
workers = multiprocessing.cpu_count()

# The threads of a process wait for the database at the same time.
worker_class = "gthread"
threads = 8
timeout = 120
graceful_timeout = 30

# Each worker imports the service by itself, so that a reload takes new code and configuration.
preload_app = False

# Connections that a worker keeps beside the requests that it serves.
worker_connections = 1000
keepalive = 5

# Long candidate queries fit (the longest line gunicorn takes).
limit_request_line = 8190
control_socket_disable = True


def post_fork(server, worker):
    """Tell the service how many serve: for the line that it logs at its start, and how many may wait."""
    cfg = worker.cfg
    os.environ["PLACEMENT_THREADS"] = str(cfg.threads)
    os.environ["PLACEMENT_WORKERS"] = (
        f"gunicorn: {cfg.workers} processes with {cfg.threads} threads each"
    )
