"""Query string of GET /usages (specification 02 section 9.2)."""

from typing import Any

from placement.schemas.windows import Windows
from placement.web.validation import Schema

_OWNER = {"type": "string", "minLength": 1, "maxLength": 255}
_OWNERS = {"project_id": _OWNER, "user_id": _OWNER}
# The middle one has no end: "allfoo" is valid and finds nothing.
_TYPE = {**_OWNER, "pattern": "^[A-Z0-9_]+$|^all|^unknown$"}


def _query(properties: dict[str, Any]) -> Schema:
    return Schema(
        {
            "type": "object",
            "properties": properties,
            "required": ["project_id"],
            "additionalProperties": False,
        }
    )


GET_QUERY = Windows({9: _query(_OWNERS), 38: _query({**_OWNERS, "consumer_type": _TYPE})})
