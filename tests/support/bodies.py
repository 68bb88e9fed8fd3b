"""What requests say: the bodies of the newest version."""

from collections.abc import Mapping
from typing import Any

Sets = Mapping[str, Mapping[str, int]]
"""Amounts by class by provider uuid."""

Stock = Mapping[str, int | Mapping[str, Any]]
"""The total or the whole record, by class."""


def entry(sets: Sets, generation: int | None = None, **more: Any) -> dict[str, Any]:
    """Return what a body says of one consumer."""
    return {
        "allocations": {uuid: {"resources": dict(held)} for uuid, held in sets.items()},
        "project_id": "red",
        "user_id": "ann",
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
        **more,
    }


def entry_1_12(sets: Sets) -> dict[str, Any]:
    """Return the same as of 1.12, without a generation."""
    body = entry(sets)
    return {key: body[key] for key in ("allocations", "project_id", "user_id")}


def stock(generation: int, records: Stock) -> dict[str, Any]:
    """Return what a body says of the inventories of one provider."""
    return {
        "resource_provider_generation": generation,
        "inventories": {
            name: {"total": record} if isinstance(record, int) else dict(record)
            for name, record in records.items()
        },
    }
