"""Query strings of GET /allocation_candidates (specifications 01 section 8.3, 04 section 3.1)."""

from typing import Any

from placement.schemas.windows import Windows, allow_only
from placement.web.validation import Schema

_STRING = {"type": "string"}
_LIMIT = {"type": "string", "pattern": "^[1-9][0-9]*$"}
_GROUP_POLICY = {"type": "string", "enum": ["none", "isolate"]}

NUMBER = "([1-9][0-9]*)"
NAME = "([a-zA-Z0-9_-]{1,64})"


def _make_single_group(*names: str) -> Schema:
    """Return the schema of the versions that know only one group."""
    properties: dict[str, Any] = {name: _STRING for name in names if name != "limit"}
    if "limit" in names:
        properties["limit"] = _LIMIT
    return Schema(allow_only(properties, "resources"), strict_uuid=True)


def _make_groups(suffix: str, names: tuple[str, ...], *request_wide: str) -> Schema:
    """Return the schema of the versions that know several groups, which suffixes distinguish."""
    properties: dict[str, Any] = {"limit": _LIMIT, "group_policy": _GROUP_POLICY}
    properties |= dict.fromkeys(request_wide, _STRING)
    return Schema(
        {
            "type": "object",
            "properties": properties,
            "patternProperties": {f"^{name}{suffix}?$": _STRING for name in names},
            "additionalProperties": False,
        },
        strict_uuid=True,
    )


_BEFORE_TREES = ("resources", "required", "member_of")
_WITH_TREES = (*_BEFORE_TREES, "in_tree")

GET = Windows(
    {
        10: _make_single_group("resources"),
        16: _make_single_group("resources", "limit"),
        17: _make_single_group("resources", "limit", "required"),
        21: _make_single_group("resources", "limit", "required", "member_of"),
        25: _make_groups(NUMBER, _BEFORE_TREES),
        31: _make_groups(NUMBER, _WITH_TREES),
        33: _make_groups(NAME, _WITH_TREES),
        35: _make_groups(NAME, _WITH_TREES, "root_required"),
        36: _make_groups(NAME, _WITH_TREES, "root_required", "same_subtree"),
    }
)
