"""Query string of /traits, body of a provider's traits (specification 02 sections 6.2 and 7.2)."""

from placement.web.validation import Schema

GET_QUERY = Schema(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "associated": {"type": "string"}},
        "additionalProperties": False,
    }
)
PUT_OF_PROVIDER = Schema(
    {
        "type": "object",
        "properties": {
            "traits": {
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": 255},
            },
            "resource_provider_generation": {"type": "integer"},
        },
        "required": ["traits", "resource_provider_generation"],
        "additionalProperties": False,
    }
)
