"""Body of PUT /resource_providers/{uuid}/aggregates (specification 02 section 5.2)."""

from placement.schemas.windows import Windows
from placement.web.validation import Schema

# 36 characters are what is stored: no longer spelling of a uuid is taken.
_AGGREGATES = {
    "type": "array",
    "items": {"type": "string", "format": "uuid", "maxLength": 36},
    "uniqueItems": True,
}

PUT = Windows(
    {
        1: Schema(_AGGREGATES),
        19: Schema(
            {
                "type": "object",
                "properties": {
                    "aggregates": _AGGREGATES,
                    "resource_provider_generation": {"type": "integer"},
                },
                "required": ["aggregates", "resource_provider_generation"],
                "additionalProperties": False,
            }
        ),
    }
)
