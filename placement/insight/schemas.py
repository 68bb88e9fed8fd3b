"""Query strings and bodies of what operators ask (specification 07), and defaults of the queries."""

from typing import Any

from placement.schemas import allocation_candidate, resource_provider
from placement.schemas.resource_provider import CLASS_NAME
from placement.schemas.windows import Windows, closed
from placement.web.validation import Schema

DEFAULT_EXAMPLES = 3
DEFAULT_TOP = 20
DEFAULT_LIMIT = 100
LARGEST_LIMIT = 10_000

METRICS = Schema({"type": "object", "additionalProperties": False})


def _beside(more: dict[str, Any], without: tuple[str, ...] = ()) -> Windows[Schema]:
    """Return the queries of a search with more parameters, and without some."""
    return Windows(
        {minor: _extended(each, more, without) for minor, each in allocation_candidate.GET.items()}
    )


def _extended(filters: Schema, more: dict[str, Any], without: tuple[str, ...] = ()) -> Schema:
    document = dict(filters.document)
    properties = {k: v for k, v in document["properties"].items() if k not in without}
    document["properties"] = properties | more
    return Schema(document, strict_uuid=True)


EXPLAIN_OWN = {
    "about": {"type": "string", "minLength": 1},
    "examples": {"type": "string", "pattern": "^(1?[0-9]|20)$"},
}
EXPLAIN = _beside(EXPLAIN_OWN)

CAPACITY_OWN = {
    "by": {"type": "string", "enum": ["trees", "aggregates"]},
    "top": {"type": "string", "pattern": "^([1-9][0-9]{0,2}|1000)$"},
}
CAPACITY = _beside(CAPACITY_OWN, without=("limit",))

_ALLOCATIONS = {"allocations": {"type": "string", "enum": ["true", "false"]}}
TREE = Schema({"type": "object", "properties": _ALLOCATIONS, "additionalProperties": False})
_PAGES = {
    "limit": {"type": "string", "pattern": "^([1-9][0-9]{0,3}|10000)$"},
    "after": {"type": "string", "format": "uuid"},
}
TREES = Windows(
    {
        minor: _extended(filters, _ALLOCATIONS | _PAGES)
        for minor, filters in resource_provider.GET_QUERY.items()
    }
)

MOST_CHANGES = 100
MOST_PLACEMENTS = 1_000_000

_UUID = {"type": "string", "format": "uuid"}
_RECORD = closed(resource_provider.RECORD, "total")


def _change(required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [required],
        "additionalProperties": False,
    }


def _by_provider(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "patternProperties": {"^[0-9a-fA-F-]{36}$": value},
        "additionalProperties": False,
    }


def _names(value: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": value}


WHAT_IF = Schema(
    {
        "type": "object",
        "properties": {
            "changes": {
                "type": "array",
                "maxItems": MOST_CHANGES,
                "items": {
                    "anyOf": [
                        _change("drain", drain=_UUID),
                        _change("remove", remove=_UUID),
                        _change(
                            "place",
                            place={"type": "string"},
                            times={"type": "integer", "minimum": 1, "maximum": MOST_PLACEMENTS},
                        ),
                        _change(
                            "inventories",
                            inventories=_by_provider(
                                {
                                    "type": "object",
                                    "patternProperties": {CLASS_NAME: _RECORD},
                                    "additionalProperties": False,
                                }
                            ),
                        ),
                        _change(
                            "traits",
                            traits=_by_provider(
                                _names({"type": "string", "minLength": 1, "maxLength": 255})
                            ),
                        ),
                        _change("aggregates", aggregates=_by_provider(_names(_UUID))),
                    ]
                },
            },
            "query": {"type": "string"},
        },
        "required": ["changes", "query"],
        "additionalProperties": False,
    }
)
