"""Every option of the service (specification 06 section 4), and the sources of values (section 3)."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg
from oslo_log import log
from oslo_policy import opts as policy_opts

from placement.conf import yaml_file
from placement.conf.options import BY_GROUP

PROJECT = "placement"
CONFIG_FILE = "placement.conf"


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return (group, options) pairs for the sample generator; the entry point ``placement.conf``."""
    return [(group, list(options)) for group, options in BY_GROUP.items()]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register every option of the service and its libraries, before ``conf`` parses a command line."""
    for group, options in list_opts():
        conf.register_opts(options, group=None if group == "DEFAULT" else group)
    log.register_options(conf)
    policy_opts.set_defaults(conf)


def named_files(config_files: list[str] | None = None) -> dict[str, Any]:
    """Return for :func:`read` the given files, otherwise the one in ``OS_PLACEMENT_CONFIG_DIR``.

    The result is empty if neither names a file; then oslo.config searches.
    """
    directory = os.environ.get("OS_PLACEMENT_CONFIG_DIR", "").strip()
    files = config_files or ([str(Path(directory) / CONFIG_FILE)] if directory else [])
    return {"default_config_files": files, "default_config_dirs": []} if files else {}


def load(conf: cfg.ConfigOpts, config_files: list[str] | None = None) -> None:
    """Read the configuration of the web application; the server's command line is never parsed.

    :param config_files: read only these files instead of searching.
    :raises oslo_config.cfg.Error: a file or ``[placement_database]/connection`` is missing.
    """
    read(conf, [], **named_files(config_files))


def require_read(conf: cfg.ConfigOpts) -> None:
    """Initialise a ``conf`` that was never called, without a command line and without files.

    The values set on it stay. The call registers the options that name files, which are needed to find policy
    files. Tests of other projects pass such an object.

    :raises oslo_config.cfg.Error: ``[placement_database]/connection`` is missing.
    """
    if "config_file" not in conf:
        read(conf, [], default_config_files=[], default_config_dirs=[])


def read(conf: cfg.ConfigOpts, argv: Sequence[str], **more: Any) -> None:
    """Let ``conf`` parse a command line and its files.

    :raises oslo_config.cfg.Error: the error of the library, without the text after a dollar sign, which can
        be secret.
    """
    try:
        conf(argv, project=PROJECT, **more)
        return
    except (cfg.NoSuchOptError, cfg.TemplateSubstitutionError):
        pass
    except UnicodeDecodeError:
        raise cfg.Error(_find_undecodable(argv, more.get("default_config_files"))) from None
    raise cfg.Error(
        "A value refers with $ to an option that does not exist. Write a dollar sign, as in the password "
        "of [placement_database]/connection, as $$"
    )


def _find_undecodable(argv: Sequence[str], files: Sequence[str] | None) -> str:
    """Return which line of a configuration file is not UTF-8: the library does not name the file."""
    given = [word.removeprefix("--config-file=") for word in argv]
    for path in [*given, *(files or cfg.find_config_files(project=PROJECT))]:
        try:
            Path(path).read_bytes().decode()
        except UnicodeDecodeError as error:
            return f"{yaml_file.explain_undecodable(path, error)}."
        except OSError:
            continue
    return "A configuration file is not UTF-8."
