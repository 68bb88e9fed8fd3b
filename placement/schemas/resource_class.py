"""Body of creating and renaming a resource class; also what its name may be (specification 02 section 8)."""

from placement.web.validation import Schema

CUSTOM_CLASS = Schema(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "^CUSTOM_[A-Z0-9_]+$", "maxLength": 255}
        },
        "required": ["name"],
        "additionalProperties": False,
    }
)
