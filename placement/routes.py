"""The URL map of the compatible API on one page: path, method, microversion window, policy rule, function.

The routes under ``/-/`` are in the same form in ``routes.py`` of each extension.

``shows`` answers a GET with a body (Accept is checked), ``takes`` needs a JSON body (Content-Type
is checked), ``acts`` does neither. ``since`` and ``until`` are minor versions, both inclusive.
How a request finds its line on the page: :mod:`placement.web.dispatch`.
"""

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
