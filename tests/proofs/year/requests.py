"""The table of requests: how one is drawn, what it may answer, what it does to the book, how it is undone.

Every route of the URL page is in it; ``test_year.py`` says so.
"""

from collections.abc import Callable, Collection
from typing import Any

from tests.proofs.year import consumer_requests, draws, provider_requests
from tests.proofs.year.player import CLASSES, Asked, Kind, Player


def draw_what_if(player: Player) -> Asked:
    dice, names = player.dice, player.names
    there = [uuid for uuid in names.providers if uuid in player.book.providers]
    uuid = dice.choice(there or names.providers)
    change = dice.choice(
        [
            {"drain": uuid},
            {"remove": uuid},
            {"place": draws.draw_query(player), "times": 3},
            {"inventories": {uuid: {"VCPU": {"total": 50}}}},
            {"traits": {uuid: ["HW_CPU_X86_AVX"]}},
            {"aggregates": {uuid: names.aggregates[:1]}},
        ]
    )
    return Asked("POST", "/-/what-if", {"changes": [change], "query": draws.draw_query(player)})


def reads(path: Callable[[Player], str], *also: int) -> dict[str, Any]:
    """Return how a GET is drawn, and that it answers 200 or one of these."""
    return {
        "draw": lambda player: Asked("GET", path(player)),
        "may": lambda player, asked: (200, 204, *also),
    }


def draw_hostile(player: Player) -> Asked:
    """Draw a request that must be refused, whatever the book says."""
    dice, uuid = player.dice, draws.draw_provider(player)
    version = dice.choice(["1.0", "1.12", "1.28", "1.39"])
    odd = dice.choice([None, [], "x", -1, 10**30, {"a": {}}, "\ud800", [[[]]]])
    path = dice.choice(
        [
            "/allocations",
            "/reshaper",
            "/-/claims",
            "/-/plans",
            "/-/claims/confirm",
            f"/allocations/{draws.draw_consumer(player)}",
            draws.provider_path(uuid, "/inventories"),
            draws.provider_path(uuid, "/traits"),
            draws.provider_path(uuid),
        ]
    )
    method = "POST" if path.count("/") < 2 or path.startswith("/-/") else "PUT"
    token = "nobody:nothing" if dice.random() < 0.3 else None
    return Asked(method, path, {"claims": odd, "allocations": odd, "x": odd}, version, token)


def refused(player: Player, asked: Asked) -> Collection[int]:
    return range(400, 500)


_TEXTS = {
    "providers": lambda p: "/resource_providers?resources=VCPU:1",
    "one provider": lambda p: draws.provider_path(draws.draw_provider(p)),
    "inventories": lambda p: draws.provider_path(draws.draw_provider(p), "/inventories"),
    "inventory": lambda p: draws.provider_path(
        draws.draw_provider(p), f"/inventories/{p.dice.choice(CLASSES)}"),
    "usages": lambda p: draws.provider_path(draws.draw_provider(p), "/usages"),
    "aggregates": lambda p: draws.provider_path(draws.draw_provider(p), "/aggregates"),
    "traits of one": lambda p: draws.provider_path(draws.draw_provider(p), "/traits"),
    "allocations on": lambda p: draws.provider_path(draws.draw_provider(p), "/allocations"),
    "allocations of": lambda p: f"/allocations/{draws.draw_consumer(p)}",
}
_R = "/resource_providers/{uuid}"
TABLE: tuple[Kind, ...] = (
    *provider_requests.TABLE,
    *consumer_requests.TABLE,
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
         **reads(lambda p: f"/allocation_candidates?{draws.draw_query(p)}", 400)),
    # Claims.
    *consumer_requests.CLAIMS,
    Kind("group", "GET /-/groups/{name:.+}", "claimer",
         **reads(lambda p: f"/-/groups/{draws.draw_group(p)}", 404)),
    Kind("holds", "GET /-/holds", "claimer operator", **reads(lambda p: "/-/holds")),
    # Plans, questions and what else operators ask.
    consumer_requests.PLAN,
    Kind("what if", "POST /-/what-if", "operator", draw_what_if, lambda p, a: (200, 400, 404, 409)),
    *(Kind(path, f"GET {path}", "operator", **reads(lambda p, make=make: make(p), 400))
      for path, make in (
          ("/-/capacity", lambda p: f"/-/capacity?{draws.draw_query(p)}"),
          ("/-/explain", lambda p: f"/-/explain?{draws.draw_query(p)}"),
          ("/-/survival", lambda p: f"/-/survival?level={p.dice.choice(['tree', 'aggregate'])}"),
          ("/-/capacity/history", lambda p: "/-/capacity/history?shape=small"))),
    *(Kind(path, f"GET {path}", "reader",
           **reads(lambda p, path=path, query=query: path + query, 404))
      for path, query in (
          ("/-/changes", ""), ("/-/history", "?limit=50"), ("/-/metrics", ""),
          ("/-/trees", "?allocations=true"), ("/-/links", ""), ("/-/explorer/", ""))),
    Kind("/-/explorer", "GET /-/explorer", "reader", **reads(lambda p: "/-/explorer", 308)),
    Kind("file", "GET /-/explorer/{path:.+}", "reader", **reads(lambda p: "/-/explorer/main.js", 404)),
    Kind("tree", "GET /-/trees/{uuid}", "reader",
         **reads(lambda p: f"/-/trees/{draws.draw_provider(p)}", 404)),
    # Of a hostile client.
    Kind("nonsense", "", "hostile", draw_hostile, refused),
)  # fmt: skip
KIND = {each.name: each for each in TABLE}
CLIENTS = ("nova", "claimer", "agent", "operator", "reader", "hostile")
OTHER = "other"
"""The OpenStack service, while it writes too."""
OF_CLIENT = {
    client: [each for each in TABLE for name in each.clients.split() if name == client]
    for client in (*CLIENTS, OTHER)
}
"""The lines that a kind of client draws from; what stands twice is drawn twice as often."""
