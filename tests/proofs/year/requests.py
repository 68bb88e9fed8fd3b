"""The table of requests: how one is drawn, what it may answer, what it does to the book, how it is undone.

Every route of the URL page is in it; ``test_year.py`` says so.
"""

from collections.abc import Callable, Collection
from typing import Any

from tests.proofs.year.consumer_requests import (
    SEVERAL,
    draw_claims,
    draw_confirm,
    draw_confirm_many,
    draw_plan,
    draw_put,
    draw_release,
    draw_reshape,
    may_confirm,
    may_put,
    may_release,
    note_claimed,
    note_confirmed,
    note_planned,
    note_put,
    note_released,
    note_reshaped,
)
from tests.proofs.year.draws import (
    draw_consumer,
    draw_group,
    draw_provider,
    draw_query,
    provider_path,
)
from tests.proofs.year.player import CLASSES, Asked, Kind, Player
from tests.proofs.year.provider_requests import (
    draw_add_class,
    draw_aggregates,
    draw_create,
    draw_drop_class,
    draw_drop_stock,
    draw_no_traits,
    draw_rename,
    draw_set_class,
    draw_stock,
    draw_traits,
    may_create,
    may_delete,
    may_drop_class,
    may_drop_name,
    may_drop_stock,
    may_of_provider,
    may_stock,
    note_added_class,
    note_aggregates,
    note_created,
    note_deleted,
    note_dropped_class,
    note_dropped_stock,
    note_name,
    note_renamed,
    note_set_class,
    note_stocked,
    note_traits,
)

PROVIDER = "/resource_providers/{uuid}"

def draw_what_if(player: Player) -> Asked:
    dice, names = player.dice, player.names
    there = [uuid for uuid in names.providers if uuid in player.book.providers]
    uuid = dice.choice(there or names.providers)
    change = dice.choice(
        [
            {"drain": uuid},
            {"remove": uuid},
            {"place": draw_query(player), "times": 3},
            {"inventories": {uuid: {"VCPU": {"total": 50}}}},
            {"traits": {uuid: ["HW_CPU_X86_AVX"]}},
            {"aggregates": {uuid: names.aggregates[:1]}},
        ]
    )
    return Asked("POST", "/-/what-if", {"changes": [change], "query": draw_query(player)})


def reads(path: Callable[[Player], str], *also: int) -> dict[str, Any]:
    """Return how a GET is drawn, and that it answers 200 or one of these."""
    return {
        "draw": lambda player: Asked("GET", path(player)),
        "may": lambda player, asked: (200, 204, *also),
    }


def draw_hostile(player: Player) -> Asked:
    """Draw a request that must be refused, whatever the book says."""
    dice, uuid = player.dice, draw_provider(player)
    version = dice.choice(["1.0", "1.12", "1.28", "1.39"])
    odd = dice.choice([None, [], "x", -1, 10**30, {"a": {}}, "\ud800", [[[]]]])
    path = dice.choice(
        [
            "/allocations",
            "/reshaper",
            "/-/claims",
            "/-/plans",
            "/-/claims/confirm",
            f"/allocations/{draw_consumer(player)}",
            provider_path(uuid, "/inventories"),
            provider_path(uuid, "/traits"),
            provider_path(uuid),
        ]
    )
    method = "POST" if path.count("/") < 2 or path.startswith("/-/") else "PUT"
    token = "nobody:nothing" if dice.random() < 0.3 else None
    return Asked(method, path, {"claims": odd, "allocations": odd, "x": odd}, version, token)


def refused(player: Player, asked: Asked) -> Collection[int]:
    return range(400, 500)


