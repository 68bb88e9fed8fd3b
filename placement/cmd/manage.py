"""The command ``placement-manage`` (specification 06 section 6)."""

import argparse
import logging
import sys
from collections.abc import Callable
from typing import Any

import prettytable
from oslo_config import cfg

from placement import advice, authorship, installed
from placement import conf as configuration
from placement.authorship import Author
from placement.cmd import audit, config_check, output, progress
from placement.cmd.database_command import DatabaseCommand
from placement.command import Command, CommandAction
from placement.db import invariants, online_migrations, schema, scrub
from placement.db.coexistence import state, takeover
from placement.db.database import Database, Snapshot
from placement.objects import restored
from placement.objects.restored import Restored
from placement.printable import escape_lines, escape_unprintable
from placement.version import VERSION

LOG = logging.getLogger(__name__)

SHARED = (
    "The OpenStack service may go on writing to this database. When it is stopped everywhere, run "
    '"placement-manage db sync --finish": until then searches and usages count the ledger.'
)

BATCH = 50
LARGEST_BATCH = 2**31 - 1
"""The largest batch; a database refuses a limit that does not fit into its integers."""

COMPLETE, MORE, FAILED, BAD_COUNT = 0, 1, 2, 127


def main() -> int:
    """Run the command line of this process and return its exit code."""
    return run(sys.argv[1:])


def run(argv: list[str], prog: str | None = None) -> int:
    """Run one command line and return the exit code."""
    return _ManageCommand(cfg.ConfigOpts()).run(argv, prog)


