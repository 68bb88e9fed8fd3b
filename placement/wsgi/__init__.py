"""WSGI entry points: ``init_application`` here, the object ``application`` in :mod:`.api`."""

import ctypes
import gc
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from oslo_config import cfg
from oslo_log import log

from placement import advice, db_api, deploy
from placement import conf as configuration
from placement.conf import library_defaults
from placement.conf.unknown import find_misspelt_sections, find_unknown_options, list_files
from placement.db import address, schema
from placement.db.coexistence import state
from placement.db.database import Database
from placement.version import VERSION, second_owner
from placement.web import auth, stopping

LOG = logging.getLogger(__name__)

M_ARENA_MAX = -8
"""The number of the option in malloc.h of the GNU C library."""


def init_application() -> Callable[..., Any]:
    """Return a new application made from the configuration found on this machine (06 sections 2 and 3)."""
    conf = cfg.ConfigOpts()
    try:
        return start(conf)
    except Exception as error:
        # The server that imports this module prints the traceback; operators look for this line.
        message = advice.explain(error, conf)
        if message is not None:
            LOG.critical("The service does not start: %s", message)
        raise


def start(conf: cfg.ConfigOpts, config_files: list[str] | None = None) -> Callable[..., Any]:
    """Fill an empty ``conf`` and return a new application made from it."""
    configuration.register_opts(conf)
    library_defaults.set_for(conf)
    configuration.load(conf, config_files)
    log.setup(conf, configuration.PROJECT, version=VERSION)
    logging.captureWarnings(True)
    db_api.configure(conf)
    if conf.log_options:
        conf.log_opt_values(LOG, logging.DEBUG)
    _share_memory_pools()
    if misspelt := find_misspelt_sections(conf):
        raise advice.NotConfigured(*misspelt)
    auth.require_way_to_log_in(conf)
    application = deploy.loadapp(conf)
    database = db_api.database(conf)
    revision = db_api.when_reachable(conf, database, partial(examine, database))
    notes = db_api.when_reachable(
        conf, database, partial(db_api.character_set_notes, conf, database)
    )
    warnings = (second_owner(), *find_unknown_options(conf), *notes)
    for warning in filter(None, warnings):
        LOG.warning("%s", warning)
    _announce(conf, revision)
    if remark := db_api.when_reachable(conf, database, partial(database.read, state.describe)):
        LOG.warning("%s", remark)
    database.prepare_to_fork()
    stopping.listen_for_stop()
    _settle()
    return application


def examine(database: Database) -> str | None:
    """Return the revision of a database that the service may use.

    :raises placement.db.schema.SchemaError: the database user lacks rights.
    """
    schema.require_rights(database)
    return schema.current(database)


def _share_memory_pools() -> None:
    """Let all threads allocate from the same pools if the C library has one for each thread.

    20 threads that answer 12 MiB each then need at most 375 MiB, not 930.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None and "MALLOC_ARENA_MAX" not in os.environ:
        set_option(M_ARENA_MAX, 2)


def _announce(conf: cfg.ConfigOpts, revision: str | None) -> None:
    """Log the start on one line, with the configuration and database."""
    LOG.info(
        "Placement %s starts. Configuration: %s. Database: %s, at revision %s%s. Authentication: %s.%s",
        VERSION,
        ", ".join(list_files(conf)) or "none, the environment alone",
        address.show(db_api.database(conf).engine.url),
        revision,
        "" if revision == schema.HEAD else " of a newer release",
        conf.api.auth_strategy,
        _workers(),
    )


def _workers() -> str:
    """Describe the workers, if the WSGI server of this process shows them."""
    if server := sys.modules.get("uwsgi"):
        processes, threads = server.numproc, server.opt.get("threads", b"1")
        return f" uWSGI: {processes} processes with {int(threads)} threads each."
    if server := sys.modules.get("mod_wsgi"):
        processes, threads = server.maximum_processes, server.threads_per_process
        return f" mod_wsgi: {processes} processes with {threads} threads each."
    # gunicorn shows them only to its configuration file (etc/gunicorn), which sets this.
    workers = os.environ.get("PLACEMENT_WORKERS")
    return f" {workers}." if workers else ""


SWITCH_S = 0.001
"""How long a thread can keep the interpreter while another waits; Python's own value is 0.005. A small
search needs the interpreter several times, and waits this long each time next to a hard search.
"""


def _settle() -> None:
    """Settle the process so that no request waits long for another.

    Objects that live as long as the process are hidden from the garbage collector: a full collection
    visits 130,000 objects of imported modules, for 80 ms in which all requests wait.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(SWITCH_S)
