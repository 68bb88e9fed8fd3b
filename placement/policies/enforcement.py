"""The rules in force on this machine, for the commands of oslo.policy."""

import argparse
import sys

from oslo_config import cfg
from oslo_policy import opts, policy

from placement import policies


def get_enforcer() -> policy.Enforcer:
    """Return an enforcer with the defaults and the operator's files; entry point ``oslo.policy.enforcer``.

    ``oslopolicy-list-redundant`` and ``oslopolicy-policy-generator`` do not pass ``--config-file`` on.
    """
    conf = cfg.ConfigOpts()
    opts.set_defaults(conf)
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    names = ("--config-file", "--config-dir")
    for name in names:
        parser.add_argument(name, dest=name, action="append", default=[])
    given, _ = parser.parse_known_args(sys.argv[1:])
    arguments = [f"{name}={path}" for name in names for path in getattr(given, name)]
    conf(arguments, project="placement")
    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults(policies.list_rules())
    return enforcer