class _ManageCommand(DatabaseCommand):
    program = "placement-manage"
    description = "Create, upgrade, check and repair the database; check the configuration."

    def act(self, argv: list[str], prog: str | None) -> int:
        conf = self.conf
        try:
            # config check reads the files of the service, so it also reads this variable; other commands
            # ignore it.
            given = any(word.startswith(("--config-file", "--config-dir")) for word in argv)
            as_service = {"config", "check"} <= set(argv) and not given
            files = configuration.named_files() if as_service else {}
            configuration.read(conf, argv, prog=prog, version=VERSION, **files)
        except cfg.RequiredOptError:
            # The error is raised last: by now the command is known, and help does not need a database.
            if getattr(conf.command, "opens_database", False):
                raise
        action: Callable[[], int] | None = getattr(conf.command, "action", None)
        if action is None:
            self.print_help(prog)
            return 1
        with authorship.acting(Author(route=f"{self.program} {conf.command.name}")):
            return action()

    def add_parsers(self, subparsers: Any) -> None:
        # Without a command, print help instead of a usage error.
        subparsers.required = False
        audit.add_parser(subparsers).set_defaults(action=self.audit, opens_database=True)
        for module in installed.find_modules("commands").values():
            for command in module.COMMANDS:
                self._add_command(subparsers, command)
        config = config_check.add_parser(
            subparsers, lambda: config_check.run(self.conf, self.conf.command.before)
        )
        config.set_defaults(action=lambda: _print_help(config))
        self._add_database_actions(
            _add_actions(subparsers, "db", "Create, upgrade, migrate and check the database")
        )

    def _add_command(self, subparsers: Any, command: Command) -> None:
        """Add a command of an extension."""
        actions = _add_actions(subparsers, command.name, command.text)
        for action in command.actions:

            def run(action: CommandAction = action) -> int:
                schema.require_usable(self.database)
                return action.run(self.conf, self.database, self.conf.command.json)

            output.add_option(self._add_action(actions, action.name, run, action.text))

    def _add_database_actions(self, actions: Any) -> None:
        sync = self._add_action(
            actions, "sync", self.sync, "Upgrade the schema to the newest revision."
        )
        sync.add_argument(
            "--finish",
            action="store_true",
            help="Then recompute all usage, and mark the database as this service's own. The "
            "OpenStack service must be stopped everywhere; this service may run.",
        )
        sync.add_argument(
            "--stopped",
            action="store_true",
            help="No worker of this service runs: upgrade past releases whose workers would have to replace "
            "the present ones first.",
        )
        self._add_action(
            actions, "version", self.version, "Print the revision of the schema, or None."
        )
        stamp = self._add_action(
            actions, "stamp", self.stamp, "Write a revision into the database, without migrating."
        )
        stamp.add_argument(
            "revision",
            metavar="<version>",
            help="a revision id or the beginning of one, head, or base for no revision",
        )
        online = self._add_action(
            actions,
            "online_data_migrations",
            self.online_data_migrations,
            "Migrate data in small batches while the service runs.",
        )
        online.add_argument(
            "--max-count",
            metavar="<number>",
            dest="max_count",
            help="Change at most this many rows and stop; exit code 1 means: call again. "
            "Without it, batches of 50 run until everything is done.",
        )
        output.add_option(online)
        self._add_checks(actions)
        self._add_action(
            actions,
            "release",
            self.release,
            "Let the OpenStack service write to the database again, while this service runs.",
        )

    def _add_checks(self, actions: Any) -> None:
        check = self._add_action(
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
        output.add_option(check)
        scrub = self._add_action(
            actions,
            "scrub",
            self.scrub,
            "Compare all usage and all that searches know with the rows that it is derived from, and mend "
            "it, now. Safe while the service runs, which does the same a little at a time. Exit code 1 if "
            "anything was wrong.",
        )
        output.add_option(scrub)

        restored = self._add_action(
            actions,
            "restored",
            self.settle,
            "After a restore from a backup: end all holds (their consumers keep what they hold), make tokens "
            "of /-/changes void, remove rows of groups that refer to what is gone, set sequences that stand "
            "behind, and count all usage anew. Safe while the service runs, and may be repeated. Exit code 1 "
            "if something is left to do.",
        )
        output.add_option(restored)

    def _add_action(
        self, actions: Any, name: str, action: Callable[[], int], text: str
    ) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
        parser.set_defaults(action=action, opens_database=True)
        return parser

    def sync(self) -> int:
        """Upgrade the schema, printing nothing to stdout."""
        database = self.database
        bar = progress.Bar("rows")

        def report(revision: str) -> None:
            bar.print(f"Upgraded the database schema to {revision}")

        with progress.show_rows(bar=bar) as rows:
            stopped = self.conf.command.stopped
            schema.sync(database, stopped=stopped, progress=report, rows=rows)
            if self.conf.command.finish:
                takeover.finish(database, rows)
        if not self.conf.command.finish and database.read(state.is_under_way):
            print(SHARED, file=sys.stderr)
        return 0

    def release(self) -> int:
        """Allow the old service to write again."""
        database = self.database
        schema.require_usable(database)
        takeover.release(database)
        return 0

    def version(self) -> int:
        """Print the revision."""
        print(schema.current(self.database))
        return 0

    def stamp(self) -> int:
        """Write a revision without migrating."""
        # An unknown revision is an error even if the database cannot be reached.
        schema.resolve(self.conf.command.revision)
        schema.stamp(self.database, self.conf.command.revision)
        return 0

    def online_data_migrations(self) -> int:
        """Run the data migrations (specification 06 section 7.4)."""
        try:
            given = self.conf.command.max_count
            count = None if given is None else min(int(given), LARGEST_BATCH)
        except ValueError:
            count = 0
        if count is not None and count < 1:
            print("Must supply a positive value for max_count")
            return BAD_COUNT
        schema.require_migratable(self.database)
        ids = online_migrations.IncompleteIds(
            self.conf.placement.incomplete_consumer_project_id,
            self.conf.placement.incomplete_consumer_user_id,
        )
        return _Batches(self.database, ids, self.conf, as_json=self.conf.command.json).run(count)

    def audit(self) -> int:
        """Compare the ledger with the consumers that exist."""
        database = self.database
        schema.require_usable(database)
        try:
            return audit.run(database, self.conf.command)
        except audit.AuditError as error:
            print(f"{self.conf.prog}: {escape_lines(str(error))}", file=sys.stderr)
            return audit.TROUBLE

    def check(self) -> int:
        """Verify the invariants, and repair them if the user asks for it."""
        database = self.database
        schema.require_usable(database)
        findings = _check_all(database)
        repaired = _repair_all(database, findings) if self.conf.command.repair else {}
        if repaired:
            scrub.show_all_again(database)
        if self.conf.command.json:
            rendered = [_render_finding(found, repaired) for found in findings]
            output.print_json({"invariants": rendered})
        else:
            _print_findings(findings, repaired)
        return 1 if any(found.count and found.invariant.broken for found in findings) else 0

    def scrub(self) -> int:
        """Scrub the whole database once, and print what was mended; the log has a line for each mend."""
        database = self.database
        schema.require_usable(database)
        with progress.show_rows() as rows:
            healed, left = scrub.scrub_all(database, rows)
        scrub.show_all_again(database)
        if self.conf.command.json:
            unmended = [_render_finding(found, {}) for found in left]
            output.print_json({"mended": dict(healed), "left": unmended})
        else:
            for what, number in sorted(healed.items()):
                print(f"Mended: {number} {scrub.WHAT[what]}")
            _print_advice(left)
            if not healed and not left:
                print("Nothing was wrong.")
        return 1 if healed or left else 0

    def settle(self) -> int:
        """Settle the holds and other old state of a restored backup, and print what was done."""
        database = self.database
        schema.require_usable(database)
        with progress.show_rows() as rows:
            done = restored.settle(database, rows)
        left = invariants.violations(database)
        if self.conf.command.json:
            output.print_json(
                {
                    "sequences": [each.name for each in done.sequences],
                    "no_longer_held": done.no_longer_held,
                    "rows": done.rows,
                    "providers": done.providers,
                    "left": [_render_finding(found, {}) for found in left],
                }
            )
        else:
            _print_restored(done)
            _print_advice(left)
        return 1 if left else 0


def _print_restored(done: Restored) -> None:
    for each in done.sequences:
        print(f"Sequence {each.name} stood behind its table: set to {each.highest_id}")
    print(f"Holds ended: {len(done.no_longer_held)}. Their consumers keep what they hold")
    for uuid in done.no_longer_held:
        print(f"  {uuid}")
    print(f"Rows of holds, groups and the log removed or inserted: {done.rows}")
    print("Tokens of /-/changes are void: those who follow changes read everything again")
    print(f"Usage counted anew: {done.providers} resource providers, and all projects and users")


def _add_actions(subparsers: Any, name: str, text: str) -> Any:
    """Add a command that has actions, and prints its help without one; return what takes the actions."""
    parser = subparsers.add_parser(name, help=text)
    parser.set_defaults(action=lambda: _print_help(parser))
    return parser.add_subparsers(title="actions")


def _print_help(parser: argparse.ArgumentParser) -> int:
    parser.print_help()
    return 0


class _Batches:
    """Batches of the data migrations and the totals over all of them."""

    def __init__(
        self,
        database: Database,
        ids: online_migrations.IncompleteIds,
        conf: cfg.ConfigOpts,
        *,
        as_json: bool = False,
    ) -> None:
        self.database = database
        self.ids = ids
        self.conf = conf
        self.as_json = as_json
        # With --json, only the result is printed to standard output.
        self.notes = sys.stderr if as_json else sys.stdout
        self.totals: dict[str, tuple[int, int]] = {}
        self.raised = False

    def run(self, count: int | None) -> int:
        """Run one batch of ``count`` rows, or batches until nothing is left; return the code."""
        if count is None:
            print(f"Running batches of {BATCH} until complete", file=self.notes)
        with progress.Bar("rows") as bar:
            # The batches are small: the running service may have to wait for the rows of one.
            while (done := self._run_batch(count or BATCH)) and count is None:
                bar.update(done)
        if self.as_json:
            names = ("migration", "found", "completed")
            rows = ((name, *counts) for name, counts in self.totals.items())
            output.print_json({"migrations": [dict(zip(names, row, strict=True)) for row in rows]})
        else:
            # Scripts of deployment tools know this table, with its centred columns.
            table = prettytable.PrettyTable(["Migration", "Total Found", "Completed"])
            table.add_rows([[name, *counts] for name, counts in self.totals.items()])
            print(table)
        if self.raised and not (count and done):
            print("Some migrations failed unexpectedly. Check log for details.", file=self.notes)
            return FAILED
        return MORE if count and done else COMPLETE

    def _run_batch(self, maximum: int) -> int:
        # The flag covers the last batch only: an error that a later batch does not repeat has passed.
        self.raised = False
        done_in_batch = 0
        for name, migration in online_migrations.list_migrations():
            try:
                found, done = migration(self.database, self.ids, maximum - done_in_batch)
            except Exception as error:
                # After any error the next migration still runs, and the exit code reports the error.
                print(f"Error attempting to run <{name}>", file=self.notes)
                if message := advice.explain(error, self.conf):
                    LOG.error("Error attempting to run %s: %s", name, message)
                else:
                    LOG.exception("Error attempting to run %s", name)
                self.raised = True
                found = done = 0
            if found:
                print(f"{found} rows matched query {name}, {done} migrated", file=self.notes)
            before = self.totals.get(name, (0, 0))
            self.totals[name] = (before[0] + found, before[1] + done)
            done_in_batch += done
            if done_in_batch >= maximum:
                break
        return done_in_batch


def _check_all(database: Database) -> list[invariants.Finding]:
    """Check all invariants on one committed state; this takes a while on a large ledger."""
    with progress.Bar("checks", len(invariants.list_invariants())) as bar:

        def work(tx: Snapshot) -> list[invariants.Finding]:
            # After a lost connection all checks run again.
            bar.reset()
            findings = []
            for invariant in invariants.list_invariants():
                findings.append(invariants.examine(tx, invariant))
                bar.update()
            return findings

        # One snapshot serves all checks: a claim between two readings would look like a wrong counter.
        return database.snapshot(work)


def _repair_all(database: Database, findings: list[invariants.Finding]) -> dict[str, int]:
    repaired = {}
    for found in findings:
        if found.count and found.invariant.repair is not None:
            invariant = found.invariant
            with progress.Bar("rows", found.count) as bar:
                repaired[invariant.name] = invariants.repair(database, invariant, bar.update)
    return repaired


def _name_result(found: invariants.Finding) -> str:
    if not found.count:
        return "ok"
    return "WRONG" if found.invariant.broken else "note"


def _render_finding(found: invariants.Finding, repaired: dict[str, int]) -> dict[str, Any]:
    return {
        "invariant": found.invariant.name,
        "result": _name_result(found).lower(),
        "violations": found.count,
        "repaired": repaired.get(found.invariant.name, 0),
        "advice": found.invariant.advice if found.count else None,
        "examples": found.examples,
    }


def _print_findings(findings: list[invariants.Finding], repaired: dict[str, int]) -> None:
    columns = ["Invariant", "Result", "Violations", "Repaired"]
    rows = [
        (name := found.invariant.name, _name_result(found), found.count, repaired.get(name, 0))
        for found in findings
    ]
    print(output.make_table(columns, rows, left=columns))
    _print_advice(findings)


def _print_advice(findings: list[invariants.Finding]) -> None:
    for found in findings:
        if found.count:
            print(f"{found.invariant.name}: {found.invariant.advice}")
            for example in found.examples:
                print(f"  {escape_unprintable(example)}")


if __name__ == "__main__":
    sys.exit(main())
