"""Requests about providers and names: how they are drawn, what they may answer, what the book learns."""

from collections.abc import Callable, Collection
from typing import Any

from tests.proofs.year.draws import (
    draw_provider,
    draw_record,
    draw_records,
    draw_some,
    known_classes,
    provider_path,
    read_generation,
)
from tests.proofs.year.player import CLASSES, TRAITS, Asked, Player
from tests.support.bodies import stock
from tests.support.client import Answer


def uuid_of(asked: Asked) -> str:
    return asked.path.split("/")[2].partition("?")[0]


def draw_create(player: Player) -> Asked:
    uuid = draw_provider(player, is_there=False)
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
    uuid = draw_provider(player)
    name = f"{player.dice.choice(['host', 'node'])}-{uuid[:8]}-{uuid[-2:]}"
    body: dict[str, Any] = {"name": name}
    if player.dice.random() < 0.5:
        body["parent_provider_uuid"] = player.dice.choice([None, *player.names.hosts])
    return Asked("PUT", provider_path(uuid), body)


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
    uuid = draw_provider(player)
    body = stock(read_generation(player, uuid), draw_records(player, uuid))
    return Asked("PUT", provider_path(uuid, "/inventories"), body)


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
    body = {"resource_class": player.dice.choice(known_classes(player)), **draw_record(player)}
    return Asked("POST", provider_path(draw_provider(player), "/inventories"), body)


def note_added_class(player: Player, asked: Asked, answer: Answer) -> None:
    record = {name: value for name, value in asked.body.items() if name != "resource_class"}
    before = player.book.providers[uuid_of(asked)]["inventories"]
    player.book.stocked(uuid_of(asked), {**before, asked.body["resource_class"]: record})


def draw_set_class(player: Player) -> Asked:
    uuid = draw_provider(player)
    body = {"resource_provider_generation": read_generation(player, uuid), **draw_record(player)}
    name = player.dice.choice(known_classes(player))
    return Asked("PUT", provider_path(uuid, f"/inventories/{name}"), body)


def note_set_class(player: Player, asked: Asked, answer: Answer) -> None:
    record = {k: v for k, v in asked.body.items() if k != "resource_provider_generation"}
    before = player.book.providers[uuid_of(asked)]["inventories"]
    player.book.stocked(uuid_of(asked), {**before, asked.path.rpartition("/")[2]: record})


def draw_drop_class(player: Player) -> Asked:
    name = player.dice.choice(CLASSES)
    return Asked("DELETE", provider_path(draw_provider(player), f"/inventories/{name}"))


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
    return Asked("DELETE", provider_path(draw_provider(player), "/inventories"))


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
    uuid = draw_provider(player)
    known = [t for t in TRAITS if not t.startswith("CUSTOM") or t in player.book.traits]
    body = {"resource_provider_generation": read_generation(player, uuid), "traits": draw_some(player, known)}
    return Asked("PUT", provider_path(uuid, "/traits"), body)


def note_traits(player: Player, asked: Asked, answer: Answer) -> None:
    traits = asked.body["traits"] if asked.body else ()
    player.book.providers[uuid_of(asked)]["traits"] = sorted(traits)


def draw_no_traits(player: Player) -> Asked:
    return Asked("DELETE", provider_path(draw_provider(player), "/traits"))


def draw_aggregates(player: Player) -> Asked:
    uuid = draw_provider(player)
    body = {
        "resource_provider_generation": read_generation(player, uuid),
        "aggregates": draw_some(player, player.names.aggregates),
    }
    return Asked("PUT", provider_path(uuid, "/aggregates"), body)


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
