"""The database fixture."""

from typing import Any

import fixtures
from oslo_config import fixture as config_fixture

from placement import db_api, deploy
from placement.conf import database as database_options
from placement.conf import placement as placement_options
from placement.db import schema

GROUP = database_options.GROUP


class Database(fixtures.Fixture):
    """A database with the schema at head and the standard traits and classes in it.

    :param conf_fixture: a fixture of oslo.config that names the database.
    :param set_config: register the ``connection`` option if needed and set it to SQLite in memory,
        unless it is set already.

    At clean-up everything is removed: the next use, in the same process too, begins from nothing.
    """

    def __init__(self, conf_fixture: config_fixture.Config, set_config: bool = False) -> None:
        super().__init__()
        self.conf_fixture = conf_fixture
        if set_config:
            self._set_connection()

    def _set_connection(self) -> None:
        for module in (database_options, placement_options):
            self.conf_fixture.conf.register_opts(module.OPTIONS, group=module.GROUP)
        if not self._connection():
            self.conf_fixture.config(connection="sqlite://", group=GROUP)

    def _connection(self) -> Any:
        return self.conf_fixture.conf[GROUP].connection

    def setUp(self) -> None:
        """Create the schema and insert the standard names."""
        super().setUp()
        db_api.reset()
        conf = self.conf_fixture.conf
        db_api.configure(conf)
        self.addCleanup(self._remove)
        schema.sync(db_api.database())
        deploy.update_database(conf, db_api.database())

    def _remove(self) -> None:
        schema.remove(db_api.database())
        db_api.reset()
