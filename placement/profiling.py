"""Tracing with OSProfiler, if it is installed and ``[profiler]/enabled`` (01, layer 0)."""

import socket
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from sqlalchemy import Connection

from placement.db.database import Database
from placement.db.transport import Message, Observer

try:
    from osprofiler import initializer, opts, profiler, web
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
        database.observers.append(_Tracing())


class _Tracing(Observer):
    """An observer that makes a trace point for each database message, named like OSProfiler's own."""

    def before(self, connection: Connection, sent: Message) -> None:
        texts = "; ".join(each.text for each in sent.statements)
        given = [each.parameters for each in sent.statements]
        params = given[0] if len(given) == 1 else given
        profiler.start("db", info={"db": {"statement": texts, "params": params}})

    def after(self, connection: Connection, sent: Message, error: BaseException | None) -> None:
        if error is None:
            profiler.stop()
            return
        words = {"original_exception": str(error), "chained_exception": str(error.__cause__ or "")}
        kind = type(error)
        named = f"{kind.__module__}.{kind.__qualname__}"
        profiler.stop(info={"etype": named, "message": str(error), "db": words})


def trace_requests(application: Callable[..., Any], conf: cfg.ConfigOpts) -> Callable[..., Any]:
    """Return the application with the tracing layer around it, if it is enabled."""
    if opts is None or not conf.profiler.enabled:
        return application
    middleware: Callable[..., Any] = web.WsgiMiddleware(
        application, hmac_keys=conf.profiler.hmac_keys, enabled=True
    )
    return middleware
