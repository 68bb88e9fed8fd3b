"""The commands ``placement-manage`` and ``placement-status`` in outline: configuration, database, errors."""

import logging
import sys
from functools import cached_property
from typing import Any

from oslo_config import cfg

from placement import advice, db_api
from placement import conf as configuration
from placement.cmd import completion
from placement.db.database import Database

LOG = logging.getLogger(__name__)


class DatabaseCommand:
    """One command line, whose database is connected when it is first needed."""

    program = ""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    @cached_property
    def database(self) -> Database:
        """The configured database; its statements have no time limit."""
        opened = db_api.open_database(self.conf, patient=True)
        return db_api.when_reachable(self.conf, opened, lambda: opened)

    def add_parsers(self, subparsers: Any) -> None:
        """Add the sub-commands to the parser of oslo.config."""
        raise NotImplementedError

    def act(self, argv: list[str], prog: str | None) -> int:
        """Parse the command line and do what it says; return the exit code."""
        raise NotImplementedError

    def exit_code(self, error: Exception) -> int:
        """Return the exit code for an error that is told in one line."""
        return 1

    def run(self, argv: list[str], prog: str | None = None) -> int:
        """Run the command line and return the exit code; usage errors raise SystemExit."""
        if argv[:1] == [completion.OPTION] and argv[1:] in (["bash"], ["zsh"]):
            return completion.show(argv[1])
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
            # The server would log an open connection as aborted.
            if "database" in vars(self):
                self.database.dispose()
