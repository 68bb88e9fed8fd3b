"""Requests about providers and names: how they are drawn, what they may answer, what the book learns."""

from collections.abc import Callable, Collection
from typing import Any

from tests.proofs.year import draws
from tests.proofs.year.player import CLASSES, TRAITS, Asked, Kind, Player
from tests.support.bodies import stock
from tests.support.client import Answer


def uuid_of(asked: Asked) -> str:
    return asked.path.split("/")[2].partition("?")[0]


def draw_create(player: Player) -> Asked:
    uuid = draws.draw_provider(player, is_there=False)
    body = {"uuid": uuid, "name": f"host-{uuid[:8]}-{uuid[-2:]}"}
    if uuid in player.names.children and player.dice.random() < 0.9:
        roots = [each for each in player.names.hosts if each in player.book.providers]
        body["parent_provider_uuid"] = player.dice.choice(roots or player.names.hosts)
    elif uuid in player.names.children:
        body["parent_provider_uuid"] = player.dice.choice(player.names.hosts)
    return Asked("POST", "/resource_providers", body)


def may_create(player: Player, asked: Asked) -> Collection[int]:
    parent = asked.body.get("parent_provider_uuid")
    taken = any(each["name"] == asked.body["name"] for each in player.book.providers.values())
    if taken or asked.body["uuid"] in player.book.providers:
        return (409, 400) if parent and parent not in player.book.providers else (409,)
    return (400,) if parent and parent not in player.book.providers else (200,)


def note_created(player: Player, asked: Asked, answer: Answer) -> None:
    player.book.providers[asked.body["uuid"]] = {
        "generation": answer.json["generation"],
        "name": asked.body["name"],
        "parent_provider_uuid": asked.body.get("parent_provider_uuid"),
        "inventories": {},
        "traits": [],
        "aggregates": [],
    }


def draw_rename(player: Player) -> Asked:
    uuid = draws.draw_provider(player)
    name = f"{player.dice.choice(['host', 'node'])}-{uuid[:8]}-{uuid[-2:]}"
    body: dict[str, Any] = {"name": name}
    if player.dice.random() < 0.5:
        body["parent_provider_uuid"] = player.dice.choice([None, *player.names.hosts])
    return Asked("PUT", draws.provider_path(uuid), body)


def may_of_provider(*allowed: int) -> Callable[[Player, Asked], Collection[int]]:
    """Return what answers 404 for a missing provider, and else one of these."""
    return lambda player, asked: allowed if uuid_of(asked) in player.book.providers else (404,)


def note_renamed(player: Player, asked: Asked, answer: Answer) -> None:
    each = player.book.providers[uuid_of(asked)]
    each["name"] = asked.body["name"]
    if "parent_provider_uuid" in asked.body:
        each["parent_provider_uuid"] = asked.body["parent_provider_uuid"]


def may_delete(player: Player, asked: Asked) -> Collection[int]:
    uuid, book = uuid_of(asked), player.book
    if uuid not in book.providers:
        return (404,)
    if book.ended:
        return (204, 409)
    return (409,) if book.children(uuid) or book.in_use(uuid) else (204,)


def note_deleted(player: Player, asked: Asked, answer: Answer) -> None:
    del player.book.providers[uuid_of(asked)]


def draw_stock(player: Player) -> Asked:
    uuid = draws.draw_provider(player)
    body = stock(draws.read_generation(player, uuid), draws.draw_records(player, uuid))
    return Asked("PUT", draws.provider_path(uuid, "/inventories"), body)


def may_stock(player: Player, asked: Asked) -> Collection[int]:
    uuid, book = uuid_of(asked), player.book
    if uuid not in book.providers:
        return (404,)
    if book.ended:
        return (200, 409)
    records = asked.body["inventories"]
    kept = book.in_use(uuid) <= records.keys()
    bad = any(each["total"] < each.get("reserved", 0) for each in records.values())
    if bad:
        return (400,)
    # The book learns of generations that claims have moved when it is quiet: the request has read its own.
    return (200, 409) if kept else (409,)


