"""Help for operators: one line instead of a traceback, for a failure that they can fix."""

import difflib
import re
from pathlib import Path
from typing import NamedTuple

from oslo_config import cfg
from oslo_log.log import LogConfigError
from sqlalchemy import exc
from sqlalchemy.engine import URL

from placement import errors
from placement.db import address, driver_errors, refusals
from placement.db.migrations import MigrationBlocked
from placement.db.schema import SchemaError

_CONNECTION = refusals.OPTION
_FORM = "Write it as in postgresql://user:password@host/placement, mysql+pymysql://... or sqlite:////path."
_DRIVERS = ("psycopg2", "pymysql", "MySQLdb")
_FILES = ("ssl_ca", "ssl_cert", "ssl_key")
"""Parameters of the URL that name files; MySQL's drivers open these without naming a missing one."""

_NOT_VALID = re.compile(
    r"^Value for option (?P<option>\S+)(?: from LocationInfo\(.*detail='(?P<place>.*?)'\))?"
    r" is not valid: (?P<why>.*?)\.?$"
)
_NOT_A_LINE = re.compile(r": at (.+?:\d+), (.+?): ['\"N]")
_LINES = {
    "Section must be started before assignment": "an option stands before the first [section]",
    "Invalid section (must end with ])": "the name of a section ends with ]",
    "Empty section name": "a section has no name",
    "No ':' or '=' found in assignment": "this line is neither option = value nor a [section]",
    "Unexpected continuation line": "a line that begins with a blank continues none",
    "Key cannot be empty": "nothing stands before the =",
}
_VALUES = (
    (re.compile(r"invalid literal for int\(\) with base 10: (.*)"), r"\1 is not a whole number"),
    (re.compile(r"could not convert string to float: (.*)"), r"\1 is not a number"),
    (re.compile(r"Unexpected boolean value (.*)"), r"\1 is neither true nor false"),
)
"""The interpreter's words about values, and our words for operators."""


class NotConfigured(Exception):
    """The service cannot answer requests, or not as intended, with this configuration.

    :param faults: a sentence for each.
    """

    def __init__(self, *faults: str) -> None:
        super().__init__(*faults)

    def __str__(self) -> str:
        return " ".join(self.args)


_TOLD_ALREADY = (
    *(SchemaError, MigrationBlocked, NotConfigured, LogConfigError),
    *(errors.NumberAtBound, errors.SequenceBehind),
)
"""Errors whose own text says what to do."""


def explain(error: BaseException, conf: cfg.ConfigOpts) -> str | None:
    """Return one line on what is wrong and how to fix it; None for an error that needs its traceback."""
    if isinstance(error, _TOLD_ALREADY):
        return str(error)
    if isinstance(error, cfg.RequiredOptError):
        return _explain_missing(error, conf)
    if isinstance(error, cfg.Error):
        return _explain_configuration(error)
    if isinstance(error, exc.ArgumentError):
        why = str(error).rstrip(".")
        if isinstance(error, exc.NoSuchModuleError):
            name = why.rpartition(":")[2]
            why = f"it begins with {name}, which is not a kind of database or a driver of one"
        return f"{_CONNECTION} is not the URL of a database: {why}. {_FORM}"
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("placement"):
        return _explain_driver(error)
    if isinstance(error, OSError) and error.filename:
        return (
            f"{error.filename} cannot be opened: {error.strerror}. Check that its directory exists, "
            "and that this user may read or write it."
        )
    if isinstance(error, (TypeError, OSError, exc.ProgrammingError)):
        return _explain_parameter(error, conf)
    error = driver_errors.cause(error)
    return refusals.describe(error, _url(conf)) if isinstance(error, exc.DBAPIError) else None


class BadValue(NamedTuple):
    """A value that an option does not accept.

    :param place: the file, variable or argument that has it; empty if the library does not name it.
    :param why: the reason, a sentence with its full stop.
    """

    place: str
    option: str
    why: str


def of_value(error: cfg.Error) -> BadValue | None:
    """Return what the library says about a refused value; None if the error is about something else."""
    found = _NOT_VALID.match(" ".join(str(error).split()))
    if found is None:
        return None
    why = found["why"]
    for pattern, words in _VALUES:
        why = pattern.sub(words, why)
    return BadValue(found["place"] or "", found["option"], f"{why}.")


def _explain_configuration(error: cfg.Error) -> str:
    if isinstance(error, cfg.ConfigFileParseError) and (found := _NOT_A_LINE.search(str(error))):
        # The line that the parser quotes may contain a password.
        place, why = found.groups()
        return f"{place}: {_LINES.get(why, why)}."
    if bad := of_value(error):
        return ": ".join(filter(None, bad))
    return " ".join(str(error).split())


def _explain_missing(error: cfg.RequiredOptError, conf: cfg.ConfigOpts) -> str:
    # This import is slow, and most errors and other commands do not need it.
    from placement.conf import unknown

    group = error.group.name if isinstance(error.group, cfg.OptGroup) else "DEFAULT"
    hint = unknown.find_misplaced(conf, group, error.opt_name) or (
        "Set it in the configuration file (--config-file), or in the environment as "
        f"OS_{group.upper()}__{error.opt_name.upper()}."
    )
    return f"[{group}]/{error.opt_name} is not set. {hint}"


def _explain_driver(error: ModuleNotFoundError) -> str:
    if error.name in _DRIVERS:
        remedy = "Install the service with the extra postgresql, mysql or mysqlclient"
    else:
        remedy = "The service supports SQLite, psycopg2 for PostgreSQL, PyMySQL and mysqlclient for MariaDB"
    return f"The driver of {_CONNECTION}, {error.name}, is not installed. {remedy}."


def _url(conf: cfg.ConfigOpts) -> URL:
    return address.parse(conf.placement_database.connection)


def _explain_parameter(error: BaseException, conf: cfg.ConfigOpts) -> str | None:
    """Return what is wrong with a parameter of the URL, if that is why the driver raised the error."""
    if not conf.placement_database.connection:
        return None
    url = _url(conf)
    for name in _FILES:
        if (path := url.query.get(name)) and not Path(str(path)).is_file():
            return f"{path}, which {_CONNECTION} names as {name}, cannot be read."
    named = re.findall(r"[\"'](\w+)[\"']", str(error))
    if unknowns := [name for name in url.query if name in named]:
        near = difflib.get_close_matches(unknowns[0], address.HARMLESS, 1)
        hint = f"; did you mean {near[0]}?" if near else "."
        return f"{_CONNECTION} has the parameter {unknowns[0]}, which its driver does not know{hint}"
    return refusals.describe(error, url) if isinstance(error, exc.DBAPIError) else None
