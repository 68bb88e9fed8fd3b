"""Bodies and query strings of providers, inventories, aggregates, traits and classes (specification 02)."""

from typing import Any

from placement.inventory_record import MAX_INT, MAX_RATIO
from placement.schemas.windows import Windows, allow_only
from placement.web.validation import Schema

CLASS_NAME = "^[A-Z0-9_]+$"
GENERATION = "resource_provider_generation"

_GENERATION = {GENERATION: {"type": "integer"}}
_STRING = {"type": "string"}
_NAME = {"name": {"type": "string", "maxLength": 200}}
_UUID = {"uuid": {"type": "string", "format": "uuid"}}
_PARENT = {"parent_provider_uuid": {"type": ["string", "null"], "format": "uuid"}}

# -- providers (sections 3.2, 3.4 and 3.5)

POST = Windows(
    {
        0: Schema(allow_only(_NAME | _UUID, "name")),
        14: Schema(allow_only(_NAME | _UUID | _PARENT, "name")),
    }
)
PUT = Windows(
    {0: Schema(allow_only(_NAME, "name")), 14: Schema(allow_only(_NAME | _PARENT, "name"))}
)


def _make_filters(*names: str) -> Schema:
    properties: dict[str, Any] = dict.fromkeys(("name", *names), _STRING)
    uuids = ("uuid", "in_tree") if "in_tree" in names else ("uuid",)
    return Schema(allow_only(properties | dict.fromkeys(uuids, _UUID["uuid"])), strict_uuid=True)


GET_QUERY = Windows(
    {
        0: _make_filters(),
        3: _make_filters("member_of"),
        4: _make_filters("member_of", "resources"),
        14: _make_filters("member_of", "resources", "in_tree"),
        18: _make_filters("member_of", "resources", "in_tree", "required"),
    }
)

# -- inventories (section 4); they never changed

_POSITIVE = {"type": "integer", "minimum": 1, "maximum": MAX_INT}
RECORD: dict[str, Any] = {
    **_GENERATION,
    "total": _POSITIVE,
    "reserved": {"type": "integer", "minimum": 0, "maximum": MAX_INT},
    "min_unit": _POSITIVE,
    "max_unit": _POSITIVE,
    "step_size": _POSITIVE,
    # The lower bound excludes values that no column can hold; the capacity rule decides about the rest.
    "allocation_ratio": {"type": "number", "minimum": -MAX_RATIO, "maximum": MAX_RATIO},
}


def inventories_of(record: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a provider's inventories, given the properties of one.

    A key of another form is an unknown class, with any value.
    """
    records = {"type": "object", "patternProperties": {CLASS_NAME: allow_only(record, "total")}}
    return allow_only({**_GENERATION, "inventories": records}, GENERATION, "inventories")


_CLASS = {"resource_class": {"type": "string", "pattern": CLASS_NAME}}
POST_INVENTORY = Schema(allow_only(RECORD | _CLASS, "total", "resource_class"))
PUT_INVENTORY = Schema(allow_only(RECORD, "total", GENERATION))
PUT_INVENTORIES = Schema(inventories_of(RECORD))

# -- aggregates (section 5.2)

# 36 characters are stored: a longer spelling of a uuid is refused.
_AGGREGATES = {
    "type": "array",
    "items": {"type": "string", "format": "uuid", "maxLength": 36},
    "uniqueItems": True,
}
PUT_AGGREGATES = Windows(
    {
        1: Schema(_AGGREGATES),
        19: Schema(
            allow_only({"aggregates": _AGGREGATES, **_GENERATION}, "aggregates", GENERATION)
        ),
    }
)

# -- traits (sections 6.2 and 7.2) and resource classes (section 8)

GET_TRAITS = Schema(allow_only({"name": _STRING, "associated": _STRING}))
_TRAITS = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 255}}
PUT_TRAITS = Schema(allow_only({"traits": _TRAITS, **_GENERATION}, "traits", GENERATION))

_CUSTOM_NAME = {"type": "string", "pattern": "^CUSTOM_[A-Z0-9_]+$", "maxLength": 255}
CUSTOM_CLASS = Schema(allow_only({"name": _CUSTOM_NAME}, "name"))
