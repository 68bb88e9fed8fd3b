"""The rules as they are in force on this machine, for the commands of oslo.policy."""

import argparse
import sys

from oslo_config import cfg
from oslo_policy import opts, policy

from placement import policies


def get_enforcer() -> policy.Enforcer:
    """Return an enforcer with the defaults and the operator's files; entry point ``oslo.policy.enforcer``.

    ``oslopolicy-list-redundant`` and ``oslopolicy-policy-generator`` keep ``--config-file`` to themselves.
    """
    conf = cfg.ConfigOpts()
    opts.set_defaults(conf)
    conf(_read_arguments(), project="placement")
    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults(policies.list_rules())
    return enforcer


def _read_arguments() -> list[str]:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    options = ("--config-file", "--config-dir")
    for option in options:
        parser.add_argument(option, dest=option, action="append", default=[])
    given, _ = parser.parse_known_args(sys.argv[1:])
    return [f"{option}={path}" for option in options for path in getattr(given, option)]
