"""The service inside the test process, on a database that begins empty.

One scratch database of each kind serves all tests of a process (tests/support/databases.py).
"""

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import os_resource_classes
import os_traits
import webob
from oslo_config import cfg
from oslo_middleware import http_proxy_to_wsgi
from sqlalchemy import delete, select, update

from placement import conf as configuration
from placement import deploy
from placement.conf import library_defaults
from placement.db import models, schema, standard_names, writes
from placement.db.change import Change
from placement.db.database import Database
from placement.db.engine import make_engine
from placement.db.statements import CompiledStatement
from tests.support.client import VERSION, Answer
from tests.support.databases import scratch_database, until_exit
from tests.support.processes import PATIENCE


def database_url(kind: str = "sqlite") -> str:
    """Return the URL of the database of this kind that this test process uses."""
    return _database_url(kind)


def database(kind: str = "sqlite") -> Database:
    """Return the database of this kind that this test process uses, with its schema at head."""
    return _database(kind)


@cache
def _database_url(kind: str) -> str:
    return until_exit(scratch_database(kind, schema.HEAD, named=True))


@cache
def _database(kind: str) -> Database:
    made = Database(make_engine(database_url(kind), sqlite_synchronous=False))
    atexit.register(made.dispose)
    return made


def empty(db: Database) -> None:
    """Leave the standard traits and resource classes and nothing else."""

    def clear(tx: Any) -> bool:
        tx.change_later(_UNLINK)
        for deletion in _DELETIONS:
            tx.change_later(deletion)
        whole = True
        for table, standard in _STANDARD.items():
            found = set(tx.column(_NAMES[table]))
            whole &= found >= standard
            if added := found - standard:
                tx.connection.execute(delete(table).where(table.c.name.in_(added)))
        # Searches must see this.
        writes.finish(tx, Change(is_unnamed=True))
        return whole

    if not db.write(clear):
        standard_names.synchronise(db)


_UNLINK = CompiledStatement(
    update(models.resource_providers).values(
        root_provider_id=None, parent_provider_id=None, updated_at=None
    )
)
_STANDARD = {
    models.traits: frozenset(os_traits.get_traits()),
    models.resource_classes: frozenset(os_resource_classes.STANDARDS),
}
_NAMES = {table: CompiledStatement(select(table.c.name)) for table in _STANDARD}
# The slots of the log of changes stay.
_DELETIONS = [
    CompiledStatement(delete(table))
    for table in reversed(models.whole_metadata().sorted_tables)
    if table not in (models.provider_changes, *_STANDARD)
]


def configure(kind: str = "sqlite", **overrides: Any) -> cfg.ConfigOpts:
    """Return a configuration that read no file: noauth2, and the defaults of the service.

    :param overrides: values by ``<group>__<option>``.
    """
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    library_defaults.set_for(conf)
    conf.register_opts(http_proxy_to_wsgi.OPTS, group="oslo_middleware")
    conf.set_override("connection", database_url(kind), group="placement_database")
    conf.set_override("auth_strategy", "noauth2", group="api")
    # Tests count statements, and leave damage where they have done it; those of the scrub turn it on.
    conf.set_override("scrub_share", 0, group="placement_database")
    conf([], project="placement", default_config_files=[], default_config_dirs=[])
    # A machine that is busy with other things searches no less.
    deadline_s = round(conf.api.search_deadline * PATIENCE)
    conf.set_override("search_deadline", deadline_s, group="api")
    for name, value in overrides.items():
        group, option = name.split("__")
        conf.set_override(option, value, group=None if group == "DEFAULT" else group)
    return conf


class Service:
    """One application with its configuration and database.

    Calling ``request`` sends one request as ``admin`` unless the headers say otherwise.
    """

    def __init__(self, conf: cfg.ConfigOpts, db: Database) -> None:
        self.conf = conf
        self.db = db
        self.application = deploy.loadapp(conf, database=db)

    def request(
        self,
        method: str,
        path: str,
        *,
        version: str | None = None,
        json: Any = None,
        environ: dict[str, Any] | None = None,
        **headers: str | None,
    ) -> webob.Response:
        """Send a request; header names have underscores for dashes, None leaves one out.

        :param version: a microversion, sent as ``placement <version>``.
        """
        given: dict[str, str | None] = {"x_auth_token": "admin"}
        if version is not None:
            given["openstack_api_version"] = f"placement {version}"
        given |= headers
        sent = webob.Request.blank(
            path,
            environ,
            method=method,
            headers={k.replace("_", "-"): v for k, v in given.items() if v is not None},
        )
        if json is not None:
            sent.json = json
            sent.headers.setdefault("content-type", "application/json")
        return sent.get_response(self.application)

    def send(self, method: str, path: str, body: Any = None, version: str = VERSION) -> Answer:
        """Send a request as an admin with the service role."""
        answer = self.request(method, path, version=version, json=body, x_roles="admin,service")
        return Answer(answer.status_int, answer.text if answer.body else "", answer.headers)


@contextmanager
def running(kind: str = "sqlite", **overrides: Any) -> Iterator[Service]:
    """Yield the service on an empty database."""
    db = database(kind)
    empty(db)
    yield Service(configure(kind, **overrides), db)
