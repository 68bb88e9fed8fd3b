"""The database fixture."""

import fixtures
from oslo_config import fixture as config_fixture

from placement import db_api, deploy
from placement.conf.options import BY_GROUP
from placement.db import schema

GROUP = "placement_database"


class Database(fixtures.Fixture):
    """A database with the schema at head and the standard traits and classes in it.

    :param conf_fixture: a fixture of oslo.config that names the database.
    :param set_config: register the ``connection`` option if needed and set it to SQLite in memory,
        unless it is set already.

    Clean-up removes everything: the next use, even in the same process, starts from nothing.
    """

    def __init__(self, conf_fixture: config_fixture.Config, set_config: bool = False) -> None:
        super().__init__()
        self.conf_fixture = conf_fixture
        if set_config:
            conf = conf_fixture.conf
            for group in (GROUP, "placement"):
                conf.register_opts(BY_GROUP[group], group=group)
            if not conf[GROUP].connection:
                conf_fixture.config(connection="sqlite://", group=GROUP)

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