_TEXTS = {
    "providers": lambda p: "/resource_providers?resources=VCPU:1",
    "one provider": lambda p: provider_path(draw_provider(p)),
    "inventories": lambda p: provider_path(draw_provider(p), "/inventories"),
    "inventory": lambda p: provider_path(draw_provider(p), f"/inventories/{p.dice.choice(CLASSES)}"),
    "usages": lambda p: provider_path(draw_provider(p), "/usages"),
    "aggregates": lambda p: provider_path(draw_provider(p), "/aggregates"),
    "traits of one": lambda p: provider_path(draw_provider(p), "/traits"),
    "allocations on": lambda p: provider_path(draw_provider(p), "/allocations"),
    "allocations of": lambda p: f"/allocations/{draw_consumer(p)}",
}
_R = PROVIDER
TABLE: tuple[Kind, ...] = (
    # The core: providers.
    Kind("provider", "POST /resource_providers", "nova agent", draw_create, may_create, note_created,
         "provider deleted"),
    Kind("provider renamed", f"PUT {_R}", "agent", draw_rename, may_of_provider(200, 400, 409), note_renamed,
         "provider renamed"),
    Kind("provider deleted", f"DELETE {_R}", "agent operator",
         lambda p: Asked("DELETE", provider_path(draw_provider(p))), may_delete, note_deleted, "provider"),
    Kind("stock", f"PUT {_R}/inventories", "nova nova agent", draw_stock, may_stock, note_stocked,
         "stock dropped"),
    Kind("class added", f"POST {_R}/inventories", "agent", draw_add_class,
         may_of_provider(201, 409, 400), note_added_class, "class dropped"),
    Kind("class set", f"PUT {_R}/inventories/{{resource_class}}", "operator", draw_set_class,
         may_of_provider(200, 400, 409), note_set_class, "class dropped"),
    Kind("class dropped", f"DELETE {_R}/inventories/{{resource_class}}", "agent", draw_drop_class,
         may_drop_class, note_dropped_class, "class added"),
    Kind("stock dropped", f"DELETE {_R}/inventories", "agent", draw_drop_stock, may_drop_stock,
         note_dropped_stock, "stock"),
    Kind("traits", f"PUT {_R}/traits", "agent", draw_traits, may_of_provider(200, 409), note_traits,
         "traits deleted"),
    Kind("traits deleted", f"DELETE {_R}/traits", "agent", draw_no_traits, may_of_provider(204),
         note_traits, "traits"),
    Kind("aggregates set", f"PUT {_R}/aggregates", "agent operator", draw_aggregates,
         may_of_provider(200, 409), note_aggregates, "aggregates set"),
    # The core: names.
    Kind("class", "PUT /resource_classes/{name}", "agent",
         lambda p: Asked("PUT", "/resource_classes/CUSTOM_FPGA"), lambda p, a: (201, 204),
         note_name("classes", True), "class deleted"),
    Kind("class posted", "POST /resource_classes", "agent",
         lambda p: Asked("POST", "/resource_classes", {"name": "CUSTOM_FPGA"}), lambda p, a: (201, 409),
         note_name("classes", True), "class deleted"),
    Kind("class deleted", "DELETE /resource_classes/{name}", "agent",
         lambda p: Asked("DELETE", "/resource_classes/CUSTOM_FPGA"), may_drop_name("classes"),
         note_name("classes", False), "class"),
    Kind("trait", "PUT /traits/{name}", "agent", lambda p: Asked("PUT", "/traits/CUSTOM_FAST"),
         lambda p, a: (201, 204), note_name("traits", True), "trait deleted"),
    Kind("trait deleted", "DELETE /traits/{name}", "agent",
         lambda p: Asked("DELETE", "/traits/CUSTOM_FAST"), may_drop_name("traits"),
         note_name("traits", False), "trait"),
    # The core: consumers.
    Kind("allocations", "PUT /allocations/{consumer_uuid}", "nova nova nova", draw_put, may_put, note_put,
         "released"),
    SEVERAL,
    Kind("released", "DELETE /allocations/{consumer_uuid}", "nova nova claimer operator", draw_release,
         may_release, note_released, "allocations"),
    Kind("reshape", "POST /reshaper", "agent agent", draw_reshape, lambda p, a: (204, 409, 400),
         note_reshaped, "reshape"),
    # The core: reading.
    *(Kind(name, f"GET {template}", "reader nova", **reads(_TEXTS[name], 404))
      for name, template in (
          ("providers", "/resource_providers"), ("one provider", _R), ("inventories", f"{_R}/inventories"),
          ("inventory", f"{_R}/inventories/{{resource_class}}"), ("usages", f"{_R}/usages"),
          ("aggregates", f"{_R}/aggregates"), ("traits of one", f"{_R}/traits"),
          ("allocations on", f"{_R}/allocations"), ("allocations of", "/allocations/{consumer_uuid}"))),
    *(Kind(f"GET {path or '(root)'}", f"GET {template}", "reader", **reads(lambda p, path=path: path, *also))
      for template, path, *also in (
          ("", ""), ("/", "/"), ("/resource_classes", "/resource_classes"), ("/traits", "/traits"),
          ("/resource_classes/{name}", "/resource_classes/VCPU"),
          ("/traits/{name}", "/traits/HW_CPU_X86_AVX"), ("/usages", "/usages?project_id=red"))),
    Kind("class renamed", "PUT /resource_classes/{name}", "hostile",
         lambda p: Asked("PUT", "/resource_classes/VCPU", {"name": "CUSTOM_X"}, "1.6"),
         lambda p, a: (400, 404)),
    Kind("candidates", "GET /allocation_candidates", "nova nova",
         **reads(lambda p: f"/allocation_candidates?{draw_query(p)}", 400)),
    # Claims.
    Kind("claims", "POST /-/claims", "claimer claimer claimer claimer", draw_claims,
         lambda p, a: (200, 400, 409), note_claimed, "released"),
    Kind("confirmed", "POST /-/claims/{consumer_uuid}/confirm", "claimer", draw_confirm, may_confirm,
         note_confirmed, "released"),
    Kind("several confirmed", "POST /-/claims/confirm", "claimer", draw_confirm_many, may_confirm,
         note_confirmed, "released"),
    Kind("group", "GET /-/groups/{name:.+}", "claimer",
         **reads(lambda p: f"/-/groups/{draw_group(p)}", 404)),
    Kind("holds", "GET /-/holds", "claimer operator", **reads(lambda p: "/-/holds")),
    # Plans, questions and what else operators ask.
    Kind("plan", "POST /-/plans", "operator operator operator", draw_plan, lambda p, a: (200, 400, 404, 409),
         note_planned, "allocations of several"),
    Kind("what if", "POST /-/what-if", "operator", draw_what_if, lambda p, a: (200, 400, 404, 409)),
    *(Kind(path, f"GET {path}", "operator", **reads(lambda p, make=make: make(p), 400))
      for path, make in (
          ("/-/capacity", lambda p: f"/-/capacity?{draw_query(p)}"),
          ("/-/explain", lambda p: f"/-/explain?{draw_query(p)}"),
          ("/-/survival", lambda p: f"/-/survival?level={p.dice.choice(['tree', 'aggregate'])}"),
          ("/-/capacity/history", lambda p: "/-/capacity/history?shape=small"))),
    *(Kind(path, f"GET {path}", "reader",
           **reads(lambda p, path=path, query=query: path + query, 404))
      for path, query in (
          ("/-/changes", ""), ("/-/history", "?limit=50"), ("/-/metrics", ""),
          ("/-/trees", "?allocations=true"), ("/-/links", ""), ("/-/explorer/", ""))),
    Kind("/-/explorer", "GET /-/explorer", "reader", **reads(lambda p: "/-/explorer", 308)),
    Kind("file", "GET /-/explorer/{path:.+}", "reader", **reads(lambda p: "/-/explorer/main.js", 404)),
    Kind("tree", "GET /-/trees/{uuid}", "reader", **reads(lambda p: f"/-/trees/{draw_provider(p)}", 404)),
    # Of a hostile client.
    Kind("nonsense", "", "hostile", draw_hostile, refused),
)  # fmt: skip
KIND = {each.name: each for each in TABLE}
CLIENTS = ("nova", "claimer", "agent", "operator", "reader", "hostile")
OF_CLIENT = {
    client: [each for each in TABLE for name in each.clients.split() if name == client]
    for client in CLIENTS
}
"""The lines that a kind of client draws from; what stands twice is drawn twice as often."""
