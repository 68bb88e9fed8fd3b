"""Who may do what: the default rules, for the service and for the generators of oslo.policy."""

from oslo_policy import policy

from placement.policies import api, base, insight


def list_rules() -> list[policy.RuleDefault]:
    """Return all default rules; entry point ``oslo.policy.policies``."""
    return [*base.RULES, *api.RULES, *insight.RULES]
