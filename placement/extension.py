"""The interface between an extension and the application (:doc:`/maintainers/add-an-extension`)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from oslo_config import cfg

from placement import installed
from placement.db.database import Database
from placement.objects.picture import Picture
from placement.telemetry import Trace
from placement.web.dispatch import Actions
from placement.web.observation import Watcher as RequestWatcher

Routes = Mapping[str, dict[str, Actions]]


class Chore(NamedTuple):
    """Work that requests do after their answers (:mod:`placement.web.after_answer`)."""

    is_due: Callable[[], bool]
    go_on: Callable[[], object]
    deed: str


@dataclass
class Service:
    """One application while it is put together.

    :param written: method and template of the routes whose requests write.
    """

    conf: cfg.ConfigOpts
    database: Database
    picture: Picture
    written: Sequence[tuple[str, str]]
    request_watchers: list[RequestWatcher] = field(default_factory=list)
    """The functions called with each request that has ended."""
    work_watchers: list[Callable[[Trace], None]] = field(default_factory=list)
    """The functions called with the trace of each work that no client has requested."""
    _begun: dict[str, Any] = field(default_factory=dict)

    def begin(self, name: str) -> Any:
        """Return the object that an extension began for this application; the first call begins it.

        Extensions that need one another call this.
        """
        if name not in self._begun:
            if name not in find_extensions():
                raise installed.ExtensionNotUsable(
                    f"another extension needs {name}, which EXTENSIONS does not name"
                )
            self._begun[name] = find_extensions()[name].begin(self)
        return self._begun[name]


def is_insight_on(conf: cfg.ConfigOpts) -> bool:
    """Return whether anything is served under ``/-/``."""
    return bool(conf.insight.enabled)


def _begin_nothing(_service: Service) -> None:
    """Make nothing for an application."""


def _check_nothing(_conf: cfg.ConfigOpts) -> None:
    """Read no options that a start could refuse."""


def _list_no_chores(_conf: cfg.ConfigOpts, _database: Database) -> Iterable[Chore]:
    """List no work after answers."""
    return ()


@dataclass(frozen=True, kw_only=True)
class Extension:
    """The value ``EXTENSION`` in ``extension.py`` of a package of :mod:`placement.extensions`.

    :param routes: the extension's part of the URL page.
    :param writes: requests other than GET write allocations; metrics show them from the start.
    :param is_on: whether the routes are served and the extension begins.
    :param check_options: reads the options that a start reads, and raises the errors of a start; ``config
        check`` calls it.
    :param begin: makes, once for each application, the object that handlers find as ``request.begun[name]``.
    :param list_chores: lists the work after answers; called even if the extension is off.
    """

    routes: Routes
    writes: bool = False
    is_on: Callable[[cfg.ConfigOpts], bool] = is_insight_on
    check_options: Callable[[cfg.ConfigOpts], object] = _check_nothing
    begin: Callable[[Service], Any] = _begin_nothing
    list_chores: Callable[[cfg.ConfigOpts, Database], Iterable[Chore]] = _list_no_chores


def find_extensions() -> dict[str, Extension]:
    """Return the extensions by name."""
    found = installed.find_modules("extension").items()
    return {name: module.EXTENSION for name, module in found}
