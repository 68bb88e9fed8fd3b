"""The watcher of writes, if the history is on."""

from oslo_config import cfg

from placement.extensions.history.history_rows import HistoryWatcher


def list_watchers(conf: cfg.ConfigOpts) -> tuple[HistoryWatcher, ...]:
    """Return the watcher if the history is on."""
    return (HistoryWatcher(),) if conf.insight.history_days > 0 else ()
