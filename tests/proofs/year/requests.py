"""The table of requests: how one is drawn, what it may answer, what it does to the book, how it is undone.

Every route of the URL page is in it; ``test_year.py`` says so.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tests.proofs.year.book import Broken, Sets
from tests.proofs.year.player import CLASSES, TRAITS, Asked, Kind, Player
from tests.support.bodies import stock
from tests.support.client import Answer

FINE = (200, 201, 204)
OWNERS = (("red", "ann"), ("red", "bob"), ("blue", "ann"))
PROVIDER = "/resource_providers/{uuid}"
QUERIES = (
    "resources=VCPU:1",
    "resources=VCPU:2,MEMORY_MB:3",
    "resources=VCPU:1&required=HW_CPU_X86_AVX",
    "resources_A=VCPU:1&resources_B=DISK_GB:1&group_policy=none",
    "resources=CUSTOM_FPGA:1",
    "resources=VCPU:1&required=!STORAGE_DISK_SSD",
)

# -- what is drawn ---------------------------------------------------------------------------------


def _path(uuid: str, part: str = "") -> str:
    return f"/resource_providers/{uuid}{part}"


def _provider(player: Player, is_there: bool = True) -> str:
    """Draw a provider, in most cases one that is there, or one that is not."""
    names = player.names.providers
    fitting = [uuid for uuid in names if (uuid in player.book.providers) == is_there]
    return player.dice.choice(fitting if fitting and player.dice.random() < 0.9 else names)


def _some(player: Player, names: Collection[str]) -> list[str]:
    return player.dice.sample(sorted(names), player.dice.randint(0, len(names)))


def _generation(player: Player, uuid: str) -> int:
    """Return the generation of a provider; now and then another one."""
    shown = player.ask(_path(uuid))
    now = shown["generation"] if shown else 0
    return now if player.dice.random() < 0.92 else now + 1


def _known(player: Player, consumer: str) -> int | None:
    """Return the generation of a consumer; now and then another one."""
    shown = player.ask(f"/allocations/{consumer}") or {}
    now: int | None = shown.get("consumer_generation")
    return now if player.dice.random() < 0.92 else 7


def _classes(player: Player) -> list[str]:
    known = player.book.classes
    return [name for name in CLASSES if not name.startswith("CUSTOM") or name in known]


def _record(player: Player) -> dict[str, Any]:
    dice = player.dice
    record: dict[str, Any] = {"total": dice.randint(2, 40)}
    if dice.random() < 0.3:
        record |= {"reserved": dice.randint(0, 2), "allocation_ratio": dice.choice([1.0, 1.5, 4.0])}
    return record


def _records(player: Player, provider: str) -> dict[str, Any]:
    names = _some(player, _classes(player))
    # A class of which something is in use cannot go.
    names += sorted(player.book.in_use(provider) - set(names)) if player.dice.random() < 0.8 else ()
    return {name: _record(player) for name in names or ["VCPU"]}


def _sets(player: Player) -> dict[str, dict[str, int]]:
    """Draw allocations on a provider or two, in most cases such as are there."""
    dice, book = player.dice, player.book
    there = [uuid for uuid in book.providers if book.providers[uuid]["inventories"]]
    there = [*there, *player.names.common] or player.names.providers
    if dice.random() < 0.05:
        there = player.names.providers
    sets = {}
    for uuid in dice.sample(there, min(len(there), dice.choice([1, 1, 1, 2]))):
        names = book.providers.get(uuid, {"inventories": {}})["inventories"] or ["VCPU"]
        sets[uuid] = {name: dice.randint(1, 4) for name in dice.sample(sorted(names), 1)}
    return sets


def _entry(player: Player, consumer: str, sets: Sets) -> dict[str, Any]:
    project, user = player.dice.choice(OWNERS)
    return {
        "allocations": {uuid: {"resources": dict(held)} for uuid, held in sets.items()},
        "project_id": project,
        "user_id": user,
        "consumer_generation": _known(player, consumer),
        "consumer_type": player.dice.choice(["INSTANCE", "MIGRATION"]),
    }


def _consumer(player: Player) -> str:
    return player.dice.choice(player.names.consumers)


def _query(player: Player) -> str:
    known = [each for each in QUERIES if "FPGA" not in each or "CUSTOM_FPGA" in player.book.classes]
    return player.dice.choice(known if player.dice.random() < 0.95 else QUERIES)


def _group(player: Player) -> str:
    return player.dice.choice(sorted(player.book.groups.intersection(player.names.groups)) or player.names.groups)


# -- providers -------------------------------------------------------------------------------------


def _uuid_of(asked: Asked) -> str:
    return asked.path.split("/")[2].partition("?")[0]


def _draw_create(player: Player) -> Asked:
    uuid = _provider(player, is_there=False)
    body = {"uuid": uuid, "name": f"host-{uuid[:8]}-{uuid[-2:]}"}
    if uuid in player.names.children and player.dice.random() < 0.9:
        roots = [each for each in player.names.hosts if each in player.book.providers]
        body["parent_provider_uuid"] = player.dice.choice(roots or player.names.hosts)
    elif uuid in player.names.children:
        body["parent_provider_uuid"] = player.dice.choice(player.names.hosts)
    return Asked("POST", "/resource_providers", body)


def _may_create(player: Player, asked: Asked) -> Collection[int]:
    parent = asked.body.get("parent_provider_uuid")
    taken = any(each["name"] == asked.body["name"] for each in player.book.providers.values())
    if taken or asked.body["uuid"] in player.book.providers:
        return (409, 400) if parent and parent not in player.book.providers else (409,)
    return (400,) if parent and parent not in player.book.providers else (200,)


def _created(player: Player, asked: Asked, answer: Answer) -> None:
    player.book.providers[asked.body["uuid"]] = {
        "generation": answer.json["generation"],
        "name": asked.body["name"],
        "parent_provider_uuid": asked.body.get("parent_provider_uuid"),
        "inventories": {},
        "traits": [],
        "aggregates": [],
    }


def _draw_rename(player: Player) -> Asked:
    uuid = _provider(player)
    name = f"{player.dice.choice(['host', 'node'])}-{uuid[:8]}-{uuid[-2:]}"
    body: dict[str, Any] = {"name": name}
    if player.dice.random() < 0.5:
        body["parent_provider_uuid"] = player.dice.choice([None, *player.names.hosts])
    return Asked("PUT", _path(uuid), body)


def _may_of_provider(*allowed: int) -> Callable[[Player, Asked], Collection[int]]:
    """Return what answers 404 for a missing provider, and else one of these."""
    return lambda player, asked: allowed if _uuid_of(asked) in player.book.providers else (404,)


def _renamed(player: Player, asked: Asked, answer: Answer) -> None:
    each = player.book.providers[_uuid_of(asked)]
    each["name"] = asked.body["name"]
    if "parent_provider_uuid" in asked.body:
        each["parent_provider_uuid"] = asked.body["parent_provider_uuid"]


def _may_delete(player: Player, asked: Asked) -> Collection[int]:
    uuid, book = _uuid_of(asked), player.book
    if uuid not in book.providers:
        return (404,)
    if book.ended:
        return (204, 409)
    return (409,) if book.children(uuid) or book.in_use(uuid) else (204,)


def _deleted(player: Player, asked: Asked, answer: Answer) -> None:
    del player.book.providers[_uuid_of(asked)]


def _draw_stock(player: Player) -> Asked:
    uuid = _provider(player)
    body = stock(_generation(player, uuid), _records(player, uuid))
    return Asked("PUT", _path(uuid, "/inventories"), body)


def _may_stock(player: Player, asked: Asked) -> Collection[int]:
    uuid, book = _uuid_of(asked), player.book
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


def _stocked(player: Player, asked: Asked, answer: Answer) -> None:
    player.book.stocked(_uuid_of(asked), asked.body["inventories"])


def _draw_add_class(player: Player) -> Asked:
    body = {"resource_class": player.dice.choice(_classes(player)), **_record(player)}
    return Asked("POST", _path(_provider(player), "/inventories"), body)


def _added_class(player: Player, asked: Asked, answer: Answer) -> None:
    record = {name: value for name, value in asked.body.items() if name != "resource_class"}
    before = player.book.providers[_uuid_of(asked)]["inventories"]
    player.book.stocked(_uuid_of(asked), {**before, asked.body["resource_class"]: record})


def _draw_set_class(player: Player) -> Asked:
    uuid = _provider(player)
    body = {"resource_provider_generation": _generation(player, uuid), **_record(player)}
    name = player.dice.choice(_classes(player))
    return Asked("PUT", _path(uuid, f"/inventories/{name}"), body)


def _set_class(player: Player, asked: Asked, answer: Answer) -> None:
    record = {k: v for k, v in asked.body.items() if k != "resource_provider_generation"}
    before = player.book.providers[_uuid_of(asked)]["inventories"]
    player.book.stocked(_uuid_of(asked), {**before, asked.path.rpartition("/")[2]: record})


def _draw_drop_class(player: Player) -> Asked:
    name = player.dice.choice(CLASSES)
    return Asked("DELETE", _path(_provider(player), f"/inventories/{name}"))


def _may_drop_class(player: Player, asked: Asked) -> Collection[int]:
    uuid, name = _uuid_of(asked), asked.path.rpartition("/")[2]
    if player.book.record(uuid, name) is None:
        return (404,)
    if player.book.ended:
        return (204, 409)
    return (409,) if name in player.book.in_use(uuid) else (204,)


def _dropped_class(player: Player, asked: Asked, answer: Answer) -> None:
    del player.book.providers[_uuid_of(asked)]["inventories"][asked.path.rpartition("/")[2]]


def _draw_drop_stock(player: Player) -> Asked:
    return Asked("DELETE", _path(_provider(player), "/inventories"))


def _may_drop_stock(player: Player, asked: Asked) -> Collection[int]:
    uuid = _uuid_of(asked)
    if uuid not in player.book.providers:
        return (404,)
    if player.book.ended:
        return (204, 409)
    return (409,) if player.book.in_use(uuid) else (204,)


def _dropped_stock(player: Player, asked: Asked, answer: Answer) -> None:
    player.book.stocked(_uuid_of(asked), {})


def _draw_traits(player: Player) -> Asked:
    uuid = _provider(player)
    known = [t for t in TRAITS if not t.startswith("CUSTOM") or t in player.book.traits]
    body = {"resource_provider_generation": _generation(player, uuid), "traits": _some(player, known)}
    return Asked("PUT", _path(uuid, "/traits"), body)


def _has_traits(player: Player, asked: Asked, answer: Answer) -> None:
    traits = asked.body["traits"] if asked.body else ()
    player.book.providers[_uuid_of(asked)]["traits"] = sorted(traits)


def _draw_no_traits(player: Player) -> Asked:
    return Asked("DELETE", _path(_provider(player), "/traits"))


def _draw_aggregates(player: Player) -> Asked:
    uuid = _provider(player)
    body = {
        "resource_provider_generation": _generation(player, uuid),
        "aggregates": _some(player, player.names.aggregates),
    }
    return Asked("PUT", _path(uuid, "/aggregates"), body)


def _has_aggregates(player: Player, asked: Asked, answer: Answer) -> None:
    found = sorted(asked.body["aggregates"])
    player.book.providers[_uuid_of(asked)]["aggregates"] = found


# -- names -----------------------------------------------------------------------------------------


def _noted(which: str, there: bool) -> Callable[[Player, Asked, Answer], None]:
    def note(player: Player, asked: Asked, answer: Answer) -> None:
        name = asked.body["name"] if asked.body else asked.path.rpartition("/")[2]
        (getattr(player.book, which).add if there else getattr(player.book, which).discard)(name)

    return note


def _may_drop_name(which: str) -> Callable[[Player, Asked], Collection[int]]:
    def may(player: Player, asked: Asked) -> Collection[int]:
        name = asked.path.rpartition("/")[2]
        if name not in getattr(player.book, which):
            return (404,)
        part = "traits" if which == "traits" else "inventories"
        used = any(name in each[part] for each in player.book.providers.values())
        return (409,) if used else (204,)

    return may


# -- consumers -------------------------------------------------------------------------------------


def _may_write(player: Player, entries: Mapping[str, Any], missing: int = 400) -> Collection[int]:
    """Return what a write of these consumers may answer: it is refused only for what the book knows."""
    book = player.book
    sets = {c: {u: e["resources"] for u, e in v["allocations"].items()} for c, v in entries.items()}
    why = set(book.refusals(sets))
    if "unknown" in why:
        return (missing, 409)
    for consumer, entry in entries.items():
        now = book.consumers.get(consumer, {"generation": None})["generation"]
        if entry["consumer_generation"] != now and consumer not in book.ended:
            return (409,)
    if book.ended:
        return (204, 409)
    if not why:
        return (204,)
    # A consumer may keep what it has where there is less than that.
    old = [book.sets(each) for each in sets]
    return (204, 409) if any(old) else (409,)


def _draw_put(player: Player) -> Asked:
    consumer = _consumer(player)
    return Asked("PUT", f"/allocations/{consumer}", _entry(player, consumer, _sets(player)))


def _may_put(player: Player, asked: Asked) -> Collection[int]:
    return _may_write(player, {asked.path.rpartition("/")[2]: asked.body})


def _put(player: Player, asked: Asked, answer: Answer) -> None:
    player.book.wrote(asked.path.rpartition("/")[2], asked.body)


def _draw_post(player: Player) -> Asked:
    uuids = player.dice.sample(player.names.consumers, player.dice.randint(1, 3))
    entries = {
        uuid: _entry(player, uuid, _sets(player) if player.dice.random() < 0.8 else {})
        for uuid in uuids
    }
    return Asked("POST", "/allocations", entries)


def _posted(player: Player, asked: Asked, answer: Answer) -> None:
    for uuid, entry in asked.body.items():
        player.book.wrote(uuid, entry)


def _draw_release(player: Player) -> Asked:
    there = [each for each in player.names.consumers if each in player.book.consumers]
    consumer = player.dice.choice(there) if there else _consumer(player)
    return Asked("DELETE", f"/allocations/{consumer}")


def _may_release(player: Player, asked: Asked) -> Collection[int]:
    consumer = asked.path.rpartition("/")[2]
    if consumer in player.book.ended:
        return (204, 404)
    return (204,) if consumer in player.book.consumers else (404,)


def _released(player: Player, asked: Asked, answer: Answer) -> None:
    consumer = asked.path.rpartition("/")[2]
    player.book.consumers.pop(consumer, None)
    player.book.held.discard(consumer)
    player.book.ended.discard(consumer)


def _draw_reshape(player: Player) -> Asked | None:
    """Move one class of a provider, and what is in use of it, to another provider."""
    book, dice = player.book, player.dice
    mine = [uuid for uuid in player.names.providers if uuid in book.providers]
    if len(mine) < 2:
        return None
    left, right = dice.sample(mine, 2)
    names = sorted(book.providers[left]["inventories"])
    if not names:
        return None
    name = dice.choice(names)
    stocks = {uuid: dict(book.providers[uuid]["inventories"]) for uuid in (left, right)}
    stocks[right][name] = {**stocks[left].pop(name), "total": dice.randint(20, 60)}
    entries: dict[str, Any] = {}
    for consumer in book.consumers:
        sets = {uuid: dict(amounts) for uuid, amounts in book.sets(consumer).items()}
        amount = sets.get(left, {}).pop(name, None)
        if amount is None:
            continue
        if not sets[left]:
            del sets[left]
        at_right = sets.setdefault(right, {})
        at_right[name] = at_right.get(name, 0) + amount
        entries[consumer] = _entry(player, consumer, sets)
    inventories = {
        uuid: stock(_generation(player, uuid), records) for uuid, records in stocks.items()
    }
    return Asked("POST", "/reshaper", {"inventories": inventories, "allocations": entries})


def _reshaped(player: Player, asked: Asked, answer: Answer) -> None:
    for uuid, entry in asked.body["allocations"].items():
        player.book.wrote(uuid, entry)
    for uuid, each in asked.body["inventories"].items():
        player.book.stocked(uuid, each["inventories"])


# -- claims ----------------------------------------------------------------------------------------


def _draw_claims(player: Player) -> Asked:
    dice, names = player.dice, player.names
    hold = dice.random() < 0.5
    uuids = dice.sample(names.consumers, dice.choice([1, 1, 2, 3]))
    group = dice.choice([None, *names.groups])
    claims = []
    for uuid in uuids:
        project, user = dice.choice(OWNERS)
        claim = {
            "consumer_uuid": uuid,
            "consumer_generation": None if hold else _known(player, uuid),
            "project_id": project,
            "user_id": user,
            "consumer_type": "INSTANCE",
            "query": _query(player),
        }
        claims.append(claim | ({"groups": [group]} if group else {}))
    body: dict[str, Any] = {"claims": claims, "strategy": dice.choice(["any", "spread", "pack"])}
    if group:
        # A group keeps its rule while it has members.
        body["groups"] = {group: {"rule": "apart" if group.endswith("0") else "together"}}
    return Asked("POST", "/-/claims", body | ({"hold_s": 900} if hold else {}))


def _claimed(player: Player, asked: Asked, answer: Answer) -> None:
    book = player.book
    by_uuid = {each["consumer_uuid"]: each for each in asked.body["claims"]}
    granted = {
        each["consumer_uuid"]: {u: e["resources"] for u, e in each["allocations"].items()}
        for each in answer.json["claims"]
    }
    # Room that an expired hold has had is free, and the book may not know it yet.
    if player.exact and not book.ended and (why := set(book.refusals(granted))):
        raise Broken("no candidate without room", f"{asked}: {why} {granted}")
    for uuid, sets in granted.items():
        book.wrote(uuid, by_uuid[uuid], sets)
        if "hold_s" in asked.body:
            book.held.add(uuid)
        book.groups.update(by_uuid[uuid].get("groups", ()))


def _draw_confirm(player: Player) -> Asked | None:
    held = sorted(player.book.held.intersection(player.names.consumers))
    consumer = player.dice.choice(held) if held else _consumer(player)
    return Asked("POST", f"/-/claims/{consumer}/confirm")


def _may_confirm(player: Player, asked: Asked) -> Collection[int]:
    consumers = _confirmed_by(asked)
    if all(each in player.book.held - player.book.ended for each in consumers):
        return (200,)
    return (200, 404, 409)


def _confirmed_by(asked: Asked) -> list[str]:
    if asked.body:
        return [each["consumer_uuid"] for each in asked.body["consumers"]]
    return [asked.path.split("/")[3]]


def _draw_confirm_many(player: Player) -> Asked | None:
    held = sorted(player.book.held.intersection(player.names.consumers))[:3]
    consumers = [
        {"consumer_uuid": each, "consumer_generation": player.book.consumers[each]["generation"]}
        for each in held
    ]
    return Asked("POST", "/-/claims/confirm", {"consumers": consumers}) if held else None


def _confirmed(player: Player, asked: Asked, answer: Answer) -> None:
    for each in answer.json["consumers"]:
        uuid = each["consumer_uuid"]
        player.book.held.discard(uuid)
        player.book.ended.discard(uuid)
        if uuid in player.book.consumers:
            player.book.consumers[uuid]["generation"] = each["consumer_generation"]


# -- plans -----------------------------------------------------------------------------------------


def _draw_plan(player: Player) -> Asked:
    dice, names = player.dice, player.names
    excepted = _some(player, [each for each in names.consumers if each in player.book.consumers])
    goal = dice.choice(
        [
            {"empty": {"trees": [dice.choice(names.hosts)]}},
            {"empty": {"count": 1}},
            {"place": _query(player), "times": dice.randint(1, 3)},
            {"keep": [_group(player)]},
        ]
    )
    may: dict[str, Any] = {"move": {"except": excepted[: dice.choice([0, 0, 1, 3])]}}
    if dice.random() < 0.3:
        may["move"]["consumer_types"] = ["INSTANCE"]
    body: dict[str, Any] = {"goal": goal, "may": may}
    return Asked("POST", "/-/plans", body | ({"hold_s": 600} if dice.random() < 0.3 else {}))


def _planned(player: Player, asked: Asked, answer: Answer) -> None:
    """See that a plan keeps to what it may do, and carry it out as an operator does."""
    plan, move = answer.json, asked.body["may"]["move"]
    moved = {step["consumer_uuid"] for step in plan["steps"] if "consumer_uuid" in step}
    if stray := moved.intersection(move["except"]):
        raise Broken("a plan is correct", f"{asked} moves {stray}, which it must not")
    for step in plan["steps"]:
        if step["consumer_type"] not in move.get("consumer_types", [step["consumer_type"]]):
            raise Broken("a plan is correct", f"{asked} moves {step}, which it must not")
        if "held_by" in step:
            holder = step["held_by"]
            owner = {name: step[name] for name in ("project_id", "user_id")} | {
                "consumer_type": "MIGRATION",
                "consumer_generation": holder["consumer_generation"],
            }
            player.book.wrote(holder["consumer_uuid"], _of_holder(player, owner, holder))
            player.book.held.add(holder["consumer_uuid"])
    if not player.exact:
        return
    for step in plan["steps"]:
        body = _step_body(step)
        granted = player.send(KIND["allocations of several"], Asked("POST", "/allocations", body))
        if granted.status != 204 and not granted.lost:
            raise Broken("a plan is correct", f"{asked}: step {step} was answered {granted}")


def _of_holder(player: Player, owner: dict[str, Any], holder: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a holder of a destination has, as the service says."""
    shown = player.ask(f"/allocations/{holder['consumer_uuid']}") or {"allocations": {}}
    more = {name: shown.get(name, owner[name]) for name in ("project_id", "user_id", "consumer_type")}
    before = (shown.get("consumer_generation") or 1) - 1
    return {**owner, **more, "allocations": shown["allocations"], "consumer_generation": before}


