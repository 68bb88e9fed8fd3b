"""Bodies and query string of /resource_providers (specification 02 sections 3.2, 3.4 and 3.5)."""

from typing import Any

from placement.schemas.windows import Windows
from placement.web.validation import Schema

_NAME = {"name": {"type": "string", "maxLength": 200}}
_UUID = {"uuid": {"type": "string", "format": "uuid"}}
_PARENT = {"parent_provider_uuid": {"type": ["string", "null"], "format": "uuid"}}


def _named(*fields: dict[str, Any]) -> Schema:
    properties: dict[str, Any] = dict(_NAME)
    for more in fields:
        properties |= more
    return Schema(
        {
            "type": "object",
            "properties": properties,
            "required": ["name"],
            "additionalProperties": False,
        }
    )


POST = Windows({0: _named(_UUID), 14: _named(_UUID, _PARENT)})
PUT = Windows({0: _named(), 14: _named(_PARENT)})


def _filters(*names: str) -> Schema:
    properties: dict[str, Any] = {name: {"type": "string"} for name in ("name", *names)}
    properties |= {
        name: {"type": "string", "format": "uuid"}
        for name in ("uuid", "in_tree")
        if name == "uuid" or name in names
    }
    return Schema(
        {"type": "object", "properties": properties, "additionalProperties": False},
        strict_uuid=True,
    )


GET_QUERY = Windows(
    {
        0: _filters(),
        3: _filters("member_of"),
        4: _filters("member_of", "resources"),
        14: _filters("member_of", "resources", "in_tree"),
        18: _filters("member_of", "resources", "in_tree", "required"),
    }
)
