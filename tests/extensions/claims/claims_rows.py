"""What is stored, what the model's state must be stored as, and shapes of requests and answers."""

from typing import Any

from sqlalchemy import insert, select

from placement.db import models
from placement.db.database import Database, Transaction
from placement.extensions.claims import tables as claims_tables
from tests.extensions.claims.claims_model import Claims
from tests.objects.ledger_model import Entry
from tests.search.oracle import Candidate
from tests.support import bodies


def body_of(entry: Entry) -> dict[str, Any]:
    """Return the JSON of what a plain write says of a consumer."""
    owner = {"project_id": entry.project, "user_id": entry.user, "consumer_type": entry.type}
    return bodies.entry(entry.allocations, entry.generation, **owner)


def candidates_of(document: Any, model: Claims) -> set[Candidate]:
    """Return the candidates of an answer as the oracle puts them."""
    numbers = model.ids()
    return {
        (
            frozenset(
                (numbers[uuid], name, amount)
                for uuid, held in each["allocations"].items()
                for name, amount in held["resources"].items()
            ),
            frozenset(
                (suffix, frozenset(numbers[uuid] for uuid in uuids))
                for suffix, uuids in each["mappings"].items()
            ),
        )
        for each in document["allocation_requests"]
    }


_C, _P, _A = models.consumers, models.resource_providers, models.allocations
_STORED = {
    "records": select(
        _C.c.uuid, _C.c.generation, models.projects.c.external_id, models.consumer_types.c.name
    )
    .join(models.projects, models.projects.c.id == _C.c.project_id)
    .outerjoin(models.consumer_types, models.consumer_types.c.id == _C.c.consumer_type_id),
    "allocations": select(_A.c.consumer_id, _P.c.uuid, models.resource_classes.c.name, _A.c.used)
    .join(_P, _P.c.id == _A.c.resource_provider_id)
    .join(models.resource_classes, models.resource_classes.c.id == _A.c.resource_class_id),
    "providers": select(_P.c.uuid, _P.c.generation),
    "members": select(claims_tables.consumer_groups.c.name, _C.c.uuid)
    .join_from(claims_tables.consumer_group_members, _C)
    .join(claims_tables.consumer_groups),
    "holds": select(
        _C.c.uuid, claims_tables.consumer_holds.c.generation, claims_tables.consumer_holds.c.expires_at
    )
    .join_from(claims_tables.consumer_holds, _C)
    .where(claims_tables.consumer_holds.c.generation == _C.c.generation),
}


def stored(db: Database) -> dict[str, Any]:
    """Return the rows, those of holds that count only, as :func:`rows_of` has them."""

    def read(tx: Any) -> dict[str, Any]:
        return {what: [tuple(row) for row in tx.rows(query)] for what, query in _STORED.items()}

    rows = db.snapshot(read)
    found: dict[str, Any] = {what: sorted(each, key=str) for what, each in rows.items()}
    found["records"] = {uuid: row for uuid, *row in rows["records"]}
    return found


def rows_of(model: Claims) -> dict[str, Any]:
    """Return the rows that the model's state must be stored in."""
    rows: dict[str, Any] = {
        "allocations": [
            (consumer, provider, name, amount)
            for consumer, sets in model.allocations.items()
            for provider, amounts in sets.items()
            for name, amount in amounts.items()
        ],
        "providers": [(uuid, host.generation) for uuid, host in model.providers.items()],
        "members": [(name, uuid) for name, group in model.groups.items() for uuid in group.members],
        "holds": [(uuid, hold.generation, hold.expires_at) for uuid, hold in model.holds.items()],
    }
    shown: dict[str, Any] = {what: sorted(each, key=str) for what, each in rows.items()}
    shown["records"] = {
        uuid: [each.generation, each.project, each.type] for uuid, each in model.records.items()
    }
    return shown


def add_record(db: Database, uuid: str) -> None:
    """Add a consumer record that holds nothing, of generation 4."""

    def add(tx: Transaction) -> None:
        ids = {}
        for table in (models.projects, models.users):
            old = select(table.c.id).where(table.c.external_id == "old")
            found = tx.connection.execute(old).scalar()
            if found is None:
                new = insert(table).values(external_id="old")
                found = tx.connection.execute(new).inserted_primary_key[0]
            ids[table.name] = found
        row = {
            "uuid": uuid,
            "project_id": ids["projects"],
            "user_id": ids["users"],
            "generation": 4,
        }
        tx.connection.execute(insert(_C).values(**row))

    db.write(add)
