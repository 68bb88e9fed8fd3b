"""The application from an already filled configuration (contract 06 sections 1 and 2)."""

import logging
import weakref
from collections.abc import Callable
from typing import Any

from oslo_config import cfg

from placement import db_api, profiling
from placement.db import schema, standard_names
from placement.db.api import Database

LOG = logging.getLogger(__name__)

_synchronised: "weakref.WeakSet[Database]" = weakref.WeakSet()


def loadapp(
    config: cfg.ConfigOpts, project_name: str | None = None, *, database: Database | None = None
) -> Callable[..., Any]:
    """Return a new WSGI application; steps 5 to 9 of the start-up.

    :param project_name: ignored; older callers give it.
    :param database: what the application works on; the process's database
        (:func:`placement.db_api.configure`) if not given.
    :raises placement.db.schema.SchemaError: the schema is absent, too old or too new.
    """
    # Imported here: the command line tools need the database, not the web.
    from placement.web import app

    database = database or db_api.database(config)
    profiling.set_up(config, database)
    application = profiling.traced(app.build(config, database), config)
    update_database(config, database)
    return application


def update_database(config: cfg.ConfigOpts, database: Database) -> None:
    """Bring schema (if ``sync_on_startup``) and standard names up to date, once per process."""
    if database in _synchronised:
        return
    db_api.wait_until_reachable(config, database)
    if config.placement_database.sync_on_startup:
        schema.sync(
            database,
            progress=lambda revision: LOG.info("Upgraded the database schema to %s", revision),
        )
    schema.require_head(database)
    standard_names.synchronise(database)
    _synchronised.add(database)
