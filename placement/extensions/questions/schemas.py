"""Query strings and bodies of operators' questions (specification 07), and defaults of the queries."""

from placement.schemas import resource_provider
from placement.schemas.allocation import UUID_KEY
from placement.schemas.questions import AVOID, AVOID_IN_QUERY, extend_search
from placement.schemas.resource_provider import CLASS_NAME
from placement.schemas.windows import allow_keys, allow_only
from placement.web.validation import Schema

DEFAULT_TOP = 20

REPEATABLE = frozenset({"or"})
"""The own parameters of these queries, which are given at most once each."""

_OR = {"or": {"type": "string", "minLength": 1}}
EXPLAIN_OWN = _OR | {
    "about": {"type": "string", "minLength": 1},
    "examples": {"type": "string", "pattern": "^(1?[0-9]|20)$"},
}
EXPLAIN = extend_search(EXPLAIN_OWN)

_COUNTED = {
    "by": {"type": "string", "enum": ["trees", "aggregates", "aggregate"]},
    "top": {"type": "string", "pattern": "^([1-9][0-9]{0,2}|1000)$"},
    "shape": {"type": "string", "minLength": 1},
}
CAPACITY_OWN = _OR | _COUNTED
CAPACITY = extend_search(CAPACITY_OWN, without=("limit",))
CAPACITY_OF_SHAPES = Schema(allow_only(_COUNTED | {"avoid": AVOID_IN_QUERY}, "shape"))
CAPACITY_HISTORY = Schema(allow_only({"shape": _COUNTED["shape"]}, "shape"))
SHAPE = extend_search({}, without=("limit",))
"""The query of a shape, and of an ``or``."""

SURVIVAL = Schema(
    allow_only(
        {
            "failures": {"type": "string", "enum": ["1"]},
            "level": {"type": "string", "enum": ["tree", "aggregate"]},
            "top": CAPACITY_OWN["top"],
            "avoid": AVOID_IN_QUERY,
        }
    )
)

MOST_CHANGES = 100
MOST_PLACEMENTS = 1_000_000

_UUID = {"type": "string", "format": "uuid"}
_TRAIT = {"type": "string", "minLength": 1, "maxLength": 255}
_TIMES = {"type": "integer", "minimum": 1, "maximum": MOST_PLACEMENTS}
_INVENTORIES = allow_keys(CLASS_NAME, allow_only(resource_provider.RECORD, "total"))
_CHANGES = (
    allow_only({"drain": _UUID}, "drain"),
    allow_only({"remove": _UUID}, "remove"),
    allow_only({"place": {"type": "string"}, "times": _TIMES}, "place"),
    allow_only({"inventories": allow_keys(UUID_KEY, _INVENTORIES)}, "inventories"),
    allow_only({"traits": allow_keys(UUID_KEY, {"type": "array", "items": _TRAIT})}, "traits"),
    allow_only(
        {"aggregates": allow_keys(UUID_KEY, {"type": "array", "items": _UUID})}, "aggregates"
    ),
)
_LIST = {"type": "array", "maxItems": MOST_CHANGES, "items": {"anyOf": [*_CHANGES]}}
WHAT_IF = Schema(
    allow_only({"changes": _LIST, "query": {"type": "string"}, "avoid": AVOID}, "changes", "query")
)
