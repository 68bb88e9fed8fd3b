"""The story of the API reference: the requests to a small cloud, in their order.

Two hosts and a shared disk pool are built, searched, claimed from, reshaped and taken down again.
Each step expects a status; :mod:`docs._tools.api_examples` carries the steps out.
"""

from docs._tools.api_calls import (
    AGGREGATE,
    GPU,
    HOST1,
    HOST2,
    POOL,
    UNKNOWN,
    Call,
    Operation,
    Page,
)
from docs._tools.api_story_claims import ALLOCATION_PAGE, CANDIDATE_PAGE, RESHAPER_PAGE, USAGE_PAGE
from docs._tools.api_story_gangs import CLAIMS_PAGE

PROVIDERS = "/resource_providers"
PROVIDER = PROVIDERS + "/{uuid}"
INVENTORIES = PROVIDER + "/inventories"
INVENTORY = INVENTORIES + "/{resource_class}"

ROOT = Page(
    "root",
    "Versions",
    "The root document says which microversions the service has.",
    (
        Operation(
            "GET",
            "/",
            "Show the microversions of the service. This needs no token and no database. The "
            "empty path returns the same document.",
            (Call("GET", "/", versions=True),),
        ),
        Operation(
            "GET", "", "The mount point itself, without a slash. It returns the same answer."
        ),
    ),
)

CLASSES = Page(
    "resource_classes",
    "Resource classes",
    "A class is a kind of resource that can be counted. The service has the standard classes. "
    "The names of custom classes begin with ``CUSTOM_``.",
    (
        Operation(
            "GET",
            "/resource_classes",
            "List all classes.",
            (Call("GET", "/resource_classes", shorten="resource_classes", versions=True),),
        ),
        Operation(
            "POST",
            "/resource_classes",
            "Create a custom class. The answer is 409 if a class with this name exists. To "
            "create a class that perhaps exists already, use ``PUT``.",
            (Call("POST", "/resource_classes", {"name": "CUSTOM_BAREMETAL"}, 201),),
        ),
        Operation(
            "PUT",
            "/resource_classes/{name}",
            "Make sure that a custom class exists. The answer is 201 if the request created it, "
            "and 204 if it existed. The service ignores a body. Below 1.7 the operation renames "
            'a class, and the body is ``{"name": …}``.',
            (
                Call("PUT", "/resource_classes/CUSTOM_LICENSE", None, 201),
                Call("PUT", "/resource_classes/CUSTOM_LICENSE", None, 204),
                Call(
                    "PUT",
                    "/resource_classes/CUSTOM_LICENSE",
                    {"name": "CUSTOM_LICENCE"},
                    version="1.6",
                    says="At 1.6, this renames a class:",
                ),
            ),
        ),
        Operation(
            "GET",
            "/resource_classes/{name}",
            "Show one class.",
            (Call("GET", "/resource_classes/CUSTOM_LICENCE", versions=True),),
        ),
        Operation(
            "DELETE",
            "/resource_classes/{name}",
            "Delete a custom class. The answer is 400 for a standard class, and 409 while an "
            "inventory uses the class.",
            (
                Call("DELETE", "/resource_classes/CUSTOM_LICENCE", None, 204),
                Call(
                    "DELETE",
                    "/resource_classes/VCPU",
                    None,
                    400,
                    says="A standard class cannot be deleted:",
                ),
            ),
        ),
    ),
)

