"""The second half of the story: searches, claims, usages and a reshape."""

from docs._tools.api_calls import (
    GPU,
    HOST1,
    OLD_SERVER,
    OTHER_SERVER,
    POOL,
    PROJECT,
    SERVER,
    USER,
    Call,
    Operation,
    Page,
    claim,
    older,
    oldest,
    owned,
)

PROVIDERS = "/resource_providers"
PROVIDER = PROVIDERS + "/{uuid}"

CANDIDATE_PAGE = Page(
    "allocation_candidates",
    "Allocation candidates",
    "Which sets of providers could take a request right now? :doc:`/concepts/candidates` explains the "
    "question and the answer.",
    (
        Operation(
            "GET",
            "/allocation_candidates",
            "Find the sets of providers that could take a request right now. Each of "
            "``allocation_requests`` becomes the body of a claim when you add project, user, "
            "generation and type. ``provider_summaries`` describes every provider of the trees "
            "in the answer.",
            (
                Call(
                    "POST",
                    f"{PROVIDERS}/{POOL}/inventories",
                    {"resource_provider_generation": 2, "resource_class": "DISK_GB", "total": 2000},
                    201,
                    silent=True,
                ),
                Call(
                    "GET",
                    "/allocation_candidates?resources=VCPU:2,MEMORY_MB:4096,DISK_GB:40"
                    "&required=CUSTOM_GOLD&limit=10",
                    says="Two classes of a host and one of a shared pool:",
                ),
                Call(
                    "GET",
                    "/allocation_candidates?resources=VCPU:2&resources_GPU=VGPU:1&group_policy=none"
                    "&limit=1",
                    says="The resources of a granular group come from one provider; ``mappings`` names it:",
                ),
                Call(
                    "GET",
                    "/allocation_candidates?resources=VCPU:2&resources1=VGPU:1&resources2=VGPU:1",
                    None,
                    400,
                    says="Two granular groups need a policy:",
                ),
                Call("GET", "/allocation_candidates?resources=VCPU:2", silent=True, versions=True),
            ),
        ),
    ),
)

ALLOCATION_PAGE = Page(
    "allocations",
    "Allocations",
    "Allocations say which amounts a consumer has, and from which providers. A write replaces "
    "the whole set of the consumer, all or nothing. ``consumer_generation`` (1.28) is null for a "
    "consumer that must not exist yet. Otherwise it is the generation that the client has read.",
    (
        Operation(
            "PUT",
            "/allocations/{consumer_uuid}",
            "Claim resources, or replace the allocations of the consumer. An empty "
            "``allocations`` removes the consumer.",
            (
                Call(
                    "PUT",
                    f"/allocations/{SERVER}",
                    owned(
                        {
                            HOST1: {"resources": {"VCPU": 2, "MEMORY_MB": 4096}},
                            POOL: {"resources": {"DISK_GB": 40}},
                        },
                        None,
                    ),
                    204,
                ),
                Call(
                    "PUT",
                    f"/allocations/{SERVER}",
                    claim(None, VCPU=1),
                    409,
                    says="The same consumer again, as if it did not exist:",
                ),
                Call(
                    "PUT",
                    f"/allocations/{OTHER_SERVER}",
                    claim(None, MEMORY_MB=61440),
                    409,
                    says="A claim for more than is left:",
                ),
                Call(
                    "PUT",
                    f"/allocations/{OLD_SERVER}",
                    claim(None, VCPU=1),
                    204,
                    silent=True,
                ),
                Call(
                    "PUT",
                    f"/allocations/{OLD_SERVER}",
                    older(1, mappings=True),
                    204,
                    version="1.37",
                    says="From 1.34 to 1.37, without ``consumer_type``:",
                ),
                Call(
                    "PUT",
                    f"/allocations/{OLD_SERVER}",
                    older(2),
                    204,
                    version="1.33",
                    says="From 1.28 to 1.33, without ``mappings``:",
                ),
                Call(
                    "PUT",
                    f"/allocations/{OLD_SERVER}",
                    older(),
                    204,
                    version="1.27",
                    says="From 1.12 to 1.27, without a generation:",
                ),
                Call(
                    "PUT",
                    f"/allocations/{OLD_SERVER}",
                    oldest(project_id=PROJECT, user_id=USER),
                    204,
                    version="1.11",
                    says="From 1.8 to 1.11, as a list:",
                ),
                Call(
                    "PUT",
                    f"/allocations/{OLD_SERVER}",
                    oldest(),
                    204,
                    version="1.7",
                    says="Up to 1.7, without owners:",
                ),
                Call("DELETE", f"/allocations/{OLD_SERVER}", None, 204, silent=True),
            ),
        ),
        Operation(
            "GET",
            "/allocations/{consumer_uuid}",
            "Show the allocations of a consumer. For a consumer without allocations the answer "
            "is 200 with an empty ``allocations``.",
            (Call("GET", f"/allocations/{SERVER}", versions=True),),
        ),
        Operation(
            "GET",
            PROVIDER + "/allocations",
            "Show the allocations of all consumers from one provider.",
            (Call("GET", f"{PROVIDERS}/{HOST1}/allocations", versions=True),),
        ),
        Operation(
            "POST",
            "/allocations",
            "Replace the sets of several consumers at once, all or none. Use it for a move or an "
            "exchange. Here the resources of one server are split between two.",
            (
                Call(
                    "POST",
                    "/allocations",
                    {
                        SERVER: owned(
                            {
                                HOST1: {"resources": {"VCPU": 1, "MEMORY_MB": 2048}},
                                POOL: {"resources": {"DISK_GB": 20}},
                            },
                            1,
                        ),
                        OTHER_SERVER: owned(
                            {
                                HOST1: {"resources": {"VCPU": 1, "MEMORY_MB": 2048, "VGPU": 1}},
                                POOL: {"resources": {"DISK_GB": 20}},
                            },
                            None,
                        ),
                    },
                    204,
                ),
                Call(
                    "PUT",
                    f"/allocations/{OLD_SERVER}",
                    claim(None, VCPU=1),
                    204,
                    silent=True,
                ),
                Call(
                    "POST",
                    "/allocations",
                    {OLD_SERVER: older(1, mappings=True)},
                    204,
                    version="1.37",
                    says="From 1.34 to 1.37, without ``consumer_type``:",
                ),
                Call(
                    "POST",
                    "/allocations",
                    {OLD_SERVER: older(2)},
                    204,
                    version="1.33",
                    says="From 1.28 to 1.33, without ``mappings``:",
                ),
                Call(
                    "POST",
                    "/allocations",
                    {OLD_SERVER: older()},
                    204,
                    version="1.27",
                    says="From 1.13 to 1.27, without a generation:",
                ),
                Call("DELETE", f"/allocations/{OLD_SERVER}", None, 204, silent=True),
            ),
        ),
        Operation(
            "DELETE",
            "/allocations/{consumer_uuid}",
            "Remove a consumer with all its allocations. The request contains no generation; "
            "``PUT`` with an empty set protects against races. The answer is 404 if the consumer "
            "has no allocations.",
            (
                Call("DELETE", f"/allocations/{SERVER}", None, 204),
                Call("DELETE", f"/allocations/{SERVER}", None, 404),
            ),
        ),
    ),
)

