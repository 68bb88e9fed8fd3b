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


def default_config_files(prog: str | None = None) -> list[str]:
    """Return the files the web application reads, most important last.

    If ``OS_PLACEMENT_CONFIG_DIR`` is set, the file there alone, whether or not it exists.
    """
    directory = os.environ.get("OS_PLACEMENT_CONFIG_DIR", "").strip()
    if directory:
        return [str(Path(directory) / CONFIG_FILE)]
    return cfg.find_config_files(project=PROJECT, prog=prog)


def load(conf: cfg.ConfigOpts, config_files: list[str] | None = None) -> None:
    """Read the configuration of the web application; the server's command line is never parsed.

    :param config_files: read these and nothing else instead of searching.
    :raises oslo_config.cfg.Error: one is missing, or ``[placement_database]/connection``.
    """
    directories: list[str] | None = None
    if config_files or os.environ.get("OS_PLACEMENT_CONFIG_DIR", "").strip():
        directories = []
    read(
        conf,
        [],
        default_config_files=config_files or default_config_files(),
        default_config_dirs=directories,
    )


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
