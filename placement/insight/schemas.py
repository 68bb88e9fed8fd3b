"""Query strings and bodies of what operators ask (specification 07), and defaults of the queries."""

from typing import Any

from placement.schemas import allocation_candidate, resource_provider
from placement.schemas.allocation import UUID_KEY
from placement.schemas.resource_provider import CLASS_NAME
from placement.schemas.windows import Windows, closed, keyed
from placement.web.validation import Schema

DEFAULT_EXAMPLES = 3
DEFAULT_TOP = 20
DEFAULT_LIMIT = 100
LARGEST_LIMIT = 10_000

NOTHING = Schema(closed({}))


def _beside(more: dict[str, Any], without: tuple[str, ...] = ()) -> Windows[Schema]:
    """Return the queries of a search with more parameters, and without some."""
    return Windows(
        {minor: extended(each, more, without) for minor, each in allocation_candidate.GET.items()}
    )


def extended(filters: Schema, more: dict[str, Any], without: tuple[str, ...] = ()) -> Schema:
    """Return the query of a search with more parameters, and without some."""
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
    "by": {"type": "string", "enum": ["trees", "aggregates", "aggregate"]},
    "top": {"type": "string", "pattern": "^([1-9][0-9]{0,2}|1000)$"},
    "shape": {"type": "string", "minLength": 1},
}
CAPACITY = _beside(CAPACITY_OWN, without=("limit",))
CAPACITY_OF_SHAPES = Schema(closed(CAPACITY_OWN, "shape"))
HISTORY = Schema(closed({"shape": CAPACITY_OWN["shape"]}, "shape"))
SHAPE = _beside({}, without=("limit",))

SURVIVAL = Schema(
    closed(
        {
            "failures": {"type": "string", "enum": ["1"]},
            "level": {"type": "string", "enum": ["tree", "aggregate"]},
            "top": CAPACITY_OWN["top"],
        }
    )
)

_ALLOCATIONS = {"allocations": {"type": "string", "enum": ["true", "false"]}}
TREE = Schema(closed(_ALLOCATIONS))
_PAGES = {
    "limit": {"type": "string", "pattern": "^([1-9][0-9]{0,3}|10000)$"},
    "after": {"type": "string", "format": "uuid"},
}
TREES = Windows(
    {
        minor: extended(filters, _ALLOCATIONS | _PAGES)
        for minor, filters in resource_provider.GET_QUERY.items()
    }
)

MOST_CHANGES = 100
MOST_PLACEMENTS = 1_000_000

_UUID = {"type": "string", "format": "uuid"}
_TRAIT = {"type": "string", "minLength": 1, "maxLength": 255}
_TIMES = {"type": "integer", "minimum": 1, "maximum": MOST_PLACEMENTS}
_INVENTORIES = keyed(CLASS_NAME, closed(resource_provider.RECORD, "total"))
_CHANGES = (
    closed({"drain": _UUID}, "drain"),
    closed({"remove": _UUID}, "remove"),
    closed({"place": {"type": "string"}, "times": _TIMES}, "place"),
    closed({"inventories": keyed(UUID_KEY, _INVENTORIES)}, "inventories"),
    closed({"traits": keyed(UUID_KEY, {"type": "array", "items": _TRAIT})}, "traits"),
    closed({"aggregates": keyed(UUID_KEY, {"type": "array", "items": _UUID})}, "aggregates"),
)
_LIST = {"type": "array", "maxItems": MOST_CHANGES, "items": {"anyOf": [*_CHANGES]}}
WHAT_IF = Schema(closed({"changes": _LIST, "query": {"type": "string"}}, "changes", "query"))