def note_stocked(player: Player, asked: Asked, answer: Answer) -> None:
    player.book.stocked(uuid_of(asked), asked.body["inventories"])


def draw_add_class(player: Player) -> Asked:
    body = {"resource_class": player.dice.choice(draws.known_classes(player)), **draws.draw_record(player)}
    return Asked("POST", draws.provider_path(draws.draw_provider(player), "/inventories"), body)


def note_added_class(player: Player, asked: Asked, answer: Answer) -> None:
    record = {name: value for name, value in asked.body.items() if name != "resource_class"}
    before = player.book.providers[uuid_of(asked)]["inventories"]
    player.book.stocked(uuid_of(asked), {**before, asked.body["resource_class"]: record})


def draw_set_class(player: Player) -> Asked:
    uuid = draws.draw_provider(player)
    body = {"resource_provider_generation": draws.read_generation(player, uuid), **draws.draw_record(player)}
    name = player.dice.choice(draws.known_classes(player))
    return Asked("PUT", draws.provider_path(uuid, f"/inventories/{name}"), body)


def note_set_class(player: Player, asked: Asked, answer: Answer) -> None:
    record = {k: v for k, v in asked.body.items() if k != "resource_provider_generation"}
    before = player.book.providers[uuid_of(asked)]["inventories"]
    player.book.stocked(uuid_of(asked), {**before, asked.path.rpartition("/")[2]: record})


def draw_drop_class(player: Player) -> Asked:
    name = player.dice.choice(CLASSES)
    return Asked("DELETE", draws.provider_path(draws.draw_provider(player), f"/inventories/{name}"))


def may_drop_class(player: Player, asked: Asked) -> Collection[int]:
    uuid, name = uuid_of(asked), asked.path.rpartition("/")[2]
    if player.book.record(uuid, name) is None:
        return (404,)
    if player.book.ended:
        return (204, 409)
    return (409,) if name in player.book.in_use(uuid) else (204,)


def note_dropped_class(player: Player, asked: Asked, answer: Answer) -> None:
    del player.book.providers[uuid_of(asked)]["inventories"][asked.path.rpartition("/")[2]]


def draw_drop_stock(player: Player) -> Asked:
    return Asked("DELETE", draws.provider_path(draws.draw_provider(player), "/inventories"))


def may_drop_stock(player: Player, asked: Asked) -> Collection[int]:
    uuid = uuid_of(asked)
    if uuid not in player.book.providers:
        return (404,)
    if player.book.ended:
        return (204, 409)
    return (409,) if player.book.in_use(uuid) else (204,)


def note_dropped_stock(player: Player, asked: Asked, answer: Answer) -> None:
    player.book.stocked(uuid_of(asked), {})


def draw_traits(player: Player) -> Asked:
    uuid = draws.draw_provider(player)
    known = [t for t in TRAITS if not t.startswith("CUSTOM") or t in player.book.traits]
    generation = draws.read_generation(player, uuid)
    body = {"resource_provider_generation": generation, "traits": draws.draw_some(player, known)}
    return Asked("PUT", draws.provider_path(uuid, "/traits"), body)


def note_traits(player: Player, asked: Asked, answer: Answer) -> None:
    traits = asked.body["traits"] if asked.body else ()
    player.book.providers[uuid_of(asked)]["traits"] = sorted(traits)


def draw_no_traits(player: Player) -> Asked:
    return Asked("DELETE", draws.provider_path(draws.draw_provider(player), "/traits"))


def draw_aggregates(player: Player) -> Asked:
    uuid = draws.draw_provider(player)
    body = {
        "resource_provider_generation": draws.read_generation(player, uuid),
        "aggregates": draws.draw_some(player, player.names.aggregates),
    }
    return Asked("PUT", draws.provider_path(uuid, "/aggregates"), body)


def note_aggregates(player: Player, asked: Asked, answer: Answer) -> None:
    found = sorted(asked.body["aggregates"])
    player.book.providers[uuid_of(asked)]["aggregates"] = found


