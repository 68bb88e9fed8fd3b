"""placement-manage config check: it finds the faults of a start (specification 06 section 6.1)."""

import argparse
import configparser
import enum
import logging
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from oslo_config import cfg

from placement import advice, db_api
from placement.advice import NotConfigured
from placement.db import driver_errors, schema, standard_names
from placement.db.coexistence import state
from placement.db.database import Database
from placement.version import second_owner

T = TypeVar("T")

CLEAN, FOUND = 0, 1


class Severity(enum.IntEnum):
    """The effect of a finding on a start."""

    REMARK = enum.auto()
    """A remark: nothing is wrong, so the exit code is never 1 for it."""
    NOTE = enum.auto()
    """The service starts and says the same in its log."""
    TRANSIENT = enum.auto()
    """A failure that can pass by itself: a start waits, but a reload would replace a working service."""
    FATAL = enum.auto()
    """The service would not start, or would answer every request with an error."""


COUNTED = {None: Severity.NOTE, "reload": Severity.TRANSIENT, "start": Severity.FATAL}
"""The lowest severity for which the exit code is 1, by ``--before``."""

ConfigFinding = tuple[Severity, str]


def add_parser(subparsers: Any, run: Callable[[], int]) -> argparse.ArgumentParser:
    """Add ``config check`` to the commands of ``placement-manage``; returns the parser of ``config``."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "config", help="Check the configuration without starting the service"
    )
    actions = parser.add_subparsers(title="actions", metavar="{check}")
    check = actions.add_parser(
        "check",
        help="Print a line for each fault; exit code 1 if there are any.",
        description="Read the configuration as the service does (OS_PLACEMENT_CONFIG_DIR too), and"
        " print a line for each fault in options, log file, policy files, database with its revision"
        " and rights, identity service. Nothing is changed. Exit code 1 if there are faults.",
    )
    check.add_argument(
        "--before",
        choices=("start", "reload"),
        help="print all findings, but fail only for those that forbid a start, or a reload",
    )
    check.set_defaults(action=run, opens_database=False)
    return parser


def run(conf: cfg.ConfigOpts, before: str | None) -> int:
    """Print the findings about a configuration that has been read, and return the exit code."""
    # The imports here and below are slow, and other commands do not need them.
    from placement.client.connection import without_password
    from placement.conf import unknown

    for library in ("keystonemiddleware", "keystoneauth"):
        # The findings report the same on one line.
        logging.getLogger(library).setLevel(logging.CRITICAL)
    print(
        f"Checking {', '.join(unknown.list_files(conf)) or 'the environment alone'}",
        file=sys.stderr,
    )
    counted = found = False
    for severity, text in find_faults(conf):
        found = True
        fails = severity >= COUNTED[before]
        counted |= fails
        words = without_password(" ".join(text.split()))
        print(f"{'error' if fails else 'warning'}: {words}", flush=True)
    if not found:
        print("No fault was found.", file=sys.stderr)
    return FOUND if counted else CLEAN


def find_faults(conf: cfg.ConfigOpts) -> Iterator[ConfigFinding]:
    """Yield the findings; checks that an earlier finding makes impossible are left out."""
    # The imports of the whole service take almost half of the start of placement-manage.
    from placement.conf import unknown

    is_enabled = _has_insight(conf)
    metrics = conf.insight.metrics_directory if is_enabled else None
    # The user of the service could not write to log files that this user creates.
    conf.set_override("metrics_directory", None, group="insight")
    database, failures = _try_start(conf, is_enabled)
    # The options of all libraries are known only here. Misspelt options come first, the others follow.
    yield from ((Severity.FATAL, text) for text in unknown.find_misspelt_sections(conf))
    yield from ((Severity.NOTE, text) for text in unknown.find_unknown_options(conf))
    malformed = list(_check_values(conf))
    yield from malformed
    if two := second_owner():
        yield Severity.NOTE, two
    if malformed:
        # A step's error about an option is left out: the check of options above has reported it.
        failures = [each for each in failures if not isinstance(each, cfg.Error)]
    told = (
        text
        for each in failures
        for text in (each.args if isinstance(each, NotConfigured) else [_explain(each, conf)])
    )
    yield from ((Severity.FATAL, text) for text in told)
    for check in (
        partial(_check_log_files, conf),
        partial(_check_metrics_directory, metrics),
        partial(_check_policies, conf),
        partial(_check_database, conf, database),
        partial(_check_identity, conf),
    ):
        try:
            yield from check()
        except cfg.Error:
            # The check needs an option that is malformed.
            if not malformed:
                raise


def _has_insight(conf: cfg.ConfigOpts) -> bool:
    """Return whether ``/-/`` is served; a malformed value counts as no."""
    try:
        return bool(conf.insight.enabled)
    except cfg.Error:
        return False


def _try_start(conf: cfg.ConfigOpts, is_enabled: bool) -> tuple[Database | None, list[Exception]]:
    """Try each step of a start separately, so that one fault does not hide the next.

    :param is_enabled: whether ``/-/`` is served.
    :returns: the database, if it could be opened, and the errors of the failed steps.
    """
    from placement import deploy as application
    from placement.extension import find_extensions
    from placement.objects.picture import Picture
    from placement.web import auth, authorization

    failures: list[Exception] = []

    def attempt(step: Callable[[], T]) -> T | None:
        try:
            return step()
        except Exception as error:
            failures.append(error)
            return None

    # The faults of a policy are findings of their own.
    authorization.LOG.disabled = True
    try:
        attempt(lambda: auth.require_way_to_log_in(conf))
        # The check of values reports a missing URL.
        given = conf.placement_database.connection
        database = attempt(lambda: db_api.open_database(conf)) if given else None
        attempt(lambda: authorization.Authorizer(conf))
        if is_enabled:
            for extension in find_extensions().values():
                attempt(partial(extension.check_options, conf))
        if database is not None and not failures:
            # This call makes the client of the identity service.
            opened = database
            attempt(lambda: application.pipeline(conf, opened, Picture(opened)))
    finally:
        authorization.LOG.disabled = False
    return database, failures


def _check_values(conf: cfg.ConfigOpts) -> Iterator[ConfigFinding]:
    for group in (None, *sorted(name for name in conf if _is_group(conf, name))):
        for name in sorted(conf if group is None else conf[group]):
            try:
                value = conf[name] if group is None else conf[group][name]
            except cfg.Error as error:
                yield Severity.FATAL, _explain_bad_value(conf, group or "DEFAULT", name, error)
            else:
                if not value and (group, name) == ("placement_database", "connection"):
                    missing = cfg.RequiredOptError(name, cfg.OptGroup("placement_database"))
                    yield Severity.FATAL, _explain(missing, conf)


def _explain_bad_value(conf: cfg.ConfigOpts, group: str, name: str, error: cfg.Error) -> str:
    from placement.conf import unknown

    bad = advice.of_value(error)
    if bad is None:
        return _explain(error, conf)
    return f"{unknown.find_place(conf, group, name) or bad.place}: [{group}]/{name}: {bad.why}"


def _is_group(conf: cfg.ConfigOpts, name: str) -> bool:
    try:
        return isinstance(conf[name], cfg.ConfigOpts.GroupAttr)
    except cfg.Error:
        return False


def _check_log_files(conf: cfg.ConfigOpts) -> Iterator[ConfigFinding]:
    if conf.log_config_append:
        yield from ((Severity.FATAL, text) for text in _check_log_config(conf.log_config_append))
        return
    folder = Path(conf.log_dir) if conf.log_dir else None
    if conf.log_file:
        path = (folder or Path()) / conf.log_file
        written = path if path.exists() else path.parent
    elif folder:
        written = folder
    else:
        return
    if not os.access(written, os.W_OK):
        why = "may not be written by this user" if written.exists() else "does not exist"
        yield Severity.FATAL, f"{written} of [DEFAULT]/log_file or log_dir {why}."


def _check_log_config(path: str) -> Iterator[str]:
    place = f"{path} of [DEFAULT]/log_config_append"
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(Path(path).read_text(), path)
    except OSError as error:
        yield f"{place} cannot be read: {error.strerror}."
    except (configparser.Error, ValueError) as error:
        yield f"{place} is not a configuration of Python's logging: {error}"
    else:
        for section in ("formatters", "handlers", "loggers"):
            if not parser.has_option(section, "keys"):
                yield f"{place} has no [{section}] with keys; it is a configuration of Python's logging."


def _check_metrics_directory(directory: str | None) -> Iterator[ConfigFinding]:
    if directory is None:
        return
    path = Path(directory)
    nearest = next(place for place in (path, *path.parents) if place.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK)):
        why = "may not be written by this user" if nearest.is_dir() else "is not a directory"
        yield Severity.FATAL, f"{nearest} of [insight]/metrics_directory {why}."


def _check_policies(conf: cfg.ConfigOpts) -> Iterator[ConfigFinding]:
    from placement.policies import files

    place = conf.get_location("policy_file", "oslo_policy")
    given = place and place.location not in (cfg.Locations.opt_default, cfg.Locations.set_default)
    name = conf.oslo_policy.policy_file
    if given and conf.find_file(name) is None:
        yield (
            Severity.NOTE,
            f"The policy file {name} of [oslo_policy]/policy_file does not exist: the default rules "
            "hold. Write it, or take the option out.",
        )
    # The failure above already reports the faults that forbid a start.
    told = [fault.text for fault in files.find_faults(conf) if not fault.forbids_start]
    yield from ((Severity.NOTE, text) for text in told)


def _check_database(conf: cfg.ConfigOpts, database: Database | None) -> Iterator[ConfigFinding]:
    if database is None:
        return
    if file := _find_absent_file(database):
        # A connection would create the SQLite file.
        yield from ((Severity.FATAL, text) for text in _explain_absent_file(conf, file))
        return
    try:
        db_api.connect_once(conf, database)
    except Exception as error:
        yield _judge(error), _explain(error, conf)
        return
    try:
        current = schema.current(database)
        is_upgraded = conf.placement_database.sync_on_startup
        (schema.require_upgradable if is_upgraded else schema.require_usable)(database)
        if schema.is_usable(current):
            schema.require_rights(database)
            if remark := database.read(state.describe):
                yield Severity.REMARK, remark
        if current is not None:
            standard_names.require_free_ids(database)
        notes = db_api.character_set_notes(conf, database)
        yield from ((Severity.NOTE, text) for text in notes)
    except Exception as error:
        # A standby can only answer reads.
        is_standby = driver_errors.is_read_only(driver_errors.cause(error))
        yield Severity.NOTE if is_standby else _judge(error), _explain(error, conf)
    finally:
        database.dispose()


def _find_absent_file(database: Database) -> Path | None:
    url = database.engine.url
    name = url.database or ":memory:"
    if url.get_backend_name() != "sqlite" or name.startswith((":memory:", "file:")):
        return None
    return None if Path(name).exists() else Path(name).absolute()


def _explain_absent_file(conf: cfg.ConfigOpts, file: Path) -> Iterator[str]:
    if not file.parent.is_dir():
        yield (
            f"The directory of the database {file} does not exist. Make it, or correct the path in "
            "[placement_database]/connection."
        )
    elif not conf.placement_database.sync_on_startup:
        yield f'The database {file} does not exist. Run the "placement-manage db sync" command.'
    elif not os.access(file.parent, os.W_OK):
        yield f"{file.parent}, the directory of the database, may not be written by this user."


def _judge(error: Exception) -> Severity:
    return Severity.TRANSIENT if db_api.may_become_reachable(error) else Severity.FATAL


def _check_identity(conf: cfg.ConfigOpts) -> Iterator[ConfigFinding]:
    """Log in at the identity service, as the service does at the first request with a token."""
    if conf.api.auth_strategy != "keystone":
        return
    from keystoneauth1 import exceptions as identity_errors
    from keystoneauth1 import loading

    from placement.web import auth

    options = conf.keystone_authtoken
    group = options.auth_section or "keystone_authtoken"
    try:
        auth.require_way_to_log_in(conf)
        plugin = loading.load_auth_from_conf_options(conf, group)
    except Exception:
        # This fault is reported above.
        return
    session = loading.session.Session().load_from_options(
        cacert=options.cafile,
        cert=options.certfile,
        key=options.keyfile,
        insecure=options.insecure,
        timeout=options.http_connect_timeout or 10,
    )
    try:
        session.get_token(plugin)
        place = {"interface": options.interface, "region_name": options.region_name}
        if not session.get_endpoint(plugin, service_type="identity", **place):
            yield (
                Severity.TRANSIENT,
                f"The catalogue of the identity service has no endpoint of itself with interface "
                f"{options.interface} and region {options.region_name or 'any'}. Correct [{group}]/"
                "interface and region_name, or make the endpoint.",
            )
    except (
        identity_errors.ConnectFailure,
        identity_errors.ConnectTimeout,
        identity_errors.UnknownConnectionError,
        identity_errors.DiscoveryFailure,
        identity_errors.HttpServerError,
        identity_errors.TooManyRequests,
    ) as error:
        yield (
            Severity.NOTE,
            f"The identity service of [{group}]/auth_url cannot be reached ({error}). Every request "
            "with a token is answered with 503 until it can.",
        )
    except (identity_errors.NotFound, identity_errors.InvalidResponse) as error:
        yield (
            Severity.TRANSIENT,
            f"What answers at [{group}]/auth_url is no identity service ({error}). Correct the URL.",
        )
    except identity_errors.ClientException as error:
        yield (
            Severity.TRANSIENT,
            f"The identity service does not let the service log in ({error}). Correct the user, "
            f"password, project and domains of [{group}].",
        )


def _explain(error: Exception, conf: cfg.ConfigOpts) -> str:
    return advice.explain(error, conf) or f"{type(error).__name__}: {error}"
