"""Every option of the service (specification 06 section 4), and where values come from (section 3)."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg
from oslo_log import log
from oslo_policy import opts as policy_opts

from placement.conf.options import BY_GROUP

PROJECT = "placement"
CONFIG_FILE = "placement.conf"


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return (group, options) pairs for the sample generator; entry point ``placement.conf``."""
    return [(group, list(options)) for group, options in BY_GROUP.items()]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register every option of the service and its libraries, before ``conf`` parses a command line."""
    for group, options in list_opts():
        conf.register_opts(options, group=None if group == "DEFAULT" else group)
    log.register_options(conf)
    policy_opts.set_defaults(conf)


def named_files(config_files: list[str] | None = None) -> dict[str, Any]:
    """Return, for :func:`read`, these files and no others, or that of ``OS_PLACEMENT_CONFIG_DIR``.

    Nothing if neither names any: then oslo.config searches.
    """
    directory = os.environ.get("OS_PLACEMENT_CONFIG_DIR", "").strip()
    files = config_files or ([str(Path(directory) / CONFIG_FILE)] if directory else [])
    return {"default_config_files": files, "default_config_dirs": []} if files else {}


def load(conf: cfg.ConfigOpts, config_files: list[str] | None = None) -> None:
    """Read the configuration of the web application; the server's command line is never parsed.

    :param config_files: read these and nothing else instead of searching.
    :raises oslo_config.cfg.Error: one is missing, or ``[placement_database]/connection``.
    """
    read(conf, [], **named_files(config_files))


def require_read(conf: cfg.ConfigOpts) -> None:
    """Let ``conf``, if it was never called, read no command line and no files: what was set on it counts.

    Only then has it the options that name files, and can find policy files. Tests of other projects hand over
    such an object.

    :raises oslo_config.cfg.Error: ``[placement_database]/connection`` is missing.
    """
    if "config_file" not in conf:
        read(conf, [], default_config_files=[], default_config_dirs=[])


def read(conf: cfg.ConfigOpts, argv: Sequence[str], **more: Any) -> None:
    """Let ``conf`` parse a command line and its files.

    :raises oslo_config.cfg.Error: the library's, but that what stands behind a dollar sign is not repeated.
    """
    try:
        conf(argv, project=PROJECT, **more)
        return
    except (cfg.NoSuchOptError, cfg.TemplateSubstitutionError):
        pass
    raise cfg.Error(
        "A value refers with $ to an option that does not exist. Write a dollar sign, as in the password "
        "of [placement_database]/connection, as $$"
    )
