"""The command ``placement-status`` (specification 06 section 8)."""

import sys
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_upgradecheck import common_checks, upgradecheck
from sqlalchemy import exists, func, inspect, select

from placement import advice, db_api
from placement import conf as configuration
from placement.cmd import completion
from placement.db import coexistence_rows, invariants, models, schema
from placement.db.consumer_rows import UUIDS_WITHOUT_RECORD
from placement.db.database import Database

MIGRATE = 'Run the "placement-manage db online_data_migrations" command.'

NOT_CHECKED = 255
"""The exit code of the library for checks that could not be made."""

_providers = models.resource_providers

_EXAMINED = {"resource_providers", "resource_classes", "inventories", "allocations", "consumers"}


class Checks(upgradecheck.UpgradeCommands):
    """The checks, on any schema from b4ed3a175331 on."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._opened: Database | None = None

    @property
    def database(self) -> Database:
        """The configured database, connected when it is first needed."""
        if self._opened is None:
            self._opened = db_api.open_database(self._conf, patient=True)
            db_api.wait_until_reachable(self._conf, self._opened)
        return self._opened

    def close(self) -> None:
        """Take leave of the database, which would note an aborted connection otherwise."""
        if self._opened is not None:
            self._opened.dispose()

    def check(self) -> upgradecheck.Code:
        """Run the checks and print their table.

        Scripts know the first three. The rows of the others appear only when they have something to
        say.
        """
        self._upgrade_checks = _CHECKS
        if self._wrong_counters():
            self._upgrade_checks = (*_CHECKS, ("Usage Counters", Checks.usage_counters))
        if self._classless():
            self._upgrade_checks += (("Missing Resource Classes", Checks.missing_classes),)
        if self._foreign().writes:
            self._upgrade_checks += (("Other Writers", Checks.other_writers),)
        return super().check()

    def require_tables(self) -> None:
        """Check that there is what the checks look at, which is older than most revisions.

        :raises SchemaError: there is not.
        """
        with self.database.engine.connect() as connection:
            missing = _EXAMINED - set(inspect(connection).get_table_names())
        if missing:
            raise schema.SchemaError(
                "The database has no schema of the placement service to check. Run the "
                '"placement-manage db sync" command first.'
            )

    def missing_root_provider_ids(self) -> upgradecheck.Result:
        """Fail while a provider has no root."""
        rootless = select(exists().where(_providers.c.root_provider_id.is_(None)))
        if not self.database.read(lambda connection: connection.scalar(rootless)):
            return upgradecheck.Result(upgradecheck.Code.SUCCESS)
        return upgradecheck.Result(
            upgradecheck.Code.FAILURE,
            "There is at least one resource provider table record which misses its root provider "
            f"id. {MIGRATE}",
        )

    def incomplete_consumers(self) -> upgradecheck.Result:
        """Warn while allocations have no consumer."""
        counted = select(func.count()).select_from(UUIDS_WITHOUT_RECORD.subquery())
        number = self.database.read(lambda connection: connection.scalar(counted))
        if not number:
            return upgradecheck.Result(upgradecheck.Code.SUCCESS)
        return upgradecheck.Result(
            upgradecheck.Code.WARNING,
            f"There are {number} incomplete consumers table records for existing allocations. "
            f"{MIGRATE}",
        )

    def usage_counters(self) -> upgradecheck.Result:
        """Warn when a counter is not the sum of its allocations."""
        return upgradecheck.Result(
            upgradecheck.Code.WARNING,
            f"There are {self._wrong_counters()} usage counters that differ from the allocations. "
            'Run the "placement-manage db check --repair" command.',
        )

    def missing_classes(self) -> upgradecheck.Result:
        """Warn of inventories whose class was deleted while they were written."""
        return upgradecheck.Result(
            upgradecheck.Code.WARNING,
            f"There are {self._classless()} inventories without a resource class. After "
            '"placement-manage db sync", run the "placement-manage db check --repair" command.',
        )

    def other_writers(self) -> upgradecheck.Result:
        """Warn when another service has written to the database."""
        found = self._foreign()
        since = f" since {found.since}" if found.since else ""
        return upgradecheck.Result(
            upgradecheck.Code.WARNING,
            f"Another service has written to this database{since}: {found.writes} writes to "
            f"{found.providers} resource providers. Once it is stopped everywhere, run the "
            '"placement-manage db sync --finish" command.',
        )

    def _foreign(self) -> coexistence_rows.State:
        if not self._is_at_head():
            return coexistence_rows.State(None, 0, 0)
        return self.database.read(coexistence_rows.state)

    def _classless(self) -> int:
        """Count inventories without a class; what is looked at is on every schema."""
        return self.database.snapshot(lambda tx: invariants.examine(tx, invariants.CLASSES).count)

    def _wrong_counters(self) -> int:
        """Count counters and usages of owners that are wrong."""
        if not self._is_at_head():
            return 0
        derived = (invariants.COUNTERS, invariants.OWNER_USAGES)
        return self.database.snapshot(
            lambda tx: sum(invariants.examine(tx, each).count for each in derived)
        )

    def _is_at_head(self) -> bool:
        return schema.current(self.database) == schema.HEAD


_CHECKS = (
    ("Missing Root Provider IDs", Checks.missing_root_provider_ids),
    ("Incomplete Consumers", Checks.incomplete_consumers),
    (
        "Policy File JSON to YAML Migration",
        lambda checks: common_checks.check_policy_json(checks, checks._conf),
    ),
)


def main() -> int:
    """Run the command line of this process and return its exit code."""
    return run(sys.argv[1:])


def run(argv: list[str], prog: str | None = None) -> int:
    """Run one command line.

    :returns: the exit code. Usage errors leave through SystemExit with 2, as argparse does.
    """
    if shell := completion.asked(argv):
        return completion.show(shell)
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    checks = Checks(conf)
    conf.register_cli_opt(
        cfg.SubCommandOpt("command", title="commands", handler=_add_parsers(checks))
    )
    try:
        conf(argv, project=configuration.PROJECT, prog=prog)
        checks.require_tables()
        upgradecheck.CONF = conf
        return int(upgradecheck.run(conf))
    except Exception as error:
        message = advice.explain(error, conf)
        if message is None:
            raise
        print(f"{conf.prog or 'placement-status'}: {message}", file=sys.stderr)
        return NOT_CHECKED if isinstance(error, schema.SchemaError) else 1
    finally:
        checks.close()


def _add_parsers(checks: Checks) -> Callable[[Any], None]:
    def add(subparsers: Any) -> None:
        upgrade = subparsers.add_parser("upgrade", help="Questions about an upgrade")
        upgrade.set_defaults(action_fn=checks.check)
        upgrade.add_argument(
            "check", choices=("check",), help="Tell whether the database is ready for the upgrade."
        )
        upgrade.add_argument("--json", action="store_true", help="Print JSON instead of a table.")

    return add


if __name__ == "__main__":
    sys.exit(main())
