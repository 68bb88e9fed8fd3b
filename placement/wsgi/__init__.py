"""WSGI entry points: ``init_application`` here, the object ``application`` in :mod:`.api`."""

import ctypes
import gc
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_log import log

from placement import advice, db_api, deploy
from placement import conf as configuration
from placement.conf import library_defaults
from placement.conf.unknown import files_read, unknown_options
from placement.db import schema
from placement.db.rights import require_rights
from placement.version import VERSION
from placement.web import auth

LOG = logging.getLogger(__name__)

M_ARENA_MAX = -8
"""Number of the option in malloc.h of the GNU C library."""


def init_application() -> Callable[..., Any]:
    """Return a new application made from the configuration found on this machine.

    Specification 06 sections 2 and 3: the order of the steps and where the configuration is looked for.
    Any failure is fatal.
    """
    conf = cfg.ConfigOpts()
    try:
        return start(conf)
    except Exception as error:
        # The traceback follows, from whoever imports us; an operator looks for this line.
        message = advice.explain(error, conf)
        if message is not None:
            LOG.critical("The service does not start: %s", message)
        raise


def start(conf: cfg.ConfigOpts, config_files: list[str] | None = None) -> Callable[..., Any]:
    """Fill an empty ``conf`` and return a new application made from it.

    :param config_files: read these and nothing else instead of searching.
    """
    configuration.register_opts(conf)
    library_defaults.set_for(conf)
    configuration.load(conf, config_files)
    log.setup(conf, configuration.PROJECT, version=VERSION)
    logging.captureWarnings(True)
    db_api.configure(conf)
    if conf.log_options:
        conf.log_opt_values(LOG, logging.DEBUG)
    _share_pools_of_memory()
    auth.require_way_to_log_in(conf)
    application = deploy.loadapp(conf)
    require_rights(db_api.database(conf))
    for warning in unknown_options(conf):
        LOG.warning("%s", warning)
    LOG.info("%s", _announcement(conf))
    db_api.database(conf).prepare_to_fork()
    _settle()
    return application


def _share_pools_of_memory() -> None:
    """Let all threads take memory from the same pools, where the C library has one for each.

    What one thread gives back is then there for the others: with 20 threads that answer 12 MiB each, 375
    MiB at the most instead of 930. Threads of Python do not wait for one another in it.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None and "MALLOC_ARENA_MAX" not in os.environ:
        set_option(M_ARENA_MAX, 2)


def _announcement(conf: cfg.ConfigOpts) -> str:
    """Say in one line what starts here, with which configuration and database."""
    database = db_api.database(conf)
    files = ", ".join(files_read(conf)) or "none, the environment alone"
    where = database.engine.url.render_as_string(hide_password=True)
    return (
        f"Placement {VERSION} starts. Configuration: {files}. Database: {where}, at revision "
        f"{schema.current(database)}. Authentication: {conf.api.auth_strategy}.{_workers()}"
    )


def _workers() -> str:
    """Say how many serve, where the server that holds this process tells."""
    if server := sys.modules.get("uwsgi"):
        processes, threads = server.numproc, server.opt.get("threads", b"1")
        return f" uWSGI: {processes} processes with {int(threads)} threads each."
    if server := sys.modules.get("mod_wsgi"):
        processes, threads = server.maximum_processes, server.threads_per_process
        return f" mod_wsgi: {processes} processes with {threads} threads each."
    # gunicorn tells nobody but its configuration (etc/gunicorn).
    told = os.environ.get("PLACEMENT_WORKERS")
    return f" {told}." if told else ""


def _settle() -> None:
    """Spare the garbage collector what stays for as long as the process.

    A full collection looks at every container there is while all requests wait. Nearly all of them
    belong to imported modules: 130,000, for 80 ms. A cloud of 10,000 hosts has 3,000, for 1 ms.
    Only for processes that are ours: what is frozen and becomes a cycle of garbage later is freed
    when the next application starts here, and not before.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
