"""Consumers and their allocations in the bodies of PUT and POST /allocations and of POST /reshaper."""

from collections.abc import Mapping
from typing import Any

from placement.objects.consumer import ANY_GENERATION, ConsumerChange


def consumer_changes(body: Mapping[str, Any]) -> list[ConsumerChange]:
    """Return the changes of a valid object of entries by consumer uuid."""
    return [consumer_change(uuid, entry) for uuid, entry in body.items()]


def consumer_change(uuid: str, entry: Mapping[str, Any]) -> ConsumerChange:
    """Return the change that a valid entry of the object form asks for."""
    generation = entry.get("consumer_generation", ANY_GENERATION)
    return ConsumerChange(
        uuid,
        {
            provider_uuid: {name: int(amount) for name, amount in held["resources"].items()}
            for provider_uuid, held in entry["allocations"].items()
        },
        project=entry["project_id"],
        user=entry["user_id"],
        generation=int(generation) if isinstance(generation, float) else generation,
        type=entry.get("consumer_type"),
    )
