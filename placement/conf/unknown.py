"""Options and sections of the configuration that are never read: misspelt, or from another release."""

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

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
"""The namespaces whose options the service reads (specification 06 section 4)."""

IDENTITY = "keystone_authtoken"

GONE_SILENTLY = frozenset({("oslo_policy", "enforce_scope")})
"""Specification 06 section 4.7."""

NEARLY = 0.84
"""The similarity above which a section counts as a misspelling of ours. The nearest name of deployment
tools and other services, ``oslo_policy_http``, has 0.81.
"""

Options = dict[str, set[str]]
"""Names by group."""


class Given(NamedTuple):
    """A section or an option in a file, or an option in the environment.

    :param place: the place for people, such as ``/etc/placement/placement.conf:7``.
    :param section: the section as written; ``group`` is oslo.config's form of it.
    :param name: the name of the option, with underscores; empty for a section.
    """

    place: str
    section: str
    group: str
    name: str


def find_unknown_options(conf: cfg.ConfigOpts) -> list[str]:
    """Return a sentence for each unknown option that is given in a group of the service."""
    known = _list_known(conf)
    return [
        f"{given.place}: there is no option {given.name} in [{given.group}]"
        f"{_suggest(known, given)}"
        for given in _list_given(conf)
        if given.group in known
        and given.name not in known[given.group]
        and (given.group, given.name) not in GONE_SILENTLY
    ]


def _suggest(known: Options, given: Given) -> str:
    """Return the end of the sentence about an unknown option: its right section, or a similar name."""
    if homes := [f"[{group}]" for group in sorted(known) if given.name in known[group]]:
        return f"; it belongs into {' or '.join(homes)}."
    near = difflib.get_close_matches(given.name, known[given.group], 1)
    return f"; did you mean {near[0]}?" if near else "."


def find_misspelt_sections(conf: cfg.ConfigOpts) -> list[str]:
    """Return a sentence for each section of a file with a name similar to a section of the service."""
    known = {name.lower(): name for name in _list_known(conf)}
    foreign = {conf[IDENTITY].auth_section} | set(conf)
    misspelt = []
    for place, section, group, _ in (given for given in _read_files(conf) if not given.name):
        if group in known.values() or group in foreign:
            continue
        if near := difflib.get_close_matches(group, known, 1, NEARLY):
            hint = f"did you mean [{known[near[0]]}]?"
            misspelt.append(f"{place}: there is no section [{section}]; {hint}")
    return misspelt


def find_misplaced(conf: cfg.ConfigOpts, group: str, name: str) -> str | None:
    """Return the place where a missing option stands by mistake, misspelt or in another section."""
    for given in _list_given(conf):
        if (given.group, given.name) == (group, name):
            return f"{given.place} sets it to nothing."
        if given.group == group and difflib.get_close_matches(given.name, [name], 1, NEARLY):
            return f"{given.place} sets {given.name}: did you mean {name}?"
    for given in _list_given(conf):
        if given.name == name and given.group != group:
            return f"{given.place} sets it in [{given.section}]: did you mean [{group}]?"
    return None


def find_place(conf: cfg.ConfigOpts, group: str, name: str) -> str | None:
    """Return the place where an option is given under its present name; the last one, which wins."""
    asked = group, name
    found = [given.place for given in _list_given(conf) if (given.group, given.name) == asked]
    return found[-1] if found else None


def list_files(conf: cfg.ConfigOpts) -> list[str]:
    """Return the files that ``conf`` has read, in the order in which it read them."""
    files = [str(name) for name in conf.config_file or ()]
    for directory in conf.config_dir or ():
        files += sorted(map(str, Path(directory).glob("*.conf")))
    return files


def _list_known(conf: cfg.ConfigOpts) -> Options:
    """Return the present and former names of options, and the options registered on ``conf``."""
    known: Options = {}
    for entry in entry_points(group="oslo.config.opts"):
        if entry.name in NAMESPACES:
            for group, options in entry.load()():
                _add(known, str(getattr(group, "name", group) or "DEFAULT"), options)
    _add(known, IDENTITY, loading.get_session_conf_options())
    # The plugin can have its own group; the options of other groups are not checked.
    _add(known, IDENTITY, _list_ways_to_log_in(conf))
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


def _list_ways_to_log_in(conf: cfg.ConfigOpts) -> list[cfg.Opt]:
    common: list[cfg.Opt] = loading.get_auth_common_conf_options()
    conf.register_opts(common, group=IDENTITY)
    try:
        return common + loading.get_auth_plugin_conf_options(conf[IDENTITY].auth_type or "password")
    except Exception:
        # The plugin does not exist; the service will refuse to start and report it.
        return common


def _list_given(conf: cfg.ConfigOpts) -> list[Given]:
    return [*(given for given in _read_files(conf) if given.name), *_read_environment()]


def _read_files(conf: cfg.ConfigOpts) -> Iterator[Given]:
    """Yield the sections and options of the files, which oslo.config could read."""
    for path in list_files(conf):
        section = group = ""
        for number, line in enumerate(Path(path).read_text(errors="replace").split("\n"), 1):
            if line.startswith("["):
                section, name = line.rstrip()[1:-1], ""
                group = section if section == "DEFAULT" else section.lower()
            elif line.startswith((" ", "\t", "#", ";")) or not line.strip():
                continue
            else:
                name = re.split("[:=]", line, maxsplit=1)[0].strip().replace("-", "_")
            yield Given(f"{path}:{number}", section, group, name)


def _read_environment() -> Iterator[Given]:
    for variable in sorted(os.environ):
        group, separator, name = variable.removeprefix("OS_").partition("__")
        if separator and variable.startswith("OS_"):
            group = group if group == "DEFAULT" else group.lower()
            yield Given(f"environment variable {variable}", group, group, name.lower())
