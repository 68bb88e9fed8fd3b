"""The last page of the story: claims for which the service chooses the places (specification 09)."""

from typing import Any

from docs._tools.api_calls import PROJECT, USER, Call, Operation, Page

PROVIDERS = "/resource_providers"
HOST7, HOST8 = "77777777-0007-4777-8777-777777777777", "88888888-0008-4888-8888-888888888888"
RACK = "aaaaaaaa-0007-4aaa-8aaa-aaaaaaaaaaaa"
WEB1, WEB2, WEB3 = (f"eeeeeeee-000{n}-4eee-8eee-eeeeeeeeeeee" for n in (1, 2, 3))


def _host(uuid: str, name: str, **totals: int) -> tuple[Call, ...]:
    inventories = {each: {"total": total} for each, total in totals.items()}
    path = f"{PROVIDERS}/{uuid}"
    return (
        Call("POST", PROVIDERS, {"name": name, "uuid": uuid}, silent=True),
        Call(
            "PUT",
            f"{path}/inventories",
            {"resource_provider_generation": 0, "inventories": inventories},
            silent=True,
        ),
        Call(
            "PUT",
            f"{path}/aggregates",
            {"resource_provider_generation": 1, "aggregates": [RACK]},
            silent=True,
        ),
    )


def _claim(consumer: str, amount: int) -> dict[str, Any]:
    return {
        "consumer_uuid": consumer,
        "consumer_generation": None,
        "project_id": PROJECT,
        "user_id": USER,
        "consumer_type": "INSTANCE",
        "query": f"resources=VCPU:{amount}&member_of={RACK}",
        "groups": ["web"],
    }


CLAIMS_PAGE = Page(
    "claims",
    "Claims decided here",
    "You say what consumers need. The service chooses the places and claims them in one "
    "transaction, for all consumers or for none. The requests of this page are not part of the "
    "versioned API; they use the formats of 1.39. The service answers them if "
    "``[insight]/enabled`` is set. :doc:`/specification/09-claims` has the rules, and "
    ":doc:`/howto/claim-eight-or-none` has a complete example.",
    (
        Operation(
            "POST",
            "/-/claims",
            "Choose places for consumers and claim them, all or none. ``query`` is a query "
            "string of ``GET /allocation_candidates``. ``queries`` has several query strings; "
            "the service grants the first one that is possible. ``groups`` has the rules of "
            "groups. With ``hold_s`` the claims expire unless they are confirmed.",
            (
                *_host(HOST7, "host7", VCPU=4),
                *_host(HOST8, "host8", VCPU=2),
                Call(
                    "POST",
                    "/-/claims",
                    {
                        "strategy": "spread",
                        "hold_s": 300,
                        "groups": {"web": {"rule": "apart"}},
                        "claims": [_claim(WEB1, 3), _claim(WEB2, 1)],
                    },
                    says="Two servers on two hosts, held for five minutes:",
                ),
                Call(
                    "POST",
                    "/-/claims",
                    {"claims": [_claim(WEB3, 1)]},
                    409,
                    says="There is no host for a third server. The error says that this is certain, and why:",
                ),
            ),
        ),
        Operation(
            "GET",
            "/-/holds",
            "List the consumers with a hold and when it expires, in the order of the uuids.",
            (Call("GET", "/-/holds?group=web", versions=True),),
        ),
        Operation(
            "POST",
            "/-/claims/confirm",
            "Confirm the holds of consumers, all or none. Their generations increase.",
            (
                Call(
                    "POST",
                    "/-/claims/confirm",
                    {"consumers": [{"consumer_uuid": WEB1, "consumer_generation": 1}]},
                ),
                Call(
                    "POST",
                    "/-/claims/confirm",
                    {"consumers": [{"consumer_uuid": WEB1, "consumer_generation": 2}]},
                    409,
                    says="A consumer without a hold cannot be confirmed:",
                ),
            ),
        ),
        Operation(
            "POST",
            "/-/claims/{consumer_uuid}/confirm",
            "Confirm the hold of one consumer, whatever its generation is.",
            (Call("POST", f"/-/claims/{WEB2}/confirm"),),
        ),
        Operation(
            "GET",
            "/-/groups/{name}",
            "Show a group: its rule, its members with their domains, and whether the members "
            "keep the rule.",
            (Call("GET", "/-/groups/web", versions=True),),
        ),
    ),
)
