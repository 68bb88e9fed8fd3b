"""The ledger as the tables have it, and as the history makes it when it is replayed from nothing.

Each row that is replayed must begin where the row before it has ended, so a row that is missing, doubled or
in the wrong place shows at once.
"""

import json
from collections import defaultdict
from copy import deepcopy
from typing import Any

from sqlalchemy import select

from placement.db import models
from placement.db.database import Database, Snapshot
from placement.extensions.history import tables as history_tables
from placement.inventory_record import InventoryRecord

Ledger = dict[str, dict[str, Any]]
"""Under ``consumers`` and ``providers`` what each has, by uuid."""


def find_root(ledger: Ledger, provider: str) -> str:
    """Return the root of a provider's tree."""
    above = ledger["providers"][provider]["parent_provider_uuid"]
    return find_root(ledger, above) if above else provider


def read_ledger(db: Database) -> Ledger:
    """Return what consumers hold and what providers have, as the tables say."""
    return db.snapshot(_read_ledger)


def _read_ledger(tx: Snapshot) -> Ledger:
    def names(table: Any, name: str) -> dict[int, str]:
        return dict(tx.rows(select(table.c.id, table.c[name])))

    projects, users = names(models.projects, "external_id"), names(models.users, "external_id")
    types, classes = names(models.consumer_types, "name"), names(models.resource_classes, "name")
    uuids = names(models.resource_providers, "uuid")
    held: Any = defaultdict(lambda: defaultdict(dict))
    for row in tx.rows(select(*_columns(models.allocations, "consumer_id", *_PLACE, "used"))):
        consumer, provider, class_id, used = row
        held[consumer][uuids[provider]][classes[class_id]] = used
    columns = ("uuid", "generation", "project_id", "user_id", "consumer_type_id")
    consumers = {
        uuid: {
            "generation": generation,
            "held": {
                provider: {
                    "project_id": projects[project],
                    "user_id": users[user],
                    "consumer_type": type_ and types[type_],
                    "resources": dict(some),
                }
                for provider, some in held[uuid].items()
            },
        }
        for uuid, generation, project, user, type_ in tx.rows(
            select(*_columns(models.consumers, *columns))
        )
    }
    return {"consumers": consumers, "providers": _read_providers(tx, uuids, classes)}


def _read_providers(tx: Snapshot, uuids: dict[int, str], classes: dict[int, str]) -> dict[str, Any]:
    has, is_in = models.resource_provider_traits, models.resource_provider_aggregates
    traits = dict(tx.rows(select(models.traits.c.id, models.traits.c.name)))
    aggregates = dict(
        tx.rows(select(models.placement_aggregates.c.id, models.placement_aggregates.c.uuid))
    )
    columns = ("uuid", "name", "generation", "parent_provider_id")
    found = {
        uuid: {
            "generation": generation,
            "name": name,
            "parent_provider_uuid": parent and uuids[parent],
            "inventories": {},
            "traits": [],
            "aggregates": [],
        }
        for uuid, name, generation, parent in tx.rows(
            select(*_columns(models.resource_providers, *columns))
        )
    }
    records = select(*_columns(models.inventories, *_PLACE, *InventoryRecord._fields))
    for provider, class_id, *amounts in tx.rows(records):
        record = dict(zip(InventoryRecord._fields, amounts, strict=True))
        found[uuids[provider]]["inventories"][classes[class_id]] = record
    for provider, key in tx.rows(select(has.c.resource_provider_id, has.c.trait_id)):
        found[uuids[provider]]["traits"].append(traits[key])
    for provider, key in tx.rows(select(is_in.c.resource_provider_id, is_in.c.aggregate_id)):
        found[uuids[provider]]["aggregates"].append(aggregates[key])
    for each in found.values():
        each["traits"].sort()
        each["aggregates"].sort()
    return found


_PLACE = ("resource_provider_id", "resource_class_id")


def _columns(table: Any, *names: str) -> list[Any]:
    return [table.c[name] for name in names]


def replay(db: Database, start: Ledger | None = None, after: int = 0) -> Ledger:
    """Return the ledger that the rows of the history make, in the order of their ids.

    :param start: the ledger before the first row; None: nothing.
    :param after: the id of the last row that ``start`` contains.
    """
    made: Ledger = deepcopy(start) if start else {"consumers": {}, "providers": {}}
    table = history_tables.history
    wanted = select(table).where(table.c.id > after).order_by(table.c.id)
    rows = db.read(lambda reader: reader.rows(wanted))
    for values in rows:
        row = dict(zip(table.c.keys(), values, strict=True))
        before, after = (
            row[name] and json.loads(row[name]) for name in ("state_before", "state_after")
        )
        step = _replay_consumer if row["consumer_uuid"] else _replay_provider
        step(made, row, before, after)
    return made


def _replay_consumer(made: Ledger, row: dict[str, Any], before: Any, after: Any) -> None:
    uuid, provider = row["consumer_uuid"], row["provider_uuid"]
    consumers = made["consumers"]
    present = consumers.setdefault(uuid, {"generation": None, "held": {}})
    # Rows of one transaction have the same generations.
    assert present["generation"] in (row["generation_before"], row["generation_after"]), row
    assert present["held"].pop(provider, None) == before, row
    present["generation"] = row["generation_after"]
    if after is not None:
        present["held"][provider] = after
    assert row["project"] == (after or before)["project_id"], row
    if present["generation"] is None and not present["held"]:
        del consumers[uuid]


def _replay_provider(made: Ledger, row: dict[str, Any], before: Any, after: Any) -> None:
    uuid, providers = row["provider_uuid"], made["providers"]
    present = providers.pop(uuid, None)
    if before is None:
        assert present is None, row
        present = {}
    else:
        assert present is not None, row
        # A claim steps it too, and leaves rows of consumers alone.
        assert row["generation_before"] >= present["generation"], row
        assert {name: present[name] for name in before} == before, row
    if after is None:
        assert present.keys() == before.keys() | {"generation"}, row
    else:
        providers[uuid] = present | after | {"generation": row["generation_after"]}


def require_whole(db: Database) -> None:
    """Fail unless the history, replayed, is the ledger, but for the steps that claims make of providers."""
    made, found = replay(db), read_ledger(db)
    for uuid, present in made["providers"].items():
        assert present["generation"] <= found["providers"][uuid]["generation"]
        present["generation"] = found["providers"][uuid]["generation"]
    assert made == found
