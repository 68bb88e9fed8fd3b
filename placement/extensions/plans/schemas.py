"""The schema of a request for a plan (specification 10 section 2)."""

from placement.extensions.claims.schemas import LONGEST_HOLD_S
from placement.handlers.allocation import NO_TYPE
from placement.schemas.allocation import OWNER_ID, TYPE
from placement.schemas.questions import AVOID
from placement.schemas.resource_provider import CLASS_NAME
from placement.schemas.windows import allow_keys, allow_only
from placement.web.validation import Schema

MOST_TIMES = 1000
MOST_DOMAINS = 1000
MOST_GROUPS = 100
MOST_UNTOUCHED = 10_000
MOST_NOT_TO = 1000
MOST_STEPS = 10_000
MOST_TYPES = 100
MOST_PROJECTS = 1000
LARGEST_COST = 1_000_000

_UUID = {"type": "string", "format": "uuid"}
_UUIDS = {"type": "array", "items": _UUID, "minItems": 1, "maxItems": MOST_DOMAINS}
_EMPTY = allow_only(
    {
        "trees": _UUIDS,
        "count": {"type": "integer", "minimum": 1, "maximum": MOST_DOMAINS},
        "level": {"type": "string", "enum": ["tree", "aggregate"]},
        "of": _UUIDS,
    }
)
_GROUP_NAME = {"type": "string", "minLength": 1, "maxLength": 255}
_GOAL = allow_only(
    {
        "place": {"type": "string"},
        "times": {"type": "integer", "minimum": 1, "maximum": MOST_TIMES},
        "empty": _EMPTY,
        "keep": {"type": "array", "items": _GROUP_NAME, "minItems": 1, "maxItems": MOST_GROUPS},
    }
)
_TYPE_OR_NONE = TYPE | {"pattern": f"{CLASS_NAME}|^{NO_TYPE}$"}
_TYPES = {"type": "array", "items": _TYPE_OR_NONE, "maxItems": MOST_TYPES}
_MOVE = allow_only(
    {
        "consumer_types": _TYPES,
        "except": {"type": "array", "items": _UUID, "maxItems": MOST_UNTOUCHED},
        "not_to": {"type": "array", "items": _UUID, "maxItems": MOST_NOT_TO},
        "most": {"type": "integer", "minimum": 1, "maximum": MOST_STEPS},
        "avoid": AVOID,
    }
)
_REMOVE = allow_only(
    {
        "consumer_types": _TYPES,
        "projects": {"type": "array", "items": OWNER_ID, "maxItems": MOST_PROJECTS},
    }
) | {"minProperties": 1}
_COST = {"type": "number", "exclusiveMinimum": 0, "maximum": LARGEST_COST}
_PER_UNIT = {"type": "number", "minimum": 0, "maximum": LARGEST_COST}
PLAN = Schema(
    allow_only(
        {
            "goal": _GOAL,
            "may": allow_only({"move": _MOVE, "remove": _REMOVE}),
            "cost": allow_only(
                {"move": _COST, "remove": _COST, "per_unit": allow_keys(CLASS_NAME, _PER_UNIT)}
            ),
            "avoid": AVOID,
            "hold_s": {"type": "integer", "minimum": 1, "maximum": LONGEST_HOLD_S},
        },
        "goal",
    )
)
"""``POST /-/plans``"""
