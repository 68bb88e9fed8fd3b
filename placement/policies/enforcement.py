"""The rules as they are in force on this machine, for the commands of oslo.policy."""

from oslo_config import cfg
from oslo_policy import opts, policy

from placement import policies


def get_enforcer() -> policy.Enforcer:
    """Return an enforcer with the defaults and the operator's files.

    Entry point ``oslo.policy.enforcer``; ``oslopolicy-list-redundant`` and
    ``oslopolicy-policy-generator`` call it. Configuration is looked for in the default places.
    """
    conf = cfg.ConfigOpts()
    opts._register(conf)
    conf([], project="placement")
    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults(policies.list_rules())
    return enforcer
