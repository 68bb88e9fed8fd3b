"""What requests are made of, drawn by a client: names, generations, amounts and owners."""

from collections.abc import Collection
from typing import Any

from tests.proofs.year.book import Broken, Sets
from tests.proofs.year.player import CLASSES, Player

OWNERS = (("red", "ann"), ("red", "bob"), ("blue", "ann"))
QUERIES = (
    "resources=VCPU:1",
    "resources=VCPU:2,MEMORY_MB:3",
    "resources=VCPU:1&required=HW_CPU_X86_AVX",
    "resources_A=VCPU:1&resources_B=DISK_GB:1&group_policy=none",
    "resources=CUSTOM_FPGA:1",
    "resources=VCPU:1&required=!STORAGE_DISK_SSD",
)


def provider_path(uuid: str, part: str = "") -> str:
    return f"/resource_providers/{uuid}{part}"


def draw_provider(player: Player, is_there: bool = True) -> str:
    """Draw a provider, in most cases one that is there, or one that is not."""
    names = player.names.providers
    fitting = [uuid for uuid in names if (uuid in player.book.providers) == is_there]
    return player.dice.choice(fitting if fitting and player.dice.random() < 0.9 else names)


def draw_some(player: Player, names: Collection[str]) -> list[str]:
    return player.dice.sample(sorted(names), player.dice.randint(0, len(names)))


def read_generation(player: Player, uuid: str) -> int:
    """Return the generation of a provider; now and then another one."""
    shown = player.ask(provider_path(uuid))
    now = shown["generation"] if shown else 0
    return now if player.dice.random() < 0.92 else now + 1


def read_consumer_generation(player: Player, consumer: str) -> int | None:
    """Return the generation of a consumer; now and then another one."""
    shown = player.ask(f"/allocations/{consumer}")
    now: int | None = shown and shown.get("consumer_generation")
    known = player.book.consumers.get(consumer, {"generation": None})["generation"]
    if not player.exact and shown and now != known and player.book.knows(consumer):
        raise Broken("what was acknowledged is there", f"{consumer} is at {now}, by the book {known}")
    return now if player.dice.random() < 0.92 else 7


def known_classes(player: Player) -> list[str]:
    known = player.book.classes
    return [name for name in CLASSES if not name.startswith("CUSTOM") or name in known]


def draw_record(player: Player) -> dict[str, Any]:
    dice = player.dice
    record: dict[str, Any] = {"total": dice.randint(2, 40)}
    if dice.random() < 0.3:
        record |= {"reserved": dice.randint(0, 2), "allocation_ratio": dice.choice([1.0, 1.5, 4.0])}
    return record


def draw_records(player: Player, provider: str) -> dict[str, Any]:
    names = draw_some(player, known_classes(player))
    # A class of which something is in use cannot go.
    names += sorted(player.book.in_use(provider) - set(names)) if player.dice.random() < 0.8 else ()
    return {name: draw_record(player) for name in names or ["VCPU"]}


def draw_sets(player: Player) -> dict[str, dict[str, int]]:
    """Draw allocations on a provider or two, in most cases such as are there."""
    dice, book = player.dice, player.book
    there = [uuid for uuid in book.providers if book.providers[uuid]["inventories"]]
    there = [*there, *player.names.common] or player.names.providers
    if dice.random() < 0.05:
        there = player.names.providers
    sets = {}
    for uuid in dice.sample(there, min(len(there), dice.choice([1, 1, 1, 2]))):
        names = book.providers.get(uuid, {"inventories": {}})["inventories"] or ["VCPU"]
        name = dice.choice(sorted(names))
        sets[uuid] = {name: draw_amount(player, uuid, name)}
    return sets


def draw_amount(player: Player, uuid: str, name: str) -> int:
    """Draw an amount; now and then the last units of a provider, or one more."""
    amount = player.dice.randint(1, 4)
    record = player.book.record(uuid, name) if player.exact and player.dice.random() < 0.1 else None
    if record is None:
        return amount
    return max(1, int(record.capacity) - player.book.used(uuid, name) + player.dice.randint(0, 1))


def draw_entry(player: Player, consumer: str, sets: Sets) -> dict[str, Any]:
    project, user = player.dice.choice(OWNERS)
    return {
        "allocations": {uuid: {"resources": dict(held)} for uuid, held in sets.items()},
        "project_id": project,
        "user_id": user,
        "consumer_generation": read_consumer_generation(player, consumer),
        "consumer_type": player.dice.choice(["INSTANCE", "MIGRATION"]),
    }


def draw_consumer(player: Player) -> str:
    return player.dice.choice(player.names.consumers)


def draw_query(player: Player) -> str:
    known = [each for each in QUERIES if "FPGA" not in each or "CUSTOM_FPGA" in player.book.classes]
    return player.dice.choice(known if player.dice.random() < 0.95 else QUERIES)


def draw_wish(player: Player) -> dict[str, Any]:
    """Draw what a claim asks for; now and then several queries, the best liked first."""
    queries = list(dict.fromkeys([draw_query(player), draw_query(player)]))
    if len(queries) > 1 and player.dice.random() < 0.3:
        return {"queries": queries}
    return {"query": queries[0]}


def draw_group(player: Player) -> str:
    known = sorted(player.book.groups.intersection(player.names.groups))
    return player.dice.choice(known or player.names.groups)