def _step_body(step: Mapping[str, Any]) -> dict[str, Any]:
    names = ("project_id", "user_id", "consumer_type", "consumer_generation")
    mine = {name: step[name] for name in names} | {"allocations": step.get("allocations", {})}
    body = {step.get("remove") or step["consumer_uuid"]: mine}
    if "held_by" in step:
        generation = step["held_by"]["consumer_generation"]
        more = {"consumer_type": "MIGRATION", "consumer_generation": generation, "allocations": {}}
        body[step["held_by"]["consumer_uuid"]] = mine | more
    return body


# -- questions -------------------------------------------------------------------------------------


def _draw_what_if(player: Player) -> Asked:
    dice, names = player.dice, player.names
    there = [uuid for uuid in names.providers if uuid in player.book.providers]
    uuid = dice.choice(there or names.providers)
    change = dice.choice(
        [
            {"drain": uuid},
            {"remove": uuid},
            {"place": _query(player), "times": 3},
            {"inventories": {uuid: {"VCPU": {"total": 50}}}},
            {"traits": {uuid: ["HW_CPU_X86_AVX"]}},
            {"aggregates": {uuid: names.aggregates[:1]}},
        ]
    )
    return Asked("POST", "/-/what-if", {"changes": [change], "query": _query(player)})


