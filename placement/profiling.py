"""Tracing with OSProfiler, where it is installed and ``[profiler]/enabled`` (01, layer 0)."""

import socket
from collections.abc import Callable
from typing import Any

import sqlalchemy
from oslo_config import cfg

from placement.db.database import Database

try:
    from osprofiler import initializer, opts, web
    from osprofiler import sqlalchemy as sql_tracing
except ImportError:
    opts = None  # type: ignore[assignment]


def set_up(conf: cfg.ConfigOpts, database: Database) -> None:
    """Register ``[profiler]`` and start the notifier if it is enabled."""
    if opts is None:
        return
    opts.set_defaults(conf, enabled=False)
    if not conf.profiler.enabled:
        return
    initializer.init_from_conf(
        conf, context={}, project="placement", service="placement", host=socket.gethostname()
    )
    if conf.profiler.trace_sqlalchemy:
        sql_tracing.add_tracing(sqlalchemy, database.engine, "db")


def traced(application: Callable[..., Any], conf: cfg.ConfigOpts) -> Callable[..., Any]:
    """Return the application with the tracing layer around it, if it is enabled."""
    if opts is None or not conf.profiler.enabled:
        return application
    middleware: Callable[..., Any] = web.WsgiMiddleware(
        application, hmac_keys=conf.profiler.hmac_keys, enabled=True
    )
    return middleware
