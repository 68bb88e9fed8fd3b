"""Requests about consumers, claims and plans: how they are drawn, what they answer, what the book learns."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tests.proofs.year import draws
from tests.proofs.year.book import Broken
from tests.proofs.year.ledger import find_root
from tests.proofs.year.player import Asked, Kind, Player
from tests.support.bodies import stock
from tests.support.client import VERSION, Answer


def may_write(player: Player, entries: Mapping[str, Any], missing: int = 400) -> Collection[int]:
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


def draw_put(player: Player) -> Asked:
    consumer = draws.draw_consumer(player)
    entry = draws.draw_entry(player, consumer, draws.draw_sets(player))
    return Asked("PUT", f"/allocations/{consumer}", entry)


def may_put(player: Player, asked: Asked) -> Collection[int]:
    return may_write(player, {asked.path.rpartition("/")[2]: asked.body})


def note_put(player: Player, asked: Asked, answer: Answer) -> None:
    player.book.wrote(asked.path.rpartition("/")[2], asked.body)


def draw_post(player: Player) -> Asked:
    uuids = player.dice.sample(player.names.consumers, player.dice.randint(1, 3))
    entries = {
        uuid: draws.draw_entry(player, uuid, draws.draw_sets(player) if player.dice.random() < 0.8 else {})
        for uuid in uuids
    }
    return Asked("POST", "/allocations", entries)


def note_posted(player: Player, asked: Asked, answer: Answer) -> None:
    for uuid, entry in asked.body.items():
        player.book.wrote(uuid, entry)


def draw_release(player: Player) -> Asked:
    there = [each for each in player.names.consumers if each in player.book.consumers]
    consumer = player.dice.choice(there) if there else draws.draw_consumer(player)
    return Asked("DELETE", f"/allocations/{consumer}")


def may_release(player: Player, asked: Asked) -> Collection[int]:
    consumer = asked.path.rpartition("/")[2]
    if consumer in player.book.ended:
        return (204, 404)
    return (204,) if consumer in player.book.consumers else (404,)


def note_released(player: Player, asked: Asked, answer: Answer) -> None:
    consumer = asked.path.rpartition("/")[2]
    player.book.consumers.pop(consumer, None)
    player.book.held.discard(consumer)
    player.book.ended.discard(consumer)


def draw_reshape(player: Player) -> Asked | None:
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
        entries[consumer] = draws.draw_entry(player, consumer, sets)
    inventories = {
        uuid: stock(draws.read_generation(player, uuid), records) for uuid, records in stocks.items()
    }
    return Asked("POST", "/reshaper", {"inventories": inventories, "allocations": entries})


def note_reshaped(player: Player, asked: Asked, answer: Answer) -> None:
    for uuid, entry in asked.body["allocations"].items():
        player.book.wrote(uuid, entry)
    for uuid, each in asked.body["inventories"].items():
        player.book.stocked(uuid, each["inventories"])


# -- claims ----------------------------------------------------------------------------------------


def draw_claims(player: Player) -> Asked:
    dice, names = player.dice, player.names
    hold = dice.random() < 0.5
    uuids = dice.sample(names.consumers, dice.choice([1, 1, 2, 3]))
    group = dice.choice([None, *names.groups])
    claims = []
    for uuid in uuids:
        project, user = dice.choice(draws.OWNERS)
        claim = {
            "consumer_uuid": uuid,
            "consumer_generation": None if hold else draws.read_consumer_generation(player, uuid),
            "project_id": project,
            "user_id": user,
            "consumer_type": "INSTANCE",
            **draws.draw_wish(player),
        }
        claims.append(claim | ({"groups": [group]} if group else {}))
    body: dict[str, Any] = {"claims": claims, "strategy": dice.choice(["any", "spread", "pack"])}
    if group:
        # A group keeps its rule while it has members.
        body["groups"] = {group: {"rule": "apart" if group.endswith("0") else "together"}}
    return Asked("POST", "/-/claims", body | ({"hold_s": 900} if hold else {}))


def note_claimed(player: Player, asked: Asked, answer: Answer) -> None:
    book = player.book
    by_uuid = {each["consumer_uuid"]: each for each in asked.body["claims"]}
    granted = {
        each["consumer_uuid"]: sets_of(each) for each in answer.json["claims"]
    }
    # Room that an expired hold has had is free, and the book may not know it yet.
    if player.exact and not book.ended and (why := set(book.refusals(granted))):
        raise Broken("no candidate without room", f"{asked}: {why} {granted}")
    for uuid, sets in granted.items():
        book.wrote(uuid, by_uuid[uuid], sets)
        if "hold_s" in asked.body:
            book.held.add(uuid)
        book.groups.update(by_uuid[uuid].get("groups", ()))


def draw_confirm(player: Player) -> Asked | None:
    held = sorted(player.book.held.intersection(player.names.consumers))
    consumer = player.dice.choice(held) if held else draws.draw_consumer(player)
    return Asked("POST", f"/-/claims/{consumer}/confirm")


def may_confirm(player: Player, asked: Asked) -> Collection[int]:
    consumers = confirmed_by(asked)
    if all(each in player.book.held - player.book.ended for each in consumers):
        return (200,)
    return (200, 404, 409)


def confirmed_by(asked: Asked) -> list[str]:
    if asked.body:
        return [each["consumer_uuid"] for each in asked.body["consumers"]]
    return [asked.path.split("/")[3]]


def draw_confirm_many(player: Player) -> Asked | None:
    held = sorted(player.book.held.intersection(player.names.consumers))[:3]
    consumers = [
        {"consumer_uuid": each, "consumer_generation": player.book.consumers[each]["generation"]}
        for each in held
    ]
    return Asked("POST", "/-/claims/confirm", {"consumers": consumers}) if held else None


def note_confirmed(player: Player, asked: Asked, answer: Answer) -> None:
    for each in answer.json["consumers"]:
        uuid = each["consumer_uuid"]
        player.book.held.discard(uuid)
        player.book.ended.discard(uuid)
        if uuid in player.book.consumers:
            player.book.consumers[uuid]["generation"] = each["consumer_generation"]


SEVERAL = Kind("allocations of several", "POST /allocations", "nova nova other other", draw_post,
               lambda player, asked: may_write(player, asked.body), note_posted, "released")  # fmt: skip
"""A request that steps of plans are sent by too."""


# -- plans -----------------------------------------------------------------------------------------


def draw_plan(player: Player) -> Asked:
    dice, names = player.dice, player.names
    excepted = draws.draw_some(player, [each for each in names.consumers if each in player.book.consumers])
    goal = dice.choice(
        [
            {"empty": {"trees": [dice.choice(names.hosts)]}},
            {"empty": {"count": 1}},
            {"place": draws.draw_query(player), "times": dice.randint(1, 3)},
            {"keep": [draws.draw_group(player)]},
        ]
    )
    may: dict[str, Any] = {"move": {"except": excepted[: dice.choice([0, 0, 1, 3])]}}
    if dice.random() < 0.3:
        may["move"]["consumer_types"] = ["INSTANCE"]
    body: dict[str, Any] = {"goal": goal, "may": may}
    return Asked("POST", "/-/plans", body | ({"hold_s": 600} if dice.random() < 0.3 else {}))


def note_planned(player: Player, asked: Asked, answer: Answer) -> None:
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
            player.book.wrote(holder["consumer_uuid"], read_holder(player, owner, holder))
            player.book.held.add(holder["consumer_uuid"])
    if not player.exact:
        return
    broken = broken_groups(player)
    for step in plan["steps"]:
        carried = carry_out(step)
        held = hold_source(player, step, carried)
        granted = player.send(SEVERAL, carried)
        if granted.lost:
            return
        if granted.status != 204:
            raise Broken("a plan is correct", f"{asked}: step {step} was answered {granted}")
        if held:
            player.send(RELEASED, Asked("DELETE", f"/allocations/{held}"))
        if worse := broken_groups(player) - broken:
            raise Broken("a plan is correct", f"{asked}: step {step} breaks the rules of {sorted(worse)}")
    for what in find_missed(player, asked.body["goal"], plan):
        raise Broken("a plan is correct", f"{asked}: in the end {what}")


def hold_source(player: Player, step: Mapping[str, Any], carried: Asked) -> str:
    """Let another consumer hold what a step leaves, as Nova does during a migration; return its uuid.

    A step whose destination is held takes over the hold instead.
    """
    if "remove" in step or "held_by" in step:
        return ""
    holder = f"7{player.names.owner:07x}-0000-4000-8000-000000000000"
    entry = carried.body[step["consumer_uuid"]] | {"allocations": step["from"], "consumer_generation": None}
    if "consumer_type" in entry:
        entry["consumer_type"] = "MIGRATION"
    carried.body[holder] = entry
    return holder


def broken_groups(player: Player) -> set[str]:
    """Return the groups whose rule is broken."""
    shown = {name: player.ask(f"/-/groups/{name}") for name in player.names.groups}
    return {name for name, group in shown.items() if group and not group["kept"]}


def find_missed(player: Player, goal: Mapping[str, Any], plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is not so after the last step of a plan, though it was the goal."""
    yield from (f"{name} is broken" for name in broken_groups(player).intersection(goal.get("keep", ())))
    book = player.book
    placed = {str(n): sets_of(each) for n, each in enumerate(plan.get("placed", ()))}
    if len(placed) != ("place" in goal) * goal.get("times", 1):
        yield f"there are {len(placed)} places"
    if not book.ended:
        yield from (f"a place is {why}" for why in book.refusals(placed))
    emptied = plan.get("emptied", ())
    if "empty" in goal and len(emptied) != goal["empty"].get("count", 1):
        yield f"{emptied} are empty"
    for uuid in book.providers:
        if find_root(book.ledger, uuid) in emptied and book.in_use(uuid) and not book.ended:
            yield f"{uuid} is in use"


