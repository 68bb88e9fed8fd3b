"""The rules of the API, one line for each (specification 01 section 14.1)."""

from placement.policies.base import PROJECT_READER_OR_ADMIN_OR_SERVICE, SERVICE, api_rule

PROVIDER = "/resource_providers/{uuid}"
INVENTORIES = PROVIDER + "/inventories"
INVENTORY = INVENTORIES + "/{resource_class}"
CLASS = "/resource_classes/{name}"
CONSUMER = "/allocations/{consumer_uuid}"

RULES = [
    api_rule("resource_providers:list", "List providers.", ["GET /resource_providers"]),
    api_rule("resource_providers:create", "Create a provider.", ["POST /resource_providers"]),
    api_rule("resource_providers:show", "Show a provider.", [f"GET {PROVIDER}"]),
    api_rule("resource_providers:update", "Rename or move a provider.", [f"PUT {PROVIDER}"]),
    api_rule("resource_providers:delete", "Delete a provider.", [f"DELETE {PROVIDER}"]),
    api_rule(
        "resource_providers:inventories:list",
        "List the inventories of a provider.",
        [f"GET {INVENTORIES}"],
    ),
    api_rule(
        "resource_providers:inventories:create",
        "Add an inventory to a provider.",
        [f"POST {INVENTORIES}"],
    ),
    api_rule(
        "resource_providers:inventories:show",
        "Show one inventory of a provider.",
        [f"GET {INVENTORY}"],
    ),
    api_rule(
        "resource_providers:inventories:update",
        "Replace one or all inventories of a provider.",
        [f"PUT {INVENTORIES}", f"PUT {INVENTORY}"],
    ),
    api_rule(
        "resource_providers:inventories:delete",
        "Delete one or all inventories of a provider.",
        [f"DELETE {INVENTORIES}", f"DELETE {INVENTORY}"],
    ),
    api_rule(
        "resource_providers:aggregates:list",
        "List the aggregates of a provider.",
        [f"GET {PROVIDER}/aggregates"],
    ),
    api_rule(
        "resource_providers:aggregates:update",
        "Replace the aggregates of a provider.",
        [f"PUT {PROVIDER}/aggregates"],
    ),
    api_rule(
        "resource_providers:allocations:list",
        "List the allocations on a provider.",
        [f"GET {PROVIDER}/allocations"],
    ),
    api_rule(
        "resource_providers:usages", "Show the usages of a provider.", [f"GET {PROVIDER}/usages"]
    ),
    api_rule(
        "resource_providers:traits:list",
        "List the traits of a provider.",
        [f"GET {PROVIDER}/traits"],
    ),
    api_rule(
        "resource_providers:traits:update",
        "Replace the traits of a provider.",
        [f"PUT {PROVIDER}/traits"],
    ),
    api_rule(
        "resource_providers:traits:delete",
        "Remove all traits from a provider.",
        [f"DELETE {PROVIDER}/traits"],
    ),
    api_rule("resource_classes:list", "List resource classes.", ["GET /resource_classes"]),
    api_rule("resource_classes:create", "Create a resource class.", ["POST /resource_classes"]),
    api_rule("resource_classes:show", "Show a resource class.", [f"GET {CLASS}"]),
    api_rule("resource_classes:update", "Create or rename a resource class.", [f"PUT {CLASS}"]),
    api_rule("resource_classes:delete", "Delete a resource class.", [f"DELETE {CLASS}"]),
    api_rule("traits:list", "List traits.", ["GET /traits"]),
    api_rule("traits:show", "Check that a trait exists.", ["GET /traits/{name}"]),
    api_rule("traits:update", "Create a trait.", ["PUT /traits/{name}"]),
    api_rule("traits:delete", "Delete a trait.", ["DELETE /traits/{name}"]),
    api_rule("allocations:manage", "Write allocations of consumers.", ["POST /allocations"]),
    api_rule("allocations:list", "List the allocations of a consumer.", [f"GET {CONSUMER}"]),
    api_rule("allocations:update", "Replace the allocations of a consumer.", [f"PUT {CONSUMER}"]),
    api_rule("allocations:delete", "Delete the allocations of a consumer.", [f"DELETE {CONSUMER}"]),
    api_rule(
        "allocation_candidates:list",
        "Ask which providers could take a request.",
        ["GET /allocation_candidates"],
    ),
    api_rule(
        "usages",
        "Show the usages of a project.",
        ["GET /usages"],
        PROJECT_READER_OR_ADMIN_OR_SERVICE,
    ),
    api_rule(
        "reshaper:reshape",
        "Move inventories and allocations between providers.",
        ["POST /reshaper"],
        SERVICE,
    ),
]