def _reads(path: Callable[[Player], str], *also: int) -> dict[str, Any]:
    """Return how a GET is drawn, and that it answers 200 or one of these."""
    return {
        "draw": lambda player: Asked("GET", path(player)),
        "may": lambda player, asked: (200, 204, *also),
    }


def _draw_hostile(player: Player) -> Asked:
    """Draw a request that must be refused, whatever the book says."""
    dice, uuid = player.dice, _provider(player)
    version = dice.choice(["1.0", "1.12", "1.28", "1.39"])
    odd = dice.choice([None, [], "x", -1, 10**30, {"a": {}}, "\ud800", [[[]]]])
    path = dice.choice(
        [
            "/allocations",
            "/reshaper",
            "/-/claims",
            "/-/plans",
            "/-/claims/confirm",
            f"/allocations/{_consumer(player)}",
            _path(uuid, "/inventories"),
            _path(uuid, "/traits"),
            _path(uuid),
        ]
    )
    method = "POST" if path.count("/") < 2 or path.startswith("/-/") else "PUT"
    token = "nobody:nothing" if dice.random() < 0.3 else None
    return Asked(method, path, {"claims": odd, "allocations": odd, "x": odd}, version, token)


def _refused(player: Player, asked: Asked) -> Collection[int]:
    return range(400, 500)