PROVIDER_PAGE = Page(
    "resource_providers",
    "Resource providers",
    "A provider is a thing that has resources: a host, a NUMA node, a device, a storage pool.",
    (
        Operation(
            "POST",
            PROVIDERS,
            "Create a provider. If ``uuid`` is missing, the service generates one. "
            "``parent_provider_uuid`` (1.14) puts the provider below another one. Before 1.20 "
            "the answer is 201 without a body.",
            (
                Call("POST", PROVIDERS, {"name": "host1", "uuid": HOST1}),
                Call(
                    "POST",
                    PROVIDERS,
                    {"name": "host1-gpu0", "uuid": GPU, "parent_provider_uuid": HOST1},
                    says="A child of that provider:",
                ),
                Call(
                    "POST",
                    PROVIDERS,
                    {"name": "host1"},
                    409,
                    says="Names are unique in the whole cloud:",
                ),
                Call(
                    "POST",
                    PROVIDERS,
                    {"name": "host2", "uuid": HOST2},
                    201,
                    version="1.19",
                    says="Up to 1.19 the answer has no body:",
                ),
                Call("POST", PROVIDERS, {"name": "pool", "uuid": POOL}, silent=True),
            ),
        ),
        Operation(
            "GET",
            PROVIDERS,
            "List providers. Filters are combined with *and*: ``name``, ``uuid``, ``member_of`` (1.3), "
            "``resources`` (1.4: providers that could take this much now), ``in_tree`` (1.14), "
            "``required`` (1.18).",
            (
                Call("GET", f"{PROVIDERS}?in_tree={HOST1}"),
                Call("GET", f"{PROVIDERS}?name=host1", silent=True, versions=True),
            ),
        ),
        Operation(
            "GET",
            PROVIDER,
            "Show one provider.",
            (
                Call("GET", f"{PROVIDERS}/{GPU}", versions=True),
                Call("GET", f"{PROVIDERS}/{UNKNOWN}", None, 404, says="A provider that does not exist:"),
                Call(
                    "GET",
                    f"{PROVIDERS}/{UNKNOWN}",
                    None,
                    404,
                    version="1.22",
                    says="Up to 1.22 errors have no ``code``:",
                ),
            ),
        ),
        Operation(
            "PUT",
            PROVIDER,
            "Rename a provider, or give it another parent. Without ``parent_provider_uuid`` the "
            "parent does not change. Since 1.37 you can change a parent, or remove it with null. "
            "Before 1.37 you can only give a parent to a root. The request contains no "
            "generation, and changes none.",
            (
                Call(
                    "PUT",
                    f"{PROVIDERS}/{GPU}",
                    {"name": "host1_gpu0", "parent_provider_uuid": HOST1},
                ),
            ),
        ),
        Operation(
            "DELETE",
            PROVIDER,
            "Delete a provider with its inventories, traits and aggregate memberships. The "
            "answer is 409 while it has children or allocations.",
            (
                Call(
                    "DELETE", f"{PROVIDERS}/{HOST1}", None, 409, says="A parent cannot be deleted:"
                ),
                Call("DELETE", f"{PROVIDERS}/{HOST2}", None, 204),
            ),
        ),
    ),
)

INVENTORY_PAGE = Page(
    "inventories",
    "Inventories",
    "An inventory says how much of a class a provider has. Consumers can use ``(total - "
    "reserved) * allocation_ratio``. Each allocation must be at least ``min_unit``, at most "
    "``max_unit``, and a multiple of ``step_size``. Every write contains the generation of the "
    "provider that the client has read.",
    (
        Operation(
            "PUT",
            INVENTORIES,
            "Replace all inventories. The request removes records that it does not contain. The "
            "answer is 409 (``placement.inventory.inuse``) if such a record is in use.",
            (
                Call(
                    "PUT",
                    f"{PROVIDERS}/{HOST1}/inventories",
                    {
                        "resource_provider_generation": 0,
                        "inventories": {
                            "VCPU": {"total": 16, "allocation_ratio": 4.0, "max_unit": 16},
                            "MEMORY_MB": {"total": 65536, "reserved": 1024, "step_size": 256},
                        },
                    },
                ),
                Call(
                    "PUT",
                    f"{PROVIDERS}/{HOST1}/inventories",
                    {"resource_provider_generation": 0, "inventories": {}},
                    409,
                    says="With an old generation of the provider:",
                ),
            ),
        ),
        Operation(
            "POST",
            INVENTORIES,
            "Add one record.",
            (
                Call(
                    "POST",
                    f"{PROVIDERS}/{HOST1}/inventories",
                    {"resource_provider_generation": 1, "resource_class": "VGPU", "total": 8},
                    201,
                ),
            ),
        ),
        Operation(
            "GET",
            INVENTORIES,
            "Show all inventories of a provider.",
            (Call("GET", f"{PROVIDERS}/{HOST1}/inventories", versions=True),),
        ),
        Operation(
            "GET",
            INVENTORY,
            "Show the inventory of one class.",
            (Call("GET", f"{PROVIDERS}/{HOST1}/inventories/VCPU", versions=True),),
        ),
        Operation(
            "PUT",
            INVENTORY,
            "Replace one existing record. Fields that the request does not contain get their "
            "defaults.",
            (
                Call(
                    "PUT",
                    f"{PROVIDERS}/{HOST1}/inventories/VGPU",
                    {"resource_provider_generation": 2, "total": 8, "max_unit": 1},
                ),
            ),
        ),
        Operation(
            "DELETE",
            INVENTORY,
            "Delete one record. The answer is 409 while it is in use.",
            (
                Call("PUT", "/resource_classes/CUSTOM_X", None, 201, silent=True),
                Call(
                    "POST",
                    f"{PROVIDERS}/{HOST1}/inventories",
                    {"resource_provider_generation": 3, "resource_class": "CUSTOM_X", "total": 1},
                    201,
                    silent=True,
                ),
                Call("DELETE", f"{PROVIDERS}/{HOST1}/inventories/CUSTOM_X", None, 204),
            ),
        ),
        Operation(
            "DELETE",
            INVENTORIES,
            "Delete all records. Below 1.5 the answer is 405. The answer is 409 while a record "
            "is in use. The request contains no generation: use ``PUT`` with an empty object if "
            "a race matters.",
            (
                Call(
                    "POST",
                    f"{PROVIDERS}/{GPU}/inventories",
                    {"resource_provider_generation": 0, "resource_class": "PGPU", "total": 1},
                    201,
                    silent=True,
                ),
                Call(
                    "DELETE",
                    f"{PROVIDERS}/{GPU}/inventories",
                    None,
                    405,
                    version="1.4",
                    says="Up to 1.4:",
                ),
                Call("DELETE", f"{PROVIDERS}/{GPU}/inventories", None, 204, says="Since 1.5:"),
            ),
        ),
    ),
)

