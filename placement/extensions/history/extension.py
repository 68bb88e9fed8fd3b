"""The history of one process."""

from oslo_config import cfg

from placement.db.database import Database
from placement.extensions.history.history_rows import HistoryWatcher


def watch_writes(conf: cfg.ConfigOpts, database: Database) -> None:
    """Install the watchers of writes that ``conf`` asks for."""
    database.watchers = (HistoryWatcher(),) if conf.insight.history_days > 0 else ()
