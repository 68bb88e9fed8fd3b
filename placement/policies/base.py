"""The base rules that the rules of the API refer to (specification 01 section 14.1)."""

from collections.abc import Iterable
from typing import Any

from oslo_policy import policy

ADMIN_OR_SERVICE = "rule:admin_or_service_api"
SERVICE = "rule:service_api"
PROJECT_READER_OR_ADMIN_OR_SERVICE = "rule:admin_or_project_reader_or_service_api"

PREFIX = "placement:"
SCOPES = ["project"]

# OR-ed to the new defaults while [oslo_policy]/enforce_new_defaults is false. The name really has
# the prefix, so that an operator's own ``admin_api`` does not take its place.
_ADMIN_API = policy.DeprecatedRule(
    name="rule:admin_api",
    check_str="role:admin",
    deprecated_reason="The defaults distinguish administrators from services.",
    deprecated_since="W",
)


def _base_rule(name: str, check: str, description: str, **more: Any) -> policy.RuleDefault:
    return policy.RuleDefault(name, check, description=description, **more)


RULES = [
    _base_rule(
        "admin_api",
        "role:admin",
        "Administrators. No rule refers to it: override admin_or_service_api instead.",
        scope_types=SCOPES,
    ),
    _base_rule(
        "service_api",
        "role:service",
        "Other services of the cloud.",
        scope_types=SCOPES,
        deprecated_rule=_ADMIN_API,
    ),
    _base_rule(
        "admin_or_service_api",
        "role:admin or role:service",
        "Administrators and other services of the cloud.",
        scope_types=SCOPES,
        deprecated_rule=_ADMIN_API,
    ),
    _base_rule(
        "project_reader_api",
        "role:reader and project_id:%(project_id)s",
        "Readers of the project that is asked about.",
        deprecated_rule=_ADMIN_API,
    ),
    _base_rule(
        "admin_or_project_reader_or_service_api",
        "role:admin or rule:project_reader_api or role:service",
        "Administrators, other services, and readers of the project that is asked about.",
        scope_types=SCOPES,
        deprecated_rule=_ADMIN_API,
    ),
]


def api_rule(
    name: str, description: str, operations: Iterable[str], check: str = ADMIN_OR_SERVICE
) -> policy.DocumentedRuleDefault:
    """Return the rule ``placement:<name>``.

    :param operations: what it guards, each as ``<METHOD> <path>``.
    """
    pairs = [operation.split(" ") for operation in operations]
    return policy.DocumentedRuleDefault(
        name=PREFIX + name,
        check_str=check,
        description=description,
        operations=[{"method": method, "path": path} for method, path in pairs],
        scope_types=SCOPES,
    )
