"""Options and sections of the configuration that are never read: misspelt, or of another release."""

import difflib
import os
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from pathlib import Path

from keystoneauth1 import loading
from oslo_config import cfg

NAMESPACES = frozenset(
    {
        "placement.conf",
        "keystonemiddleware.auth_token",
        "oslo.config",
        "oslo.log",
        "oslo.middleware.cors",
        "oslo.middleware.healthcheck",
        "oslo.middleware.http_proxy_to_wsgi",
        "oslo.policy",
    }
)
"""Whose options the service reads (specification 06 section 4)."""

IDENTITY = "keystone_authtoken"

GONE_SILENTLY = frozenset({("oslo_policy", "enforce_scope")})
"""Specification 06 section 4.7."""

NEARLY = 0.84
"""A section whose name is at least so like one of ours is taken for a misspelling. The nearest name of
deployment tools and other services, ``oslo_policy_http``, has 0.81."""

Options = dict[str, set[str]]
"""Names by group."""


def unknown_options(conf: cfg.ConfigOpts) -> list[str]:
    """Return a sentence for each unknown option that is given in a group of the service."""
    known = _known(conf)
    unknown = []
    for place, group, name in [*_in_files(conf), *_in_environment(known)]:
        if group in known and name not in known[group] and (group, name) not in GONE_SILENTLY:
            near = difflib.get_close_matches(name, known[group], 1)
            hint = f"; did you mean {near[0]}?" if near else "."
            unknown.append(f"{place}: there is no option {name} in [{group}]{hint}")
    return unknown


def misspelt_sections(conf: cfg.ConfigOpts) -> list[str]:
    """Return a sentence for each section of a file whose name is almost one of the service."""
    known = {name.lower(): name for name in _known(conf)}
    foreign = {conf[IDENTITY].auth_section} | set(conf)
    misspelt = []
    for path in files_read(conf):
        for line, section in _Sections(path).found:
            name = section if section == "DEFAULT" else section.lower()
            if name in known.values() or name in foreign:
                continue
            if near := difflib.get_close_matches(name, known, 1, NEARLY):
                hint = f"did you mean [{known[near[0]]}]?"
                misspelt.append(f"{path}:{line}: there is no section [{section}]; {hint}")
    return misspelt


def given_elsewhere(conf: cfg.ConfigOpts, group: str, name: str) -> str:
    """Return a sentence and a space if a section that is not read has the missing option; else nothing.

    Other services call the section of their database ``[database]``.
    """
    known = _known(conf)
    for path, section, given in _in_files(conf):
        if given == name and section not in known and section not in conf:
            return f"{path}: the section [{section}] is not read; call it [{group}]. "
    return ""


class _Sections(cfg.ConfigParser):
    """Notes where each section begins."""

    def __init__(self, path: str) -> None:
        super().__init__(path, {})
        self.found: list[tuple[int, str]] = []
        self.parse()

    def new_section(self, section: str) -> None:
        self.found.append((self.lineno, section))
        super().new_section(section)


def files_read(conf: cfg.ConfigOpts) -> list[str]:
    """Return the files that ``conf`` has read, in the order in which it read them."""
    files = [str(name) for name in conf.config_file or ()]
    for directory in conf.config_dir or ():
        files += sorted(map(str, Path(directory).glob("*.conf")))
    return files


def _known(conf: cfg.ConfigOpts) -> Options:
    """Return the present and former names of options, and those registered on ``conf``."""
    known: Options = {}
    for entry in entry_points(group="oslo.config.opts"):
        if entry.name in NAMESPACES:
            for group, options in entry.load()():
                _add(known, str(getattr(group, "name", group) or "DEFAULT"), options)
    _add(known, IDENTITY, loading.get_session_conf_options())
    # The plugin may have a group of its own; options of other groups are not checked.
    _add(known, IDENTITY, _ways_to_log_in(conf))
    for group in known:
        if group in conf:
            known[group].update(conf[group])
    return known


def _add(known: Options, group: str, options: Iterable[cfg.Opt]) -> None:
    names = known.setdefault(group, set())
    for option in options:
        names |= {option.dest, option.name.replace("-", "_")}
        for old in option.deprecated_opts:
            name = (old.name or option.name).replace("-", "_")
            known.setdefault(old.group or group, set()).add(name)


def _ways_to_log_in(conf: cfg.ConfigOpts) -> list[cfg.Opt]:
    common: list[cfg.Opt] = loading.get_auth_common_conf_options()
    conf.register_opts(common, group=IDENTITY)
    try:
        return common + loading.get_auth_plugin_conf_options(conf[IDENTITY].auth_type or "password")
    except Exception:
        # There is no such plugin. The service will not start, and will say so.
        return common


def _in_files(conf: cfg.ConfigOpts) -> Iterator[tuple[str, str, str]]:
    for path in files_read(conf):
        for section, given in _Sections(path).sections.items():
            group = section if section == "DEFAULT" else section.lower()
            for name in given:
                yield path, group, name.replace("-", "_")


def _in_environment(known: Options) -> Iterator[tuple[str, str, str]]:
    groups = {group.upper(): group for group in known}
    for variable in sorted(os.environ):
        group, separator, name = variable.removeprefix("OS_").partition("__")
        if separator and variable.startswith("OS_") and group in groups:
            yield f"environment variable {variable}", groups[group], name.lower()
