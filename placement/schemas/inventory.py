"""Bodies of the inventory operations (specification 02 section 4). They never changed."""

from typing import Any

from placement.limits import MAX_INT, MAX_RATIO
from placement.schemas.allocation import CLASS_NAME
from placement.web.validation import Schema

_GENERATION = {"resource_provider_generation": {"type": "integer"}}
_POSITIVE = {"type": "integer", "minimum": 1, "maximum": MAX_INT}
RECORD: dict[str, Any] = {
    **_GENERATION,
    "total": _POSITIVE,
    "reserved": {"type": "integer", "minimum": 0, "maximum": MAX_INT},
    "min_unit": _POSITIVE,
    "max_unit": _POSITIVE,
    "step_size": _POSITIVE,
    # The lower bound keeps out what no column can hold; the capacity rule decides about the rest.
    "allocation_ratio": {"type": "number", "minimum": -MAX_RATIO, "maximum": MAX_RATIO},
}


def _record(*required: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**RECORD, **more},
        "required": ["total", *required],
        "additionalProperties": False,
    }


POST = Schema(_record("resource_class", resource_class={"type": "string", "pattern": CLASS_NAME}))
PUT = Schema(_record("resource_provider_generation"))
PUT_ALL = Schema(
    {
        "type": "object",
        "properties": {
            **_GENERATION,
            # A key of another form is an unknown class, whatever it holds.
            "inventories": {"type": "object", "patternProperties": {CLASS_NAME: _record()}},
        },
        "required": ["resource_provider_generation", "inventories"],
        "additionalProperties": False,
    }
)