AGGREGATE_PAGE = Page(
    "aggregates",
    "Aggregates",
    "An aggregate is a group of providers, identified by a uuid. A provider with the trait "
    "``MISC_SHARES_VIA_AGGREGATE`` serves the members of its aggregates.",
    (
        Operation(
            "PUT",
            PROVIDER + "/aggregates",
            "Replace the aggregates of a provider. Before 1.19 the body is only the list, and "
            "the service compares no generation.",
            (
                Call(
                    "PUT",
                    f"{PROVIDERS}/{HOST1}/aggregates",
                    {"resource_provider_generation": 5, "aggregates": [AGGREGATE]},
                ),
                Call(
                    "PUT",
                    f"{PROVIDERS}/{HOST1}/aggregates",
                    {"resource_provider_generation": 5, "aggregates": []},
                    409,
                    says="With an old generation of the provider:",
                ),
                Call(
                    "PUT",
                    f"{PROVIDERS}/{POOL}/aggregates",
                    {"resource_provider_generation": 0, "aggregates": [AGGREGATE]},
                    silent=True,
                ),
                Call(
                    "PUT",
                    f"{PROVIDERS}/{POOL}/aggregates",
                    [AGGREGATE],
                    version="1.18",
                    says="From 1.1 to 1.18 the body is the list, and no generation changes:",
                ),
            ),
        ),
        Operation(
            "GET",
            PROVIDER + "/aggregates",
            "Show the aggregates of a provider.",
            (Call("GET", f"{PROVIDERS}/{HOST1}/aggregates", versions=True),),
        ),
    ),
)

TRAIT_PAGE = Page(
    "traits",
    "Traits",
    "A trait is a property of a provider, without a number. The service has the standard traits. "
    "The names of custom traits begin with ``CUSTOM_``.",
    (
        Operation(
            "PUT",
            "/traits/{name}",
            "Make sure that a custom trait exists. The answer is 201 if the request created it, "
            "and 204 if it existed.",
            (
                Call("PUT", "/traits/CUSTOM_GOLD", None, 201),
                Call("PUT", "/traits/CUSTOM_SILVER", None, 201, silent=True),
            ),
        ),
        Operation(
            "GET",
            "/traits",
            "List traits. ``name=startswith:PREFIX`` and ``name=in:A,B`` filter the list. "
            "``associated=true`` lists only the traits that some provider has, and ``false`` "
            "lists only the others.",
            (Call("GET", "/traits?name=startswith:CUSTOM_", versions=True),),
        ),
        Operation(
            "GET",
            "/traits/{name}",
            "Check whether a trait exists. The answer is 204 or 404.",
            (Call("GET", "/traits/CUSTOM_GOLD", None, 204),),
        ),
        Operation(
            "DELETE",
            "/traits/{name}",
            "Delete a custom trait. The answer is 409 while a provider has it.",
            (Call("DELETE", "/traits/CUSTOM_SILVER", None, 204),),
        ),
        Operation(
            "PUT",
            PROVIDER + "/traits",
            "Replace the traits of a provider. All traits must exist.",
            (
                Call(
                    "PUT",
                    f"{PROVIDERS}/{HOST1}/traits",
                    {
                        "resource_provider_generation": 6,
                        "traits": ["CUSTOM_GOLD", "HW_CPU_X86_AVX2"],
                    },
                ),
                Call(
                    "PUT",
                    f"{PROVIDERS}/{POOL}/traits",
                    {
                        "resource_provider_generation": 1,
                        "traits": ["MISC_SHARES_VIA_AGGREGATE"],
                    },
                    silent=True,
                ),
            ),
        ),
        Operation(
            "GET",
            PROVIDER + "/traits",
            "Show the traits of a provider.",
            (Call("GET", f"{PROVIDERS}/{HOST1}/traits", versions=True),),
        ),
        Operation(
            "DELETE",
            PROVIDER + "/traits",
            "Remove all traits from a provider. The request contains no generation.",
            (Call("DELETE", f"{PROVIDERS}/{GPU}/traits", None, 204),),
        ),
    ),
)

PAGES = (
    ROOT,
    CLASSES,
    PROVIDER_PAGE,
    INVENTORY_PAGE,
    AGGREGATE_PAGE,
    TRAIT_PAGE,
    CANDIDATE_PAGE,
    ALLOCATION_PAGE,
    USAGE_PAGE,
    RESHAPER_PAGE,
    CLAIMS_PAGE,
)
