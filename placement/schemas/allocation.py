"""Bodies and query strings of the ledger: allocations, usages, the reshaper (specifications 02, 03, 05)."""

from typing import Any

from placement.inventory_record import MAX_RATIO
from placement.schemas.resource_provider import CLASS_NAME, RECORD, inventories_of
from placement.schemas.windows import Windows, allow_keys, allow_only
from placement.web.validation import Schema

UUID_KEY = "^[0-9a-fA-F-]{36}$"

_UUID = {"type": "string", "format": "uuid"}
OWNER_ID = {"type": "string", "minLength": 1, "maxLength": 255}
_RESOURCES = allow_keys(CLASS_NAME, {"type": "integer", "minimum": 1}, least=1)
_PROVIDER = {
    "type": "object",
    "properties": {"uuid": _UUID},
    "additionalProperties": False,
    "required": ["uuid"],
}
_LIST_FORM = {
    "type": "array",
    "minItems": 1,
    "items": allow_only(
        {"resource_provider": _PROVIDER, "resources": _RESOURCES}, "resource_provider", "resources"
    ),
}
# A client can send back the answer of GET: the generation is not checked.
_OBJECT_FORM = allow_keys(
    UUID_KEY, allow_only({"generation": {"type": "integer"}, "resources": _RESOURCES}, "resources")
)
# The pattern is not anchored, so that almost any key is valid (specification 03 section 6.4).
_MAPPINGS = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {"[a-zA-Z0-9_-]{1,64}": {"type": "array", "minItems": 1, "items": _UUID}},
}
_OWNERS = {"project_id": OWNER_ID, "user_id": OWNER_ID}
_GENERATION = {"consumer_generation": {"type": ["integer", "null"]}}
TYPE = {"type": "string", "pattern": CLASS_NAME, "minLength": 1, "maxLength": 255}
_TYPE = {"consumer_type": TYPE}


def _make_consumer(allocations: Any, fields: dict[str, Any], *, mappings: bool = False) -> Any:
    """Return the schema of one consumer's object, all of whose fields but mappings are required."""
    properties = {"allocations": allocations, **fields}
    return allow_only(properties | ({"mappings": _MAPPINGS} if mappings else {}), *properties)


_BY_MINOR = {
    13: _make_consumer(_OBJECT_FORM, _OWNERS),
    28: _make_consumer(_OBJECT_FORM, _OWNERS | _GENERATION),
    34: _make_consumer(_OBJECT_FORM, _OWNERS | _GENERATION, mappings=True),
    38: _make_consumer(_OBJECT_FORM, _OWNERS | _GENERATION | _TYPE, mappings=True),
}
"""A consumer's entry among many, by the first minor version in which it is valid."""

PUT = Windows(
    {
        0: Schema(_make_consumer(_LIST_FORM, {})),
        8: Schema(_make_consumer(_LIST_FORM, _OWNERS)),
        12: Schema(_make_consumer({**_OBJECT_FORM, "minProperties": 1}, _OWNERS)),
        **{minor: Schema(entry) for minor, entry in _BY_MINOR.items() if minor >= 28},
    }
)
POST = Windows(
    {minor: Schema(allow_keys(UUID_KEY, entry, 1)) for minor, entry in _BY_MINOR.items()}
)

# The schema does not check the lower bound of the ratio (specification 05 section A2).
_INVENTORIES = inventories_of(
    {**RECORD, "allocation_ratio": {"type": "number", "maximum": MAX_RATIO}}
)


def _make_reshape(consumer: Any) -> Schema:
    inventories = allow_keys(UUID_KEY, _INVENTORIES, least=1)
    allocations = allow_keys(UUID_KEY, consumer, least=0)
    properties = {"inventories": inventories, "allocations": allocations}
    return Schema(allow_only(properties, *properties))


# 1.30 accepts consumers in the form of 1.28.
RESHAPE = Windows({max(minor, 30): _make_reshape(_BY_MINOR[minor]) for minor in (28, 34, 38)})

# The middle pattern has no end: "allfoo" is valid and finds nothing (specification 02 section 9.2).
_TYPE_ASKED = {**OWNER_ID, "pattern": "^[A-Z0-9_]+$|^all|^unknown$"}
USAGES_QUERY = Windows(
    {
        9: Schema(allow_only(_OWNERS, "project_id")),
        38: Schema(allow_only({**_OWNERS, "consumer_type": _TYPE_ASKED}, "project_id")),
    }
)
