"""One line instead of a traceback, for a failure that an operator can fix."""

import re
from collections.abc import Mapping

from oslo_config import cfg
from oslo_log.log import LogConfigError
from sqlalchemy import exc

from placement.db import address, driver_errors
from placement.db.migrations import MigrationBlocked
from placement.db.schema import SchemaError

INVALID = re.compile(
    r"Value for option (?P<name>\S+) from LocationInfo\(location=<.*?>, detail=(['\"])(?P<place>.*?)\2\)"
    r" is not valid: (?P<reason>.*)",
    re.DOTALL,
)
"""How oslo.config says it."""

REFUSALS: Mapping[driver_errors.Refusal, str] = {
    "no_database": (
        "The database {where} does not exist on its server ({reason}). Create it, or correct its name in"
        " [placement_database]/connection."
    ),
    "no_login": (
        "The database {where} does not let this user in ({reason}). Check user, password and name of the"
        " database in [placement_database]/connection, and from which hosts the server lets the user log in."
    ),
    "no_file": (
        "The file of the database {where} cannot be opened ({reason}). Check its path in"
        " [placement_database]/connection, and that this user may write it and its directory."
    ),
    "other_file": (
        "The file of the database {where} is not a database of SQLite ({reason}). Check its path in"
        " [placement_database]/connection."
    ),
}


class NotConfigured(Exception):
    """The service cannot answer requests, or not as intended, with this configuration.

    :param faults: a sentence for each.
    """

    def __init__(self, *faults: str) -> None:
        super().__init__(*faults)

    def __str__(self) -> str:
        return " ".join(self.args)


def explain(error: BaseException, conf: cfg.ConfigOpts) -> str | None:
    """Return what is wrong and what to do about it; None for an error that needs its traceback."""
    if isinstance(error, (SchemaError, MigrationBlocked, NotConfigured, LogConfigError)):
        return str(error)
    if isinstance(error, cfg.Error):
        return _configuration(error, conf)
    if isinstance(error, exc.ArgumentError):
        return (
            "[placement_database]/connection is not the URL of a database that this service supports "
            f"({_first_line(error)}). Write it as in postgresql://user:password@host/placement."
        )
    if isinstance(error, ModuleNotFoundError):
        return (
            f"The driver of [placement_database]/connection is not installed: {error}. Install the "
            "service with the extra postgresql, mysql or mysqlclient."
        )
    if isinstance(error, OSError) and error.filename:
        return (
            f"{error.filename} cannot be opened: {error.strerror}. Check that its directory exists, "
            "and that this user may read or write it."
        )
    error = driver_errors.cause(error)
    return _database(error, conf) if isinstance(error, exc.DBAPIError) else None


def invalid(error: cfg.Error, group: str | None = None) -> str:
    """Return which option has a value that it cannot have, where it is given, and why not."""
    found = INVALID.fullmatch(str(error))
    if found is None:
        return " ".join(str(error).split())
    option = f"[{group}]/{found['name']}" if group else found["name"]
    return f"{found['place']}: the value of {option} is not valid: {' '.join(found['reason'].split())}."


def _configuration(error: cfg.Error, conf: cfg.ConfigOpts) -> str:
    if not isinstance(error, cfg.RequiredOptError):
        return invalid(error)
    # It imports what most errors do not need, and other commands neither.
    from placement.conf.unknown import given_elsewhere

    group = error.group.name if isinstance(error.group, cfg.OptGroup) else "DEFAULT"
    return (
        f"{given_elsewhere(conf, group, error.opt_name)}{error}. Set it in the configuration file "
        f"(--config-file), or in the environment as OS_{group.upper()}__{error.opt_name.upper()}."
    )


def _database(error: exc.DBAPIError, conf: cfg.ConfigOpts) -> str:
    where = address.shown(address.parse(conf.placement_database.connection))
    reason = _first_line(error.orig or error)
    if driver_errors.is_read_only(error):
        return (
            f"The database {where} takes no writes ({reason}). Look for a file or directory that "
            "this user may not write, a read-only server or replica, or a full disk. The schema is "
            "at the last revision that was completed."
        )
    if refusal := driver_errors.refusal(error):
        return REFUSALS[refusal].format(where=where, reason=reason)
    if driver_errors.lacks_rights(error):
        return (
            f"The database {where} refused a statement ({reason}). Grant SELECT, INSERT, UPDATE and "
            "DELETE on all its tables to this user; db sync must also be allowed to make them."
        )
    if driver_errors.is_disconnect(error):
        return (
            f"The database {where} cannot be reached ({reason}). Check that the server runs and "
            "that host and port in [placement_database]/connection are right."
        )
    return f"The database {where} answered with an error: {reason}."


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__
