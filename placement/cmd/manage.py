"""The command ``placement-manage`` (specification 06 section 6)."""

import argparse
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import prettytable
from oslo_config import cfg
from tqdm import tqdm

from placement import advice, db_api
from placement import conf as configuration
from placement.cmd import audit, completion, config_check, progress
from placement.db import coexistence_rows, invariants, online_migrations, schema
from placement.db.database import Database, Snapshot
from placement.objects import coexistence
from placement.version import VERSION

LOG = logging.getLogger(__name__)

SHARED = (
    "The OpenStack service may go on writing to this database. When it is stopped everywhere, run "
    '"placement-manage db sync --finish": until then searches and usages count the ledger.'
)

BATCH = 50
COMPLETE, MORE, FAILED, BAD_COUNT = 0, 1, 2, 127


def main() -> int:
    """Run the command line of this process and return its exit code."""
    return run(sys.argv[1:])


def run(argv: list[str], prog: str | None = None) -> int:
    """Run one command line.

    :returns: the exit code. Usage errors leave through SystemExit, as argparse does.
    """
    if shell := completion.asked(argv):
        return completion.show(shell)
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    commands = _Commands(conf)
    conf.register_cli_opt(
        cfg.SubCommandOpt("command", title="commands", handler=commands.add_parsers)
    )
    try:
        _parse(conf, argv, prog)
        return _act(conf)
    except Exception as error:
        message = advice.explain(error, conf)
        if message is None:
            raise
        LOG.debug("The command failed.", exc_info=True)
        print(f"{conf.prog or 'placement-manage'}: {message}", file=sys.stderr)
        return 1
    finally:
        commands.close()


def _parse(conf: cfg.ConfigOpts, argv: list[str], prog: str | None) -> None:
    try:
        more = _as_the_service_reads(argv)
        conf(argv, project=configuration.PROJECT, prog=prog, version=VERSION, **more)
    except cfg.RequiredOptError:
        # Raised last: the command is known, and help needs no database.
        if getattr(conf.command, "opens_database", False):
            raise


def _as_the_service_reads(argv: list[str]) -> dict[str, Any]:
    """Let ``config check`` read the files of the service; other commands know no such variable."""
    given = any(word.startswith(("--config-file", "--config-dir")) for word in argv)
    named = os.environ.get("OS_PLACEMENT_CONFIG_DIR", "").strip()
    if given or not named or not {"config", "check"} <= set(argv):
        return {}
    files = configuration.default_config_files()
    return {"default_config_files": files, "default_config_dirs": []}


def _act(conf: cfg.ConfigOpts) -> int:
    action: Callable[[], int] | None = getattr(conf.command, "action", None)
    if action is None:
        conf.print_help()
        return 1
    return action()


