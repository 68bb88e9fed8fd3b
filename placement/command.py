"""What a command of an extension is to ``placement-manage`` (:doc:`/maintainers/add-an-extension`).

Nothing slow is imported here: each call of ``placement-manage`` reads the commands of all extensions.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from oslo_config import cfg

if TYPE_CHECKING:
    from placement.db.database import Database


class CommandAction(NamedTuple):
    """An action, the second word of a command.

    :param run: called with the configuration, the database and whether the result is printed as JSON;
        returns the exit code.
    """

    name: str
    text: str
    run: "Callable[[cfg.ConfigOpts, Database, bool], int]"


class Command(NamedTuple):
    """A value of the tuple ``COMMANDS`` in ``commands.py`` of an extension: a word and its actions."""

    name: str
    text: str
    actions: Sequence[CommandAction]
