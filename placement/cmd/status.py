"""The command ``placement-status`` (specification 06 section 8)."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from oslo_config import cfg
from oslo_upgradecheck import common_checks, upgradecheck
from oslo_upgradecheck.upgradecheck import Code, Result
from sqlalchemy import exists, func, select

from placement import conf as configuration
from placement.cmd.database_command import DatabaseCommand
from placement.db import invariants, models, schema
from placement.db.coexistence import state
from placement.db.consumer_rows import UUIDS_WITHOUT_RECORD
from placement.db.database import Database
from placement.version import VERSION

MIGRATE = 'Run the "placement-manage db online_data_migrations" command.'

NOT_CHECKED = 255
"""The exit code of the library for checks that could not be made."""

_ROOTLESS = select(exists().where(models.resource_providers.c.root_provider_id.is_(None)))
_INCOMPLETE = select(func.count()).select_from(UUIDS_WITHOUT_RECORD.subquery())


class UpgradeCheck(NamedTuple):
    """A row of the table.

    :param fields: a function that reads the values of ``text`` on any schema since b4ed3a175331; it returns
        None if all is well.
    """

    title: str
    fields: Callable[[Database], dict[str, Any] | None]
    text: str
    code: Code = Code.WARNING

    def result(self, database: Database) -> Result:
        """Make the check."""
        found = self.fields(database)
        return Result(self.code, self.text.format(**found)) if found else Result(Code.SUCCESS)


def _find_number(database: Database, statement: Any) -> dict[str, Any] | None:
    number = database.read(lambda reader: reader.value(statement))
    return {"number": number} if number else None


def _find_violations(database: Database, *checked: invariants.Invariant) -> dict[str, Any] | None:
    number = database.snapshot(
        lambda tx: sum(invariants.examine(tx, each).count for each in checked)
    )
    return {"number": number} if number else None


def _find_wrong_counters(database: Database) -> dict[str, Any] | None:
    if not _is_usable(database):
        return None
    return _find_violations(database, invariants.COUNTERS, invariants.OWNER_USAGES)


def _find_foreign_writes(database: Database) -> dict[str, Any] | None:
    found = database.read(state.read_foreign_writes) if _is_usable(database) else None
    if found is None or not found.writes:
        return None
    since = f" since {found.since}" if found.since else ""
    return {"since": since, "writes": found.writes, "providers": found.providers}


def _find_sharing(database: Database) -> dict[str, Any] | None:
    words = database.read(state.describe) if _is_usable(database) else None
    return {"words": words} if words else None


def _find_refusal_of_sync(database: Database) -> dict[str, Any] | None:
    try:
        schema.require_upgradable(database)
    except schema.SchemaError as error:
        return {"words": error}
    return None


def _find_waiting_revisions(database: Database) -> dict[str, Any] | None:
    current = schema.current(database)
    if current not in schema.REVISIONS[:-1] or _find_refusal_of_sync(database):
        return None
    number = len(schema.REVISIONS) - 1 - schema.REVISIONS.index(current)
    return {
        "current": current,
        "waiting": "One revision waits" if number == 1 else f"{number} revisions wait",
        "head": schema.HEAD,
    }


def _is_usable(database: Database) -> bool:
    return schema.is_usable(schema.current(database))


ALWAYS_SHOWN = (
    UpgradeCheck(
        "Missing Root Provider IDs",
        partial(_find_number, statement=_ROOTLESS),
        "There is at least one resource provider table record which misses its root provider "
        f"id. {MIGRATE}",
        Code.FAILURE,
    ),
    UpgradeCheck(
        "Incomplete Consumers",
        partial(_find_number, statement=_INCOMPLETE),
        "There are {number} incomplete consumers table records for existing allocations. "
        f"{MIGRATE}",
    ),
)
"""Scripts know these rows, and the row of the policy file. The other rows appear only with a finding."""

WRONG_COUNTERS = UpgradeCheck(
    "Usage Counters",
    _find_wrong_counters,
    "There are {number} usage counters that differ from the allocations. "
    'Run the "placement-manage db check --repair" command.',
)
SHOWN_IF_FOUND = (
    UpgradeCheck(
        "Schema Upgrade",
        _find_refusal_of_sync,
        '"placement-manage db sync" would change nothing. {words}',
        Code.FAILURE,
    ),
    UpgradeCheck(
        "Schema Revision",
        _find_waiting_revisions,
        "{waiting} for this database, from {current} to {head}. Run the "
        '"placement-manage db sync" command before the workers are replaced. They can continue to serve.',
        # A revision that waits is normal before every upgrade that brings one.
        Code.SUCCESS,
    ),
    WRONG_COUNTERS,
    UpgradeCheck(
        "Missing Resource Classes",
        lambda database: _find_violations(database, invariants.CLASSES),
        "There are {number} inventories without a resource class. After "
        '"placement-manage db sync", run the "placement-manage db check --repair" command.',
    ),
    UpgradeCheck(
        "Shared Database",
        _find_sharing,
        "{words}. When it is stopped everywhere, the "
        '"placement-manage db sync --finish" command ends it; or wait until '
        "[placement_database]/finish_after has passed.",
        # A coexistence is intended, so no tool should stop because of it.
        Code.SUCCESS,
    ),
    UpgradeCheck(
        "Other Writers",
        _find_foreign_writes,
        "Another service has written to this database{since}: {writes} writes to "
        "{providers} resource providers. Once it is stopped everywhere, run the "
        '"placement-manage db sync --finish" command.',
    ),
)


class _StatusCommand(DatabaseCommand, upgradecheck.UpgradeCommands):
    program = "placement-status"
    description = "Check whether the database is ready for the upgrade."
    _is_checking = False

    def add_parsers(self, subparsers: Any) -> None:
        upgrade = subparsers.add_parser("upgrade", help="Questions about an upgrade")
        upgrade.set_defaults(action_fn=self.check)
        upgrade.add_argument(
            "check", choices=("check",), help="Check whether the database is ready for the upgrade."
        )
        upgrade.add_argument("--json", action="store_true", help="Print JSON instead of a table.")

    def act(self, argv: list[str], prog: str | None) -> int:
        configuration.read(self.conf, argv, prog=prog, version=VERSION)
        schema.require_examinable(self.database)
        upgradecheck.CONF = self.conf
        return int(self.conf.command.action_fn())

    def exit_code(self, error: Exception) -> int:
        return NOT_CHECKED if self._is_checking or isinstance(error, schema.SchemaError) else 1

    def check(self) -> Code:
        """Run the checks and print their table."""
        self._is_checking = True
        policy = common_checks.check_policy_json(self, self.conf)
        rows = [(check.title, check.result(self.database)) for check in ALWAYS_SHOWN]
        rows.append(("Policy File JSON to YAML Migration", policy))
        more = ((check.title, check.result(self.database)) for check in SHOWN_IF_FOUND)
        rows += [(title, result) for title, result in more if result.details]
        self._upgrade_checks = tuple(
            (title, lambda _, result=result: result) for title, result in rows
        )
        return super().check()


def main() -> int:
    """Run the command line of this process and return its exit code."""
    return run(sys.argv[1:])


def run(argv: list[str], prog: str | None = None) -> int:
    """Run one command line and return the exit code."""
    return _StatusCommand(cfg.ConfigOpts()).run(argv, prog)


if __name__ == "__main__":
    sys.exit(main())