class _Commands:
    """The sub-commands of one command line."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf
        self._opened: Database | None = None

    def close(self) -> None:
        """Take leave of the database, which would note an aborted connection otherwise."""
        if self._opened is not None:
            self._opened.dispose()

    def add_parsers(self, subparsers: Any) -> None:
        """Add ``db`` and its actions to the parser of oslo.config."""
        # Without a command there is help, not a usage error.
        subparsers.required = False
        audit.add_parser(subparsers).set_defaults(action=self.audit, opens_database=True)
        config = config_check.add_parser(
            subparsers, lambda: config_check.run(self.conf, self.conf.command.before)
        )
        config.set_defaults(action=lambda: _print_help(config))
        database = subparsers.add_parser(
            "db", help="Create, upgrade, migrate and check the database"
        )
        database.set_defaults(action=lambda: _print_help(database))
        actions = database.add_subparsers(title="actions")
        sync = self._add(actions, "sync", self.sync, "Upgrade the schema to the newest revision.")
        sync.add_argument(
            "--finish",
            action="store_true",
            help="Then compute all usage anew, and declare the database this service's own. The "
            "OpenStack service must be stopped everywhere; this service may run.",
        )
        self._add(actions, "version", self.version, "Print the revision of the schema, or None.")
        stamp = self._add(
            actions, "stamp", self.stamp, "Write a revision into the database, without migrating."
        )
        stamp.add_argument(
            "revision",
            metavar="<version>",
            help="a revision id or the beginning of one, head, or base for none at all",
        )
        online = self._add(
            actions,
            "online_data_migrations",
            self.online_data_migrations,
            "Migrate data in small batches while the service runs.",
        )
        online.add_argument(
            "--max-count",
            metavar="<number>",
            dest="max_count",
            help="Change at most this many rows and stop; exit code 1 asks to be called again. "
            "Without it, batches of 50 run until everything is done.",
        )
        check = self._add(
            actions,
            "check",
            self.check,
            "Verify that counters, ledger, consumers and trees agree; exit code 1 if they do not.",
        )
        check.add_argument(
            "--repair",
            action="store_true",
            help="Recompute usage counters and roots, and remove consumers without allocations. "
            "Safe while the service runs.",
        )
        self._add(
            actions,
            "release",
            self.release,
            "Let the OpenStack service write to the database again, while this service runs.",
        )

    def _add(
        self, actions: Any, name: str, action: Callable[[], int], text: str
    ) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
        parser.set_defaults(action=action, opens_database=True)
        return parser

    def _open(self) -> Database:
        self._opened = db_api.open_database(self.conf, patient=True)
        db_api.wait_until_reachable(self.conf, self._opened)
        return self._opened

    def sync(self) -> int:
        """Upgrade the schema; nothing on stdout."""
        database = self._open()

        def report(revision: str) -> None:
            tqdm.write(f"Upgraded the database schema to {revision}", file=sys.stderr)

        with progress.of_rows() as rows:
            schema.sync(database, progress=report, rows=rows)
            if self.conf.command.finish:
                coexistence.finish(database, rows)
        if self.conf.command.finish:
            return 0
        if database.read(coexistence_rows.is_under_way):
            print(SHARED, file=sys.stderr)
        return 0

    def release(self) -> int:
        """Let the old service write again."""
        database = self._open()
        schema.require_head(database)
        coexistence.release(database)
        return 0

    def version(self) -> int:
        """Print the revision."""
        print(schema.current(self._open()))
        return 0

    def stamp(self) -> int:
        """Write a revision without migrating."""
        # An unknown name is an error also where the database cannot be reached.
        schema.resolve(self.conf.command.revision)
        schema.stamp(self._open(), self.conf.command.revision)
        return 0

    def online_data_migrations(self) -> int:
        """Run the data migrations (specification 06 section 7.4)."""
        try:
            count = _batch_size(self.conf.command.max_count)
        except ValueError:
            print("Must supply a positive value for max_count")
            return BAD_COUNT
        ids = online_migrations.IncompleteIds(
            self.conf.placement.incomplete_consumer_project_id,
            self.conf.placement.incomplete_consumer_user_id,
        )
        return _Batches(self._open(), ids).run(count)

    def audit(self) -> int:
        """Compare the ledger with the consumers that exist."""
        database = self._open()
        schema.require_head(database)
        try:
            return audit.run(database, self.conf.command)
        except audit.AuditError as error:
            print(f"{self.conf.prog}: {error}", file=sys.stderr)
            return audit.TROUBLE

    def check(self) -> int:
        """Verify the invariants and repair what can be."""
        database = self._open()
        schema.require_head(database)
        findings = _checked(database)
        repaired = _repair(database, findings) if self.conf.command.repair else {}
        print(_check_table(findings, repaired))
        for found in findings:
            _print_examples(found)
        return 1 if any(found.count and found.invariant.broken for found in findings) else 0


def _print_help(parser: argparse.ArgumentParser) -> int:
    parser.print_help()
    return 0


def _bar(total: int | None, unit: str) -> Any:
    """Return a progress bar on stderr, which shows itself on terminals only."""
    return tqdm(total=total, unit=f" {unit}", disable=None, leave=False)


def _batch_size(text: str | None) -> int | None:
    if text is None:
        return None
    count = int(text)
    if count < 1:
        raise ValueError(text)
    return count


class _Batches:
    """Batches of the data migrations and the totals over all of them."""

    def __init__(self, database: Database, ids: online_migrations.IncompleteIds) -> None:
        self.database = database
        self.ids = ids
        self.totals: dict[str, tuple[int, int]] = {}
        self.raised = False

    def run(self, count: int | None) -> int:
        """Run one batch of ``count`` rows, or batches until nothing is left; return the code."""
        if count is None:
            print(f"Running batches of {BATCH} until complete")
            done = self._until_complete()
        else:
            done = self._batch(count)
        print(self._table())
        if self.raised and not (count and done):
            print("Some migrations failed unexpectedly. Check log for details.")
            return FAILED
        return MORE if count and done else COMPLETE

    def _until_complete(self) -> int:
        with _bar(None, "rows") as bar:
            while True:
                done = self._batch(BATCH)
                bar.update(done)
                if not done:
                    return done

    def _batch(self, maximum: int) -> int:
        self.raised = False
        done_in_batch = 0
        for name, migration in online_migrations.MIGRATIONS:
            found, done = self._call(name, migration, maximum - done_in_batch)
            before = self.totals.get(name, (0, 0))
            self.totals[name] = (before[0] + found, before[1] + done)
            done_in_batch += done
            if done_in_batch >= maximum:
                break
        return done_in_batch

    def _call(
        self, name: str, migration: online_migrations.Migration, maximum: int
    ) -> tuple[int, int]:
        try:
            found, done = migration(self.database, self.ids, maximum)
        except Exception:
            # Whatever it is: the other migration still runs, and the exit code tells.
            print(f"Error attempting to run <{name}>")
            LOG.exception("Error attempting to run %s", name)
            self.raised = True
            return 0, 0
        if found:
            print(f"{found} rows matched query {name}, {done} migrated")
        return found, done

    def _table(self) -> prettytable.PrettyTable:
        table = prettytable.PrettyTable(["Migration", "Total Found", "Completed"])
        for name, (found, done) in self.totals.items():
            table.add_row([name, found, done])
        return table


def _checked(database: Database) -> list[invariants.Finding]:
    """Check all invariants on one committed state, which takes a while on a large ledger."""
    with _bar(len(invariants.INVARIANTS), "checks") as bar:

        def work(tx: Snapshot) -> list[invariants.Finding]:
            # Again from the first, should the connection be lost.
            bar.reset()
            findings = []
            for invariant in invariants.INVARIANTS:
                findings.append(invariants.examine(tx, invariant))
                bar.update()
            return findings

        return database.snapshot(work)


def _repair(database: Database, findings: list[invariants.Finding]) -> dict[str, int]:
    repaired = {}
    for found in findings:
        if found.count and found.invariant.repair is not None:
            with _bar(found.count, "rows") as bar:
                repaired[found.invariant.name] = invariants.repair(
                    database, found.invariant, bar.update
                )
    return repaired


def _check_table(
    findings: list[invariants.Finding], repaired: dict[str, int]
) -> prettytable.PrettyTable:
    table = prettytable.PrettyTable(["Invariant", "Result", "Violations", "Repaired"])
    table.align = "l"
    for found in findings:
        result = "ok" if not found.count else "WRONG" if found.invariant.broken else "note"
        table.add_row(
            [found.invariant.name, result, found.count, repaired.get(found.invariant.name, 0)]
        )
    return table


def _print_examples(found: invariants.Finding) -> None:
    if found.count:
        print(f"{found.invariant.name}: {found.invariant.advice}")
        for example in found.examples:
            print(f"  {example}")


if __name__ == "__main__":
    sys.exit(main())