# -- names -----------------------------------------------------------------------------------------


def note_name(which: str, there: bool) -> Callable[[Player, Asked, Answer], None]:
    def note(player: Player, asked: Asked, answer: Answer) -> None:
        name = asked.body["name"] if asked.body else asked.path.rpartition("/")[2]
        (getattr(player.book, which).add if there else getattr(player.book, which).discard)(name)

    return note


def may_drop_name(which: str) -> Callable[[Player, Asked], Collection[int]]:
    def may(player: Player, asked: Asked) -> Collection[int]:
        name = asked.path.rpartition("/")[2]
        if name not in getattr(player.book, which):
            return (404,)
        part = "traits" if which == "traits" else "inventories"
        used = any(name in each[part] for each in player.book.providers.values())
        return (409,) if used else (204,)

    return may


_R = "/resource_providers/{uuid}"
TABLE: tuple[Kind, ...] = (
    Kind("provider", "POST /resource_providers", "nova agent other", draw_create, may_create, note_created,
         "provider deleted"),
    Kind("provider renamed", f"PUT {_R}", "agent other other", draw_rename,
         may_of_provider(200, 400, 409), note_renamed, "provider renamed"),
    Kind("provider deleted", f"DELETE {_R}", "agent operator other",
         lambda p: Asked("DELETE", draws.provider_path(draws.draw_provider(p))), may_delete, note_deleted,
         "provider"),
    Kind("stock", f"PUT {_R}/inventories", "nova nova agent other", draw_stock, may_stock, note_stocked,
         "stock dropped"),
    Kind("class added", f"POST {_R}/inventories", "agent", draw_add_class,
         may_of_provider(201, 409, 400), note_added_class, "class dropped"),
    Kind("class set", f"PUT {_R}/inventories/{{resource_class}}", "operator", draw_set_class,
         may_of_provider(200, 400, 409), note_set_class, "class dropped"),
    Kind("class dropped", f"DELETE {_R}/inventories/{{resource_class}}", "agent", draw_drop_class,
         may_drop_class, note_dropped_class, "class added"),
    Kind("stock dropped", f"DELETE {_R}/inventories", "agent other", draw_drop_stock, may_drop_stock,
         note_dropped_stock, "stock"),
    Kind("traits", f"PUT {_R}/traits", "agent other", draw_traits, may_of_provider(200, 409), note_traits,
         "traits deleted"),
    Kind("traits deleted", f"DELETE {_R}/traits", "agent other", draw_no_traits, may_of_provider(204),
         note_traits, "traits"),
    Kind("aggregates set", f"PUT {_R}/aggregates", "agent operator other", draw_aggregates,
         may_of_provider(200, 409), note_aggregates, "aggregates set"),
    # Names.
    Kind("class", "PUT /resource_classes/{name}", "agent other",
         lambda p: Asked("PUT", "/resource_classes/CUSTOM_FPGA"), lambda p, a: (201, 204),
         note_name("classes", True), "class deleted"),
    Kind("class posted", "POST /resource_classes", "agent",
         lambda p: Asked("POST", "/resource_classes", {"name": "CUSTOM_FPGA"}), lambda p, a: (201, 409),
         note_name("classes", True), "class deleted"),
    Kind("class deleted", "DELETE /resource_classes/{name}", "agent",
         lambda p: Asked("DELETE", "/resource_classes/CUSTOM_FPGA"), may_drop_name("classes"),
         note_name("classes", False), "class"),
    Kind("trait", "PUT /traits/{name}", "agent other", lambda p: Asked("PUT", "/traits/CUSTOM_FAST"),
         lambda p, a: (201, 204), note_name("traits", True), "trait deleted"),
    Kind("trait deleted", "DELETE /traits/{name}", "agent",
         lambda p: Asked("DELETE", "/traits/CUSTOM_FAST"), may_drop_name("traits"),
         note_name("traits", False), "trait"),
)  # fmt: skip
