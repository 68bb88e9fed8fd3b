"""``python -m testtools.run``, whose commands of ``openstack`` look up once which others there are.

That took a quarter of the time; run for the suite of osc-placement (see test_osc_placement_suite.py).
"""

import sys
from functools import cache
from typing import Any

import testtools.run
from cliff.commandmanager import CommandManager

look_up = CommandManager.load_commands


@cache
def commands_of(group: str, ignored_modules: tuple[str, ...]) -> dict[str, Any]:
    """Return the commands that are installed in a group, by name."""
    manager = CommandManager(ignored_modules=ignored_modules)
    look_up(manager, group)
    return manager.commands


def load_commands(manager: CommandManager, group: str) -> None:
    """Add the commands of a group to a manager."""
    manager.group_list.append(group)
    manager.commands.update(commands_of(group, tuple(manager.ignored_modules)))


if __name__ == "__main__":
    CommandManager.load_commands = load_commands  # type: ignore[method-assign]
    testtools.run.main(sys.argv, sys.stdout)
