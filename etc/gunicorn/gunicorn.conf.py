"""Placement under gunicorn: ``gunicorn --config /etc/placement/gunicorn.conf.py``.

Reload without a refused request: SIGHUP to the master process.
"""

import multiprocessing

wsgi_app = "placement.wsgi.api:application"
bind = "unix:/run/placement/gunicorn.sock"
workers = multiprocessing.cpu_count()

# Threads wait for the database together.
worker_class = "gthread"
threads = 8
timeout = 120
graceful_timeout = 30

# Each worker imports the service for itself, so that a reload takes new code and configuration.
preload_app = False

# Long candidate queries fit (the longest line gunicorn takes).
limit_request_line = 8190
control_socket_disable = True
