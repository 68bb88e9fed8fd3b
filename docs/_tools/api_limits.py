"""What requests keep to beyond the schemas that the handlers check with, as JSON Schema says it.

The service checks these outside JSON Schema, with errors of their own: the values of query strings have small
languages (specification 04 section 3.3), some members exclude each other (09 and 10), and NUL stands nowhere.
The OpenAPI document has them in addition. What JSON Schema cannot say is listed in
``tests/docs/test_openapi.py``, by the reasons of the errors.
"""

import re
from collections.abc import Sequence
from typing import Any

from placement.extensions.feed.feed import Token
from placement.schemas.allocation import UUID_KEY
from placement.schemas.allocation_candidate import NAME as SUFFIX
from placement.search.filters import GROUP_PARAMETERS

Json = dict[str, Any]

_ANY, _ANY_OR_NONE = r"^[^\u0000]+$", r"^[^\u0000]*$"
_NAME = "[A-Z0-9_]+"
_UUID = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_AMOUNT = f"{_NAME}:[1-9][0-9]*"
_TRAITS = f"!?{_NAME}(,!?{_NAME})*"


def _whole(pattern: str) -> Json:
    return {"pattern": f"^{pattern}$"}


QUERY: Json = {
    "format": "placement-query",
    "description": "The query string of `GET /allocation_candidates`.",
    "pattern": rf"(^|[&;])resources{SUFFIX}?={_NAME}(:|%3[Aa])[1-9][^\u0000]*$",
}
"""A query string in a body, or in another query string. It asks for resources."""

_GROUP_VALUES: dict[str, Json] = {
    "resources": _whole(f"{_AMOUNT}(,{_AMOUNT})*"),
    "required": _whole(f"({_TRAITS}|in:{_NAME}(,{_NAME})*)"),
    "member_of": _whole(f"!?({_UUID}|in:{_UUID}(,{_UUID})*)"),
    "in_tree": _whole(_UUID),
}
SUFFIXED: Json = {
    f"^{name}{SUFFIX}$": {"type": "string"} | _GROUP_VALUES[name] for name in GROUP_PARAMETERS
}
"""The values of granular groups, by patterns of their names."""


def _last_of(bits: int) -> str:
    """Return the characters with which base64 of a text with so many bits can end."""
    return {0: "[A-Za-z0-9_-]", 2: "[AQgw]", 4: "[AEIMQUYcgkosw048]"}[bits % 6]


def _token() -> Json:
    """Return the two forms of a token of the feed: with marks and without."""
    texts = [Token((), bytes(16)).show(), Token((0,) * 64, bytes(16)).show()]
    forms = (
        f"[A-Za-z0-9_-]{{{len(text) - 1}}}{_last_of(len(text) * 6 // 8 * 8)}" for text in texts
    )
    return _whole(f"({'|'.join(forms)})")


_VALUES: dict[str, Json] = _GROUP_VALUES | {
    "associated": _whole("([Tt]rue|[Ff]alse|TRUE|FALSE)"),
    "or": QUERY,
    "root_required": _whole(_TRAITS),
    "same_subtree": _whole(f"{SUFFIX}(,{SUFFIX})*"),
}
_VALUES_HERE: dict[tuple[str, str], Json] = {
    ("/-/changes", "since"): _token(),
    ("/-/history", "since"): {"format": "date-time"},
    ("/-/history", "until"): {"format": "date-time"},
    ("/usages", "consumer_type"): {"pattern": r"^[A-Z0-9_]+$|^all[^\u0000]*$|^unknown$"},
    ("/traits", "name"): {"pattern": r"^(in|startswith):[^\u0000]*$"},
}
_INTEGERS: dict[tuple[str, str], Json] = {
    ("/-/changes", "limit"): {"minimum": 100, "maximum": 10_000},
    ("/-/changes", "wait_s"): {"minimum": 0, "maximum": 60},
    ("/-/history", "limit"): {"minimum": 1, "maximum": 1000},
    ("/-/holds", "limit"): {"minimum": 1, "maximum": 10_000},
    ("/-/trees", "limit"): {"minimum": 1, "maximum": 10_000},
    ("/-/explain", "limit"): {"minimum": 1},
    ("/allocation_candidates", "limit"): {"minimum": 1},
}
"""Numbers that the handlers check as text."""


def limit_parameter(path: str, name: str, schema: Json) -> Json:
    """Return the schema of one value of a parameter of a query."""
    if (path, name) in _INTEGERS:
        return {"type": "integer"} | _INTEGERS[path, name]
    return _forbid_nul(schema | _VALUES.get(name, {}) | _VALUES_HERE.get((path, name), {}))


