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
    "Say what consumers need: the service chooses the places and claims them in one transaction, for all "
    "consumers or for none. The requests of this page are beside the versioned API and speak the shapes "
    "of 1.39. ``[insight]/enabled`` serves them. :doc:`/specification/09-claims` has the rules, "
    ":doc:`/howto/claim-eight-or-none` an example from beginning to end.",
    (
        Operation(
            "POST",
            "/-/claims",
            "Choose places for consumers and claim them, all or none. "
            "``query`` is a query string of ``GET /allocation_candidates``; ``queries`` are several, of "
            "which the first that can be granted is. ``groups`` says the rules of groups; "
            "``hold_s`` lets the claims end by themselves unless they are confirmed.",
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
                    says="A third has no host of its own. The error says so for certain, and why:",
                ),
            ),
        ),
        Operation(
            "GET",
            "/-/holds",
            "List who is held until when, in the order of the uuids.",
            (Call("GET", "/-/holds?group=web", versions=True),),
        ),
        Operation(
            "POST",
            "/-/claims/confirm",
            "Keep what consumers hold, all or none. Their generations step.",
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
                    says="What is not held cannot be confirmed:",
                ),
            ),
        ),
        Operation(
            "POST",
            "/-/claims/{consumer_uuid}/confirm",
            "Keep what one consumer holds, of whatever generation it is.",
            (Call("POST", f"/-/claims/{WEB2}/confirm"),),
        ),
        Operation(
            "GET",
            "/-/groups/{name}",
            "Show a group: its rule, its members with the domains that they are in, and whether the rule "
            "is kept.",
            (Call("GET", "/-/groups/web", versions=True),),
        ),
    ),
)
