"""The commands ``placement-manage`` and ``placement-status`` in outline: configuration, database, errors."""

import argparse
import logging
import sys
from functools import cached_property
from typing import Any

from oslo_config import cfg

from placement import advice, db_api
from placement import conf as configuration
from placement.cmd import completion
from placement.db.database import Database

HELP_ALL = "--help-all"

LOG = logging.getLogger(__name__)


class DatabaseCommand:
    """One command line; its database is connected on first use."""

    program = description = ""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    @cached_property
    def database(self) -> Database:
        """The configured database; its statements have no time limit."""
        opened = db_api.open_database(self.conf, patient=True)
        db_api.watch_writes(self.conf, opened)
        return db_api.when_reachable(self.conf, opened, lambda: opened)

    def add_parsers(self, subparsers: Any) -> None:
        """Add the sub-commands to the parser of oslo.config."""
        raise NotImplementedError

    def act(self, argv: list[str], prog: str | None) -> int:
        """Parse the command line and do what it says; return the exit code."""
        raise NotImplementedError

    def exit_code(self, error: Exception) -> int:
        """Return the exit code for an error that one line explains."""
        return 1

    def print_help(self, prog: str | None) -> None:
        """Print the commands and the most important options, not the library's thirty."""
        parser = argparse.ArgumentParser(
            prog=prog, description=self.description, usage="%(prog)s [options] COMMAND ...", add_help=False
        )
        self.add_parsers(parser.add_subparsers(title="commands", metavar="COMMAND"))
        options = parser.add_argument_group("options, before the command")
        options.add_argument("-h", "--help", action="help", help="show this help message and exit")
        options.add_argument(
            HELP_ALL, action="help", help="show all options: also where and what to log, such as --debug"
        )
        options.add_argument("--version", action="version", help="print the version and exit")
        completion.add_option(options)
        options.add_argument(
            "--config-file", metavar="PATH", help="read this file; repeatable, later ones win"
        )
        options.add_argument("--config-dir", metavar="DIR", help="read all *.conf in it after the files")
        parser.print_help()

    def run(self, argv: list[str], prog: str | None = None) -> int:
        """Run the command line and return the exit code; usage errors raise SystemExit."""
        if argv[:1] == [completion.OPTION] and argv[1:] in ([shell] for shell in completion.SHELLS):
            return completion.print_script(argv[1])
        if argv in (["-h"], ["--help"]):
            self.print_help(prog)
            return 0
        argv = ["--help" if word == HELP_ALL else word for word in argv]
        conf = self.conf
        configuration.register_opts(conf)
        conf.register_cli_opt(
            cfg.SubCommandOpt("command", title="commands", handler=self.add_parsers)
        )
        try:
            return self.act(argv, prog)
        except Exception as error:
            message = advice.explain(error, conf)
            if message is None:
                raise
            LOG.debug("The command failed.", exc_info=True)
            print(f"{conf.prog or self.program}: {message}", file=sys.stderr)
            return self.exit_code(error)
        finally:
            # The database server would log a connection that stays open as aborted.
            if "database" in vars(self):
                self.database.dispose()