USAGE_PAGE = Page(
    "usages",
    "Usages",
    "Usages are sums over allocations.",
    (
        Operation(
            "GET",
            PROVIDER + "/usages",
            "Show the used amount of each class of a provider. The answer lists every class with "
            "inventory.",
            (Call("GET", f"{PROVIDERS}/{HOST1}/usages", versions=True),),
        ),
        Operation(
            "GET",
            "/usages",
            "Show the sum of the allocations of a project, over all providers. ``user_id`` "
            "limits the sum to one user. Since 1.38 the answer is grouped by consumer type, and "
            "``consumer_type`` selects one type, or with ``all`` one sum for all types. This is "
            "the only operation that a project's reader may use.",
            (Call("GET", f"/usages?project_id={PROJECT}", versions=True),),
        ),
    ),
)

RESHAPER_PAGE = Page(
    "reshaper",
    "Reshaper",
    "The reshaper changes inventories and allocations together, in one transaction: it moves "
    "resources that are in use to another provider or another class. :doc:`/concepts/reshaping` "
    "explains it.",
    (
        Operation(
            "POST",
            "/reshaper",
            "Change inventories and allocations together, in one transaction. ``inventories`` "
            "contains all new inventories of the providers concerned, and ``allocations`` "
            "contains all new allocations of the consumers concerned. By default only the role "
            "``service`` may do this. Here the ``VGPU`` inventory of a host moves to the device "
            "below it.",
            (
                Call(
                    "POST",
                    "/reshaper",
                    {
                        "inventories": {
                            HOST1: {
                                "resource_provider_generation": 19,
                                "inventories": {
                                    "VCPU": {"total": 16, "allocation_ratio": 4.0, "max_unit": 16},
                                    "MEMORY_MB": {
                                        "total": 65536,
                                        "reserved": 1024,
                                        "step_size": 256,
                                    },
                                },
                            },
                            GPU: {
                                "resource_provider_generation": 2,
                                "inventories": {"VGPU": {"total": 8, "max_unit": 1}},
                            },
                        },
                        "allocations": {
                            OTHER_SERVER: owned(
                                {
                                    HOST1: {"resources": {"VCPU": 1, "MEMORY_MB": 2048}},
                                    GPU: {"resources": {"VGPU": 1}},
                                    POOL: {"resources": {"DISK_GB": 20}},
                                },
                                1,
                            ),
                        },
                    },
                    204,
                ),
                Call("GET", f"/allocations/{OTHER_SERVER}", says="Afterwards:"),
                Call(
                    "PUT",
                    f"/allocations/{OLD_SERVER}",
                    claim(None, VCPU=1),
                    204,
                    silent=True,
                ),
                Call(
                    "POST",
                    "/reshaper",
                    {
                        "inventories": {
                            GPU: {
                                "resource_provider_generation": 5,
                                "inventories": {"VGPU": {"total": 8, "max_unit": 1}},
                            },
                        },
                        "allocations": {OLD_SERVER: older(1, mappings=True)},
                    },
                    204,
                    version="1.37",
                    says="From 1.34 to 1.37, without ``consumer_type``:",
                ),
                Call(
                    "POST",
                    "/reshaper",
                    {
                        "inventories": {
                            GPU: {
                                "resource_provider_generation": 7,
                                "inventories": {"VGPU": {"total": 8, "max_unit": 1}},
                            },
                        },
                        "allocations": {OLD_SERVER: older(2)},
                    },
                    204,
                    version="1.33",
                    says="From 1.30 to 1.33, without ``mappings``:",
                ),
            ),
        ),
    ),
)
