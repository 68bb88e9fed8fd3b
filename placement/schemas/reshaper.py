"""Body of POST /reshaper (specification 05 section A2)."""

from typing import Any

from placement.limits import MAX_RATIO
from placement.schemas.allocation import CLASS_NAME, CONSUMER_BY_MINOR, UUID_KEY, by_consumer
from placement.schemas.inventory import RECORD
from placement.schemas.windows import Windows
from placement.web.validation import Schema

_INVENTORY = {
    "type": "object",
    "properties": {
        **RECORD,
        "allocation_ratio": {"type": "number", "maximum": MAX_RATIO},
    },
    "required": ["total"],
    "additionalProperties": False,
}
_INVENTORIES = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {
        UUID_KEY: {
            "type": "object",
            "properties": {
                "resource_provider_generation": {"type": "integer"},
                # Keys of another form are no class, and are told so later.
                "inventories": {"type": "object", "patternProperties": {CLASS_NAME: _INVENTORY}},
            },
            "required": ["resource_provider_generation", "inventories"],
            "additionalProperties": False,
        }
    },
    "additionalProperties": False,
}


def _reshape(consumer: Any) -> Schema:
    return Schema(
        {
            "type": "object",
            "properties": {
                "inventories": _INVENTORIES,
                "allocations": by_consumer(consumer, min_properties=0),
            },
            "required": ["inventories", "allocations"],
            "additionalProperties": False,
        }
    )


# 1.30 takes consumers as they are since 1.28.
POST = Windows({max(minor, 30): _reshape(CONSUMER_BY_MINOR[minor]) for minor in (28, 34, 38)})
