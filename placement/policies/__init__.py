"""The default rules of access (specification 01 section 14.1, 07 section 1)."""

from functools import cache

from oslo_policy import policy

from placement import installed
from placement.policies.rule import ADMIN_OR_SERVICE, Rule

PREFIX = "placement:"
SCOPES = ["project"]

# The rule is OR-ed to the new defaults while [oslo_policy]/enforce_new_defaults is false. Its name has the
# prefix so that an operator's own ``admin_api`` does not replace it.
_ADMIN_API = policy.DeprecatedRule(
    name="rule:admin_api",
    check_str="role:admin",
    deprecated_reason="The defaults distinguish administrators from services.",
    deprecated_since="W",
)

BASE = {
    "admin_api": (
        "role:admin",
        "Administrators. No rule refers to it: override admin_or_service_api instead.",
    ),
    "service_api": ("role:service", "Other services of the cloud."),
    "admin_or_service_api": (
        "role:admin or role:service",
        "Administrators and other services of the cloud.",
    ),
    "project_reader_api": (
        "role:reader and project_id:%(project_id)s",
        "Readers of the project that is asked about.",
    ),
    "admin_or_project_reader_or_service_api": (
        "role:admin or rule:project_reader_api or role:service",
        "Administrators, other services, and readers of the project that is asked about.",
    ),
}
"""Check and description of the rules to which the others refer."""

CHECKS = {
    "usages": "rule:admin_or_project_reader_or_service_api",
    "reshaper:reshape": "rule:service_api",
}
"""The checks of rules whose check is not ``ADMIN_OR_SERVICE``."""

PROVIDER = "/resource_providers/{uuid}"
INVENTORIES = PROVIDER + "/inventories"
INVENTORY = INVENTORIES + "/{resource_class}"
CLASS = "/resource_classes/{name}"
CONSUMER = "/allocations/{consumer_uuid}"

GUARDED = {
    "resource_providers:list": ("List providers.", "GET /resource_providers"),
    "resource_providers:create": ("Create a provider.", "POST /resource_providers"),
    "resource_providers:show": ("Show a provider.", f"GET {PROVIDER}"),
    "resource_providers:update": ("Rename or move a provider.", f"PUT {PROVIDER}"),
    "resource_providers:delete": ("Delete a provider.", f"DELETE {PROVIDER}"),
    "resource_providers:inventories:list": (
        "List the inventories of a provider.",
        f"GET {INVENTORIES}",
    ),
    "resource_providers:inventories:create": (
        "Add an inventory to a provider.",
        f"POST {INVENTORIES}",
    ),
    "resource_providers:inventories:show": (
        "Show one inventory of a provider.",
        f"GET {INVENTORY}",
    ),
    "resource_providers:inventories:update": (
        "Replace one or all inventories of a provider.",
        f"PUT {INVENTORIES}",
        f"PUT {INVENTORY}",
    ),
    "resource_providers:inventories:delete": (
        "Delete one or all inventories of a provider.",
        f"DELETE {INVENTORIES}",
        f"DELETE {INVENTORY}",
    ),
    "resource_providers:aggregates:list": (
        "List the aggregates of a provider.",
        f"GET {PROVIDER}/aggregates",
    ),
    "resource_providers:aggregates:update": (
        "Replace the aggregates of a provider.",
        f"PUT {PROVIDER}/aggregates",
    ),
    "resource_providers:allocations:list": (
        "List the allocations on a provider.",
        f"GET {PROVIDER}/allocations",
    ),
    "resource_providers:usages": ("Show the usages of a provider.", f"GET {PROVIDER}/usages"),
    "resource_providers:traits:list": ("List the traits of a provider.", f"GET {PROVIDER}/traits"),
    "resource_providers:traits:update": (
        "Replace the traits of a provider.",
        f"PUT {PROVIDER}/traits",
    ),
    "resource_providers:traits:delete": (
        "Remove all traits from a provider.",
        f"DELETE {PROVIDER}/traits",
    ),
    "resource_classes:list": ("List resource classes.", "GET /resource_classes"),
    "resource_classes:create": ("Create a resource class.", "POST /resource_classes"),
    "resource_classes:show": ("Show a resource class.", f"GET {CLASS}"),
    "resource_classes:update": ("Create or rename a resource class.", f"PUT {CLASS}"),
    "resource_classes:delete": ("Delete a resource class.", f"DELETE {CLASS}"),
    "traits:list": ("List traits.", "GET /traits"),
    "traits:show": ("Check that a trait exists.", "GET /traits/{name}"),
    "traits:update": ("Create a trait.", "PUT /traits/{name}"),
    "traits:delete": ("Delete a trait.", "DELETE /traits/{name}"),
    "allocations:manage": ("Write allocations of consumers.", "POST /allocations"),
    "allocations:list": ("List the allocations of a consumer.", f"GET {CONSUMER}"),
    "allocations:update": ("Replace the allocations of a consumer.", f"PUT {CONSUMER}"),
    "allocations:delete": ("Delete the allocations of a consumer.", f"DELETE {CONSUMER}"),
    "allocation_candidates:list": (
        "Ask which providers could take a request.",
        "GET /allocation_candidates",
    ),
    "usages": ("Show the usages of a project.", "GET /usages"),
    "reshaper:reshape": ("Move inventories and allocations between providers.", "POST /reshaper"),
}
"""The description of a rule, and each guarded operation, by name without ``placement:``. Extensions
declare their rules in their ``rules.py``.
"""


@cache
def find_guarded() -> dict[str, Rule]:
    """Return the rules that guard operations of the API and of extensions, by name without ``placement:``."""
    own = {
        name: Rule(*texts, check=CHECKS.get(name, ADMIN_OR_SERVICE))
        for name, texts in GUARDED.items()
    }
    modules = installed.find_modules("rules").values()
    others = [pair for module in modules for pair in module.RULES.items()]
    return own | dict(sorted(others, key=lambda pair: pair[1].place))


def list_rules() -> list[policy.RuleDefault]:
    """Return all default rules; entry point ``oslo.policy.policies``."""
    return [*_make_rules()]


@cache
def _make_rules() -> list[policy.RuleDefault]:
    """Make the rules once: an enforcer changes copies, and parsing the checks takes as long as copying."""
    rules: list[policy.RuleDefault] = [
        policy.RuleDefault(
            name,
            check,
            description=description,
            scope_types=None if name == "project_reader_api" else SCOPES,
            deprecated_rule=None if name == "admin_api" else _ADMIN_API,
        )
        for name, (check, description) in BASE.items()
    ]
    for name, rule in find_guarded().items():
        pairs = [operation.split(" ") for operation in rule.operations]
        guarded = policy.DocumentedRuleDefault(
            name=PREFIX + name,
            check_str=rule.check,
            description=rule.description,
            operations=[{"method": method, "path": path} for method, path in pairs],
            scope_types=SCOPES,
        )
        rules.append(guarded)
    return rules
