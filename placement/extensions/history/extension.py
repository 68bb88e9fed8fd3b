"""The extension for the history of writes."""

from collections.abc import Iterator

from oslo_config import cfg

from placement.db.database import Database
from placement.extension import Chore, Extension
from placement.extensions.history.routes import ROUTES
from placement.extensions.history.trimmer import Trimmer


def _list_chores(conf: cfg.ConfigOpts, database: Database) -> Iterator[Chore]:
    if conf.insight.history_days:
        trimmer = Trimmer(database, conf.insight.history_days)
        yield Chore(trimmer.is_due, trimmer.go_on, "trimming of the history")


EXTENSION = Extension(routes=ROUTES, list_chores=_list_chores)