def sets_of(shown: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the amounts that an answer says."""
    return {uuid: each["resources"] for uuid, each in shown["allocations"].items()}


def read_holder(player: Player, owner: dict[str, Any], holder: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a holder of a destination has, as the service says."""
    shown = player.ask(f"/allocations/{holder['consumer_uuid']}") or {"allocations": {}}
    more = {name: shown.get(name, owner[name]) for name in ("project_id", "user_id", "consumer_type")}
    before = (shown.get("consumer_generation") or 1) - 1
    return {**owner, **more, "allocations": shown["allocations"], "consumer_generation": before}


def carry_out(step: Mapping[str, Any]) -> Asked:
    """Return the request that carries a step out; one of a consumer without a type is written at 1.37."""
    typeless = step["consumer_type"] == "unknown"
    names = ("project_id", "user_id", "consumer_generation")
    mine = {name: step[name] for name in names} | {"allocations": step.get("allocations", {})}
    holders = {}
    if "held_by" in step:
        generation = step["held_by"]["consumer_generation"]
        holder = mine | {"consumer_generation": generation, "allocations": {}}
        holders[step["held_by"]["consumer_uuid"]] = holder
        if not typeless:
            holder["consumer_type"] = "MIGRATION"
    if not typeless:
        mine["consumer_type"] = step["consumer_type"]
    body = {step.get("remove") or step["consumer_uuid"]: mine} | holders
    return Asked("POST", "/allocations", body, "1.37" if typeless else VERSION)


RELEASED = Kind("released", "DELETE /allocations/{consumer_uuid}", "nova nova claimer operator other other",
                draw_release, may_release, note_released, "allocations")  # fmt: skip
TABLE: tuple[Kind, ...] = (
    Kind("allocations", "PUT /allocations/{consumer_uuid}", "nova nova nova other other other",
         draw_put, may_put, note_put, "released"),
    SEVERAL,
    RELEASED,
    Kind("reshape", "POST /reshaper", "agent agent other", draw_reshape, lambda p, a: (204, 409, 400),
         note_reshaped, "reshape"),
)  # fmt: skip
CLAIMS: tuple[Kind, ...] = (
    Kind("claims", "POST /-/claims", "claimer claimer claimer claimer", draw_claims,
         lambda p, a: (200, 400, 409), note_claimed, "released"),
    Kind("confirmed", "POST /-/claims/{consumer_uuid}/confirm", "claimer", draw_confirm, may_confirm,
         note_confirmed, "released"),
    Kind("several confirmed", "POST /-/claims/confirm", "claimer", draw_confirm_many, may_confirm,
         note_confirmed, "released"),
)  # fmt: skip
PLAN = Kind("plan", "POST /-/plans", "operator operator operator", draw_plan,
            lambda p, a: (200, 400, 404, 409), note_planned, "allocations of several")  # fmt: skip