_TEXTS = {
    "providers": lambda p: "/resource_providers?resources=VCPU:1",
    "one provider": lambda p: _path(_provider(p)),
    "inventories": lambda p: _path(_provider(p), "/inventories"),
    "inventory": lambda p: _path(_provider(p), f"/inventories/{p.dice.choice(CLASSES)}"),
    "usages": lambda p: _path(_provider(p), "/usages"),
    "aggregates": lambda p: _path(_provider(p), "/aggregates"),
    "traits of one": lambda p: _path(_provider(p), "/traits"),
    "allocations on": lambda p: _path(_provider(p), "/allocations"),
    "allocations of": lambda p: f"/allocations/{_consumer(p)}",
}
_R = PROVIDER
TABLE: tuple[Kind, ...] = (
    # The core: providers.
    Kind("provider", "POST /resource_providers", "nova agent", _draw_create, _may_create, _created,
         "provider deleted"),
    Kind("provider renamed", f"PUT {_R}", "agent", _draw_rename, _may_of_provider(200, 400, 409), _renamed,
         "provider renamed"),
    Kind("provider deleted", f"DELETE {_R}", "agent operator",
         lambda p: Asked("DELETE", _path(_provider(p))), _may_delete, _deleted, "provider"),
    Kind("stock", f"PUT {_R}/inventories", "nova nova agent", _draw_stock, _may_stock, _stocked,
         "stock dropped"),
    Kind("class added", f"POST {_R}/inventories", "agent", _draw_add_class,
         _may_of_provider(201, 409, 400), _added_class, "class dropped"),
    Kind("class set", f"PUT {_R}/inventories/{{resource_class}}", "operator", _draw_set_class,
         _may_of_provider(200, 400, 409), _set_class, "class dropped"),
    Kind("class dropped", f"DELETE {_R}/inventories/{{resource_class}}", "agent", _draw_drop_class,
         _may_drop_class, _dropped_class, "class added"),
    Kind("stock dropped", f"DELETE {_R}/inventories", "agent", _draw_drop_stock, _may_drop_stock,
         _dropped_stock, "stock"),
    Kind("traits", f"PUT {_R}/traits", "agent", _draw_traits, _may_of_provider(200, 409), _has_traits,
         "traits deleted"),
    Kind("traits deleted", f"DELETE {_R}/traits", "agent", _draw_no_traits, _may_of_provider(204),
         _has_traits, "traits"),
    Kind("aggregates set", f"PUT {_R}/aggregates", "agent operator", _draw_aggregates,
         _may_of_provider(200, 409), _has_aggregates, "aggregates set"),
    # The core: names.
    Kind("class", "PUT /resource_classes/{name}", "agent",
         lambda p: Asked("PUT", "/resource_classes/CUSTOM_FPGA"), lambda p, a: (201, 204),
         _noted("classes", True), "class deleted"),
    Kind("class posted", "POST /resource_classes", "agent",
         lambda p: Asked("POST", "/resource_classes", {"name": "CUSTOM_FPGA"}), lambda p, a: (201, 409),
         _noted("classes", True), "class deleted"),
    Kind("class deleted", "DELETE /resource_classes/{name}", "agent",
         lambda p: Asked("DELETE", "/resource_classes/CUSTOM_FPGA"), _may_drop_name("classes"),
         _noted("classes", False), "class"),
    Kind("trait", "PUT /traits/{name}", "agent", lambda p: Asked("PUT", "/traits/CUSTOM_FAST"),
         lambda p, a: (201, 204), _noted("traits", True), "trait deleted"),
    Kind("trait deleted", "DELETE /traits/{name}", "agent",
         lambda p: Asked("DELETE", "/traits/CUSTOM_FAST"), _may_drop_name("traits"),
         _noted("traits", False), "trait"),
    # The core: consumers.
    Kind("allocations", "PUT /allocations/{consumer_uuid}", "nova nova nova", _draw_put, _may_put, _put,
         "released"),
    Kind("allocations of several", "POST /allocations", "nova nova", _draw_post,
         lambda p, a: _may_write(p, a.body), _posted, "released"),
    Kind("released", "DELETE /allocations/{consumer_uuid}", "nova nova claimer operator", _draw_release,
         _may_release, _released, "allocations"),
    Kind("reshape", "POST /reshaper", "agent agent", _draw_reshape, lambda p, a: (204, 409, 400), _reshaped,
         "reshape"),
    # The core: reading.
    *(Kind(name, f"GET {template}", "reader nova", **_reads(_TEXTS[name], 404))
      for name, template in (
          ("providers", "/resource_providers"), ("one provider", _R), ("inventories", f"{_R}/inventories"),
          ("inventory", f"{_R}/inventories/{{resource_class}}"), ("usages", f"{_R}/usages"),
          ("aggregates", f"{_R}/aggregates"), ("traits of one", f"{_R}/traits"),
          ("allocations on", f"{_R}/allocations"), ("allocations of", "/allocations/{consumer_uuid}"))),
    *(Kind(f"GET {path or '(root)'}", f"GET {template}", "reader", **_reads(lambda p, path=path: path, *also))
      for template, path, *also in (
          ("", ""), ("/", "/"), ("/resource_classes", "/resource_classes"), ("/traits", "/traits"),
          ("/resource_classes/{name}", "/resource_classes/VCPU"),
          ("/traits/{name}", "/traits/HW_CPU_X86_AVX"), ("/usages", "/usages?project_id=red"))),
    Kind("class renamed", "PUT /resource_classes/{name}", "hostile",
         lambda p: Asked("PUT", "/resource_classes/VCPU", {"name": "CUSTOM_X"}, "1.6"), lambda p, a: (400, 404)),
    Kind("candidates", "GET /allocation_candidates", "nova nova",
         **_reads(lambda p: f"/allocation_candidates?{_query(p)}", 400)),
    # Claims.
    Kind("claims", "POST /-/claims", "claimer claimer claimer claimer", _draw_claims,
         lambda p, a: (200, 400, 409), _claimed, "released"),
    Kind("confirmed", "POST /-/claims/{consumer_uuid}/confirm", "claimer", _draw_confirm, _may_confirm,
         _confirmed, "released"),
    Kind("several confirmed", "POST /-/claims/confirm", "claimer", _draw_confirm_many, _may_confirm,
         _confirmed, "released"),
    Kind("group", "GET /-/groups/{name:.+}", "claimer",
         **_reads(lambda p: f"/-/groups/{_group(p)}", 404)),
    Kind("holds", "GET /-/holds", "claimer operator", **_reads(lambda p: "/-/holds")),
    # Plans, questions and what else operators ask.
    Kind("plan", "POST /-/plans", "operator operator operator", _draw_plan, lambda p, a: (200, 400, 404, 409),
         _planned, "allocations of several"),
    Kind("what if", "POST /-/what-if", "operator", _draw_what_if, lambda p, a: (200, 400, 404, 409)),
    *(Kind(path, f"GET {path}", "operator", **_reads(lambda p, make=make: make(p), 400))
      for path, make in (
          ("/-/capacity", lambda p: f"/-/capacity?{_query(p)}"),
          ("/-/explain", lambda p: f"/-/explain?{_query(p)}"),
          ("/-/survival", lambda p: f"/-/survival?level={p.dice.choice(['tree', 'aggregate'])}"),
          ("/-/capacity/history", lambda p: "/-/capacity/history?shape=small"))),
    *(Kind(path, f"GET {path}", "reader", **_reads(lambda p, path=path, query=query: path + query))
      for path, query in (
          ("/-/changes", ""), ("/-/history", "?limit=50"), ("/-/metrics", ""),
          ("/-/trees", "?allocations=true"), ("/-/links", ""), ("/-/explorer/", ""))),
    Kind("/-/explorer", "GET /-/explorer", "reader", **_reads(lambda p: "/-/explorer", 301, 302, 303, 307, 308)),
    Kind("file", "GET /-/explorer/{path:.+}", "reader", **_reads(lambda p: "/-/explorer/main.js", 404)),
    Kind("tree", "GET /-/trees/{uuid}", "reader", **_reads(lambda p: f"/-/trees/{_provider(p)}", 404)),
    # Of a hostile client.
    Kind("nonsense", "", "hostile", _draw_hostile, _refused),
)  # fmt: skip
KIND = {each.name: each for each in TABLE}
CLIENTS = ("nova", "claimer", "agent", "operator", "reader", "hostile")
OF_CLIENT = {
    client: [each for each in TABLE for name in each.clients.split() if name == client]
    for client in CLIENTS
}
"""The lines that a kind of client draws from; what stands twice is drawn twice as often."""