_CUSTOM_NAME = _whole("CUSTOM_[A-Z0-9_]+") | {"maxLength": 255}
_PATHS: dict[tuple[str, str, str], Json] = {
    ("/resource_classes/{name}", "PUT", "name"): _CUSTOM_NAME,
    ("/traits/{name}", "PUT", "name"): _CUSTOM_NAME,
}


def limit_variable(path: str, method: str, name: str) -> Json:
    """Return the schema of a variable of a path."""
    if name in ("uuid", "consumer_uuid"):
        return {"type": "string", **_whole(_UUID)}
    return {"type": "string", "minLength": 1} | _PATHS.get((path, method, name), {})


# With "oneOf" generators of clients make no class. redocly takes members that it does not see at a place for
# unknown ones, unless they are allowed there.
def _where(members: Json, *required: str) -> Json:
    """Return a schema of some members beside which there are others."""
    needed = {"required": list(required)} if required else {}
    return {"properties": members, **needed, "unevaluatedProperties": True}


_AGGREGATE = _where({"level": {"const": "aggregate"}}, "level")
_NEW = {"items": _where({"consumer_generation": {"type": "null"}})}
_BODIES: dict[tuple[str, str], dict[str, Json]] = {
    ("/resource_providers", "POST"): {"name": {"minLength": 1}},
    ("/-/what-if", "POST"): {"query": QUERY, "changes[]place": QUERY},
    ("/-/plans", "POST"): {
        "goal": {
            "minProperties": 1,
            "dependentRequired": {"times": ["place"]},
            "dependentSchemas": {
                "place": _where({"empty": False, "keep": False}),
                "empty": _where({"keep": False}),
            },
        },
        "goal.place": QUERY,
        "goal.empty": {
            "minProperties": 1,
            "dependentRequired": {"level": ["count"], "of": ["count"]},
            "dependentSchemas": {"trees": _where({"count": False})},
        },
    },
    ("/-/claims", "POST"): {
        "": {"dependentSchemas": {"hold_s": _where({"claims": _NEW})}},
        "claims[].query": QUERY,
        "claims[].queries": {"uniqueItems": True},
        "claims[].queries[]": QUERY,
        "groups{}": {
            "if": _AGGREGATE,
            "then": _where({"of": {}}, "of"),
            "dependentSchemas": {
                "of": _AGGREGATE,
                "at_most": _where({"rule": {"const": "apart"}}),
            },
        },
    },
    ("/-/claims/confirm", "POST"): {"consumers": {"uniqueItems": True}},
}
"""By the place in the body: ``[]`` is an element, ``{}`` what stands under any key."""


def limit_body(key: tuple[str, str], schema: Json) -> Json:
    """Return the schema of a body with all that it keeps to."""
    for place, limits in _BODIES.get(key, {}).items():
        schema = _limit(schema, re.findall(r"\w+|\[\]|{}", place), limits)
    return _forbid_nul_everywhere(schema)


def _limit(schema: Json, place: Sequence[str], limits: Json) -> Json:
    if "anyOf" in schema:
        return schema | {"anyOf": [_limit(each, place, limits) for each in schema["anyOf"]]}
    if not place:
        return schema | limits
    step, *rest = place
    if step == "[]":
        return schema | {"items": _limit(schema["items"], rest, limits)}
    # A member may be in one of several schemas.
    name = "patternProperties" if step == "{}" else "properties"
    limited = {
        key: _limit(value, rest, limits) if step in ("{}", key) else value
        for key, value in schema[name].items()
    }
    return schema | {name: limited}


def _forbid_nul(schema: Json) -> Json:
    """Return the schema of a text without NUL. Patterns, formats and lists of words allow none."""
    if "string" not in schema.get("type", ()) or schema.keys() & {"enum", "format", "pattern"}:
        return schema
    return {"pattern": _ANY if schema.get("minLength") else _ANY_OR_NONE} | schema


def _forbid_nul_everywhere(schema: Json) -> Json:
    free = dict(_forbid_nul(schema))
    for name in free.keys() & {"properties", "patternProperties"}:
        members = free[name].items()
        free[name] = {member: _forbid_nul_everywhere(each) for member, each in members}
    if "items" in free:
        free["items"] = _forbid_nul_everywhere(free["items"])
    if "anyOf" in free:
        free["anyOf"] = [_forbid_nul_everywhere(each) for each in free["anyOf"]]
    return free


def limit_keys(pattern: str) -> Json:
    """Return the schema of the keys of an object that has patterns for them."""
    if pattern == UUID_KEY:
        return _whole(_UUID)
    return {"pattern": pattern if pattern.startswith("^") else _ANY_OR_NONE}
