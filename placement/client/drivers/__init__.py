"""The drivers that ship with the client, and the loading of plug-ins.

A plug-in is an entry point in the group ``placement.tree_drivers``: a callable that takes an
oslo.config object and returns a ``placement.client.tracker.Driver``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from stevedore import driver as stevedore_driver
from stevedore import exception as stevedore_exception
from stevedore import extension

from placement.client.tracker import Driver

NAMESPACE = "placement.tree_drivers"

GROUP = "tree_driver"
OPTIONS = [
    cfg.StrOpt(
        "tree_file",
        help="Provider tree file that describes the nodes of the driver `file`.",
    ),
    cfg.StrOpt(
        "layout_file",
        help="YAML file with the nodes of the drivers `vgpu` (their GPUs) and `numa` (their"
        " cells).",
    ),
]


class DriverNotLoaded(Exception):
    """The driver does not exist or cannot be made; the text says why."""


def register_options(conf: cfg.ConfigOpts) -> None:
    """Register the options of the drivers that ship with the client; a second call is harmless."""
    conf.register_opts(OPTIONS, group=GROUP)


def required_option(conf: cfg.ConfigOpts, name: str) -> str:
    """Return the value of an option; DriverNotLoaded if it is not set."""
    register_options(conf)
    value = conf[GROUP][name]
    if not value:
        raise DriverNotLoaded(f"set [{GROUP}]/{name} in the configuration")
    return str(value)


def list_available() -> list[str]:
    """List the names of the installed drivers."""
    return sorted(extension.ExtensionManager(NAMESPACE).names())


def load(name: str, conf: Any) -> Driver:
    """Make the driver ``NAME`` (a plug-in) or ``MODULE:FACTORY``."""
    factory = _import_factory(name) if ":" in name else _load_plug_in(name)
    try:
        made = factory(conf)
    except DriverNotLoaded:
        raise
    except Exception as error:
        raise DriverNotLoaded(f"driver {name} cannot be made: {error!r}") from error
    if not all(hasattr(made, one) for one in ("get_available_nodes", "update_provider_tree")):
        raise DriverNotLoaded(f"{name} made {made!r}, which is not a driver")
    return made


def _import_factory(name: str) -> Callable[[Any], Driver]:
    module, _, attribute = name.partition(":")
    try:
        factory: Callable[[Any], Driver] = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise DriverNotLoaded(f"driver {name} cannot be imported: {error!r}") from error
    return factory


def _load_plug_in(name: str) -> Callable[[Any], Driver]:
    try:
        return stevedore_driver.DriverManager(NAMESPACE, name).driver
    except stevedore_exception.NoMatches as error:
        known = ", ".join(list_available()) or "none"
        raise DriverNotLoaded(f"no driver {name!r}; installed are: {known}") from error
    except Exception as error:
        raise DriverNotLoaded(f"driver {name} cannot be imported: {error!r}") from error
