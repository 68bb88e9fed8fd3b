"""The whole URL map on one page: path, method, microversion window, policy rule, function.

``shows`` answers a GET with a body (Accept is checked), ``takes`` needs a JSON body (Content-Type
is checked), ``acts`` does neither. ``since`` and ``until`` are minor versions, both inclusive.
How a request finds its line on the page: :mod:`placement.web.dispatch`.
"""

from placement.extensions.claims import handlers as claims
from placement.extensions.explorer import handlers as explorer
from placement.extensions.feed import handlers as feed
from placement.extensions.history import handlers as history
from placement.extensions.metrics import handlers as metrics
from placement.extensions.plans import handlers as plans
from placement.extensions.questions import handlers as questions
from placement.extensions.trees import handlers as trees
from placement.handlers import (
    allocation,
    allocation_candidate,
    inventory,
    resource_class,
    resource_provider,
    root,
    trait,
)
from placement.web.dispatch import Actions, acts, shows, takes

PROVIDER = "/resource_providers/{uuid}"

ROUTES: dict[str, dict[str, Actions]] = {
    "": {"GET": acts(root.get_versions, None)},
    "/": {"GET": acts(root.get_versions, None)},
    "/resource_classes": {
        "GET": shows(resource_class.list_classes, "resource_classes:list", since=2),
        "POST": takes(resource_class.create_class, "resource_classes:create", since=2),
    },
    "/resource_classes/{name}": {
        "GET": shows(resource_class.show_class, "resource_classes:show", since=2),
        "PUT": takes(resource_class.rename_class, "resource_classes:update", since=2, until=6)
        + acts(resource_class.ensure_class, "resource_classes:update", since=7),
        "DELETE": acts(resource_class.delete_class, "resource_classes:delete", since=2),
    },
    "/resource_providers": {
        "GET": shows(resource_provider.list_providers, "resource_providers:list"),
        "POST": takes(resource_provider.create_provider, "resource_providers:create"),
    },
    PROVIDER: {
        "GET": shows(resource_provider.show_provider, "resource_providers:show"),
        "PUT": takes(resource_provider.update_provider, "resource_providers:update"),
        "DELETE": acts(resource_provider.delete_provider, "resource_providers:delete"),
    },
    PROVIDER + "/inventories": {
        "GET": shows(inventory.list_inventories, "resource_providers:inventories:list"),
        "POST": takes(inventory.create_inventory, "resource_providers:inventories:create"),
        "PUT": takes(inventory.replace_inventories, "resource_providers:inventories:update"),
        "DELETE": acts(
            inventory.delete_inventories,
            "resource_providers:inventories:delete",
            since=5,
            below=405,
        ),
    },
    PROVIDER + "/inventories/{resource_class}": {
        "GET": shows(inventory.show_inventory, "resource_providers:inventories:show"),
        "PUT": takes(inventory.update_inventory, "resource_providers:inventories:update"),
        "DELETE": acts(inventory.delete_inventory, "resource_providers:inventories:delete"),
    },
    PROVIDER + "/usages": {
        "GET": shows(allocation.show_provider_usages, "resource_providers:usages"),
    },
    PROVIDER + "/aggregates": {
        "GET": shows(
            resource_provider.list_aggregates,
            "resource_providers:aggregates:list",
            since=1,
            media_types_first=True,
        ),
        "PUT": takes(
            resource_provider.replace_aggregates,
            "resource_providers:aggregates:update",
            since=1,
            media_types_first=True,
        ),
    },
    PROVIDER + "/allocations": {
        "GET": shows(allocation.show_provider_allocations, "resource_providers:allocations:list"),
    },
    PROVIDER + "/traits": {
        "GET": shows(trait.list_provider_traits, "resource_providers:traits:list", since=6),
        "PUT": takes(trait.replace_provider_traits, "resource_providers:traits:update", since=6),
        "DELETE": acts(trait.delete_provider_traits, "resource_providers:traits:delete", since=6),
    },
    "/allocations": {
        "POST": takes(allocation.replace_many_allocations, "allocations:manage", since=13),
    },
    "/allocations/{consumer_uuid}": {
        "GET": shows(allocation.show_consumer_allocations, "allocations:list"),
        "PUT": takes(allocation.replace_consumer_allocations, "allocations:update"),
        "DELETE": acts(allocation.delete_consumer_allocations, "allocations:delete"),
    },
    "/allocation_candidates": {
        "GET": shows(allocation_candidate.list_candidates, "allocation_candidates:list", since=10),
    },
    "/traits": {
        "GET": shows(trait.list_traits, "traits:list", since=6),
    },
    "/traits/{name}": {
        "GET": acts(trait.show_trait, "traits:show", since=6),
        "PUT": acts(trait.ensure_trait, "traits:update", since=6),
        "DELETE": acts(trait.delete_trait, "traits:delete", since=6),
    },
    "/usages": {
        "GET": shows(allocation.show_usages, "usages", since=9, target=allocation.policy_target),
    },
    "/reshaper": {
        "POST": takes(allocation.reshape_trees, "reshaper:reshape", since=30),
    },
}

INSIGHT: dict[str, dict[str, Actions]] = {
    "/-/capacity": {"GET": shows(questions.show_capacity, "insight:capacity", since=10)},
    "/-/capacity/history": {"GET": shows(questions.show_capacity_history, "insight:capacity")},
    "/-/changes": {"GET": shows(feed.list_changes, "insight:changes")},
    "/-/explain": {"GET": shows(questions.explain_candidates, "insight:explain", since=10)},
    "/-/history": {"GET": shows(history.list_history, "insight:history")},
    "/-/metrics": {"GET": acts(metrics.show_metrics, "insight:metrics", public="metrics")},
    "/-/plans": {"POST": takes(plans.make_plan, "insight:plans")},
    "/-/survival": {"GET": shows(questions.show_survival, "insight:survival")},
    "/-/trees": {"GET": shows(trees.list_trees, "insight:trees")},
    "/-/trees/{uuid}": {"GET": shows(trees.show_tree, "insight:trees")},
    "/-/what-if": {"POST": takes(questions.ask_what_if, "insight:what_if", since=10)},
}
"""What operators ask beside the compatible API (specifications 07 and 10), there if ``[insight]/enabled``."""

CLAIMS: dict[str, dict[str, Actions]] = {
    "/-/claims": {"POST": takes(claims.create_claims, "claims:create")},
    "/-/claims/confirm": {"POST": takes(claims.confirm_claims, "claims:confirm")},
    "/-/claims/{consumer_uuid}/confirm": {"POST": acts(claims.confirm_claim, "claims:confirm")},
    "/-/groups/{name:.+}": {"GET": shows(claims.show_group, "groups:show")},
    "/-/holds": {"GET": shows(claims.list_holds, "holds:list")},
}
"""Claims decided here (specification 09), there with INSIGHT if ``[insight]/claims``."""

EXPLORER: dict[str, dict[str, Actions]] = {
    "/-/links": {"GET": shows(explorer.show_links, "insight:trees")},
    "/-/explorer": {"GET": acts(explorer.lead_to_page, None)},
    "/-/explorer/": {"GET": acts(explorer.show_file, None)},
    "/-/explorer/{path:.+}": {"GET": acts(explorer.show_file, None)},
}
"""Static files, which hold no data and ask for no rule (specification 07 section 7); there with INSIGHT."""
