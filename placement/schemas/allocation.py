"""Bodies of PUT /allocations/{consumer_uuid} and POST /allocations (specification 03 section 6)."""

from typing import Any

from placement.schemas.windows import Windows
from placement.web.validation import Schema

UUID_KEY = "^[0-9a-fA-F-]{36}$"
CLASS_NAME = "^[A-Z0-9_]+$"

_OWNER_ID = {"type": "string", "minLength": 1, "maxLength": 255}
_RESOURCES = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {CLASS_NAME: {"type": "integer", "minimum": 1}},
    "additionalProperties": False,
}
_LIST_FORM = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "properties": {
            "resource_provider": {
                "type": "object",
                "properties": {"uuid": {"type": "string", "format": "uuid"}},
                "additionalProperties": False,
                "required": ["uuid"],
            },
            "resources": _RESOURCES,
        },
        "required": ["resource_provider", "resources"],
        "additionalProperties": False,
    },
}
_OBJECT_FORM = {
    "type": "object",
    "patternProperties": {
        UUID_KEY: {
            "type": "object",
            # What GET answers may be sent back: the generation is looked at by nobody.
            "properties": {"generation": {"type": "integer"}, "resources": _RESOURCES},
            "required": ["resources"],
            "additionalProperties": False,
        }
    },
    "additionalProperties": False,
}
# Not anchored, so that almost any key is meant (specification 03 section 6.4).
_MAPPINGS = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {
        "[a-zA-Z0-9_-]{1,64}": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "format": "uuid"},
        }
    },
}
_OWNERS = {"project_id": _OWNER_ID, "user_id": _OWNER_ID}
_GENERATION = {"consumer_generation": {"type": ["integer", "null"]}}
_TYPE = {
    "consumer_type": {"type": "string", "pattern": CLASS_NAME, "minLength": 1, "maxLength": 255}
}


def _one_consumer(allocations: Any, *fields: dict[str, Any], mappings: bool = False) -> Any:
    """Return the schema of one consumer's object, all of whose fields but mappings are required."""
    properties: dict[str, Any] = {"allocations": allocations}
    for more in fields:
        properties |= more
    required = list(properties)
    if mappings:
        properties["mappings"] = _MAPPINGS
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


_NOT_EMPTY = {**_OBJECT_FORM, "minProperties": 1}

CONSUMER_BY_MINOR = {
    13: _one_consumer(_OBJECT_FORM, _OWNERS),
    28: _one_consumer(_OBJECT_FORM, _OWNERS, _GENERATION),
    34: _one_consumer(_OBJECT_FORM, _OWNERS, _GENERATION, mappings=True),
    38: _one_consumer(_OBJECT_FORM, _OWNERS, _GENERATION, _TYPE, mappings=True),
}
"""A consumer's entry among many, by the first minor version it holds for."""


def by_consumer(entry: Any, *, min_properties: int) -> dict[str, Any]:
    """Return the schema of an object of entries keyed by consumer uuid."""
    return {
        "type": "object",
        "minProperties": min_properties,
        "patternProperties": {UUID_KEY: entry},
        "additionalProperties": False,
    }


PUT = Windows(
    {
        0: Schema(_one_consumer(_LIST_FORM)),
        8: Schema(_one_consumer(_LIST_FORM, _OWNERS)),
        12: Schema(_one_consumer(_NOT_EMPTY, _OWNERS)),
        **{minor: Schema(entry) for minor, entry in CONSUMER_BY_MINOR.items() if minor >= 28},
    }
)
POST = Windows(
    {
        minor: Schema(by_consumer(entry, min_properties=1))
        for minor, entry in CONSUMER_BY_MINOR.items()
    }
)
