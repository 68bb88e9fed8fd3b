"""The microversions from which, and to which, each field and each parameter exists.

Those of requests come from the windows of the schemas that the handlers check with. Those of answers are
measured: the same request is sent at every microversion, and the answers are compared.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from docs._tools.api_schemas import ALL_ROUTES, BODIES, NEWEST, QUERIES, Json
from placement.schemas.windows import Windows
from placement.web.validation import Schema

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
UPPER = re.compile(r"[A-Z][A-Z0-9_]*")
PLAIN_NAME = re.compile(r"\^(\w+?)\(")
KEYS = {
    "^[0-9a-fA-F-]{36}$": "{uuid}",
    "^[A-Z0-9_]+$": "{CLASS}",
    "[a-zA-Z0-9_-]{1,64}": "{suffix}",
}
KINDS = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}

Window = tuple[int, int]
"""First and last minor version."""


@dataclass(frozen=True, order=True)
class Field:
    """A field of a body or a parameter of a query, with its place in it."""

    path: str
    kind: str
    required: bool = True


def since_until(window: Window, first: int = 0) -> tuple[str, str]:
    """Return the two ends as versions; empty if an end is that of the operation.

    :param first: the minor version since which the operation exists.
    """
    since, until = window
    return (
        f"1.{since}" if since > first else "",
        f"1.{until}" if until < NEWEST else "",
    )


def first_minor(path: str, method: str) -> int:
    """Return the minor version since which an operation exists."""
    return min(action.since for action in ALL_ROUTES[path][method])


# -- what is sent ------------------------------------------------------------------------------


def windows(schema: Schema | Windows[Schema], first: int) -> Iterator[tuple[int, int, Json]]:
    """Yield first and last minor version of each window with the schema in it."""
    if isinstance(schema, Schema):
        yield first, NEWEST, dict(schema.document)
        return
    found = list(schema.items())
    ends = [since - 1 for since, _schema in found[1:]] + [NEWEST]
    for (since, each), until in zip(found, ends, strict=True):
        yield max(since, first), until, dict(each.document)


def body_fields(path: str, method: str) -> dict[Field, list[Window]]:
    """Return the fields of a request body with their windows, in the order of the schema."""
    key = (path, method)
    if key not in BODIES:
        return {}
    last = max(action.until or NEWEST for action in ALL_ROUTES[path][method] if action.takes_json)
    return joined(
        (field, (since, min(until, last)))
        for since, until, schema in windows(BODIES[key], first_minor(path, method))
        for field in fields_of(schema)
    )


def parameters(path: str, method: str) -> dict[Field, list[Window]]:
    """Return the parameters of a query string with their windows."""
    key = (path, method)
    if key not in QUERIES:
        return {}
    return joined(
        (field, (since, until))
        for since, until, schema in windows(QUERIES[key], first_minor(path, method))
        for field in parameters_of(schema)
    )


def parameters_of(schema: Json) -> Iterator[Field]:
    """Yield the parameters of a query schema; a pattern of names stands for its plain form too."""
    required = schema.get("required", ())
    for name, value in schema.get("properties", {}).items():
        yield Field(name, kind_of(value), name in required)
    for pattern, value in schema.get("patternProperties", {}).items():
        found = PLAIN_NAME.match(pattern)
        assert found is not None
        suffix = "{N}" if "[1-9]" in pattern else "{suffix}"
        yield Field(found[1], kind_of(value), False)
        yield Field(found[1] + suffix, kind_of(value), False)


def fields_of(schema: Json, path: str = "") -> Iterator[Field]:
    """Yield every field of a schema below a path."""
    required = schema.get("required", ())
    for name, value in schema.get("properties", {}).items():
        yield from below(value, f"{path}.{name}".lstrip("."), name in required)
    for pattern, value in schema.get("patternProperties", {}).items():
        yield from below(value, f"{path}.{KEYS.get(pattern, '{name}')}".lstrip("."), False)
    if "items" in schema:
        yield from below(schema["items"], f"{path}[]", True)


def below(schema: Json, path: str, required: bool) -> Iterator[Field]:
    """Yield a field and those in it."""
    yield Field(path, kind_of(schema), required)
    yield from fields_of(schema, path)


def kind_of(schema: Json) -> str:
    """Return the type of a field with its bounds, in words."""
    kind = schema.get("type", "")
    words = [" or ".join(kind) if isinstance(kind, list) else kind]
    if schema.get("format") == "uuid":
        words.append("uuid")
    if "enum" in schema:
        words.append(" or ".join(f"``{each}``" for each in schema["enum"]))
    for name, text in BOUNDS:
        if name in schema:
            words.append(text.format(shown(schema[name])))
    return ", ".join(words)


BOUNDS = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("minLength", "not empty"),
    ("maxLength", "at most {} characters"),
    ("minItems", "not empty"),
    ("minProperties", "not empty"),
    ("pattern", "``{}``"),
)


def shown(value: Any) -> str:
    """Return a bound as it is printed."""
    return f"{value:g}" if isinstance(value, float) else str(value)


# -- what is answered --------------------------------------------------------------------------


def shape_of(value: Any, path: str = "") -> Iterator[Field]:
    """Yield the fields of an answer; a key that is data stands for all keys of its kind."""
    if isinstance(value, dict):
        for name, part in value.items():
            place = f"{path}.{key_of(name, path)}".lstrip(".")
            yield Field(place, KINDS.get(type(part), "null"))
            yield from shape_of(part, place)
    elif isinstance(value, list):
        for part in value:
            if isinstance(part, dict) and "rel" in part:
                yield Field(f"{path}[rel={part['rel']}]", "link")
            else:
                yield Field(f"{path}[]", KINDS.get(type(part), "null"))
                yield from shape_of(part, f"{path}[]")


def key_of(name: str, path: str) -> str:
    """Return the name of a member, or the word for its kind if the name is data."""
    if path.endswith("mappings"):
        return "{suffix}"
    if UUID.fullmatch(name):
        return "{uuid}"
    if UPPER.fullmatch(name):
        return "{TYPE}" if path == "usages" and name == "INSTANCE" else "{CLASS}"
    return name


def measured(answers: dict[int, Any]) -> dict[Field, list[Window]]:
    """Return the fields of an answer with their windows, given the answer at each minor version."""
    found = [
        (field, (minor, minor))
        for minor, answer in sorted(answers.items(), reverse=True)
        for field in dict.fromkeys(shape_of(answer))
    ]
    empty = {field.path for field, _window in found if field.kind == "null"}
    return joined(
        (Field(field.path, f"{field.kind} or null" if field.path in empty else field.kind), window)
        for field, window in found
        if field.kind != "null"
    )


def shapes(answers: dict[int, Any]) -> list[tuple[Window, Any]]:
    """Return the windows in which an answer has one shape, newest first, with an answer of each."""
    found: list[tuple[Window, Any, frozenset[Field]]] = []
    for minor, answer in sorted(answers.items(), reverse=True):
        # Answers that differ only in their links, or in a null, have the same shape.
        shape = frozenset(
            Field(field.path, "" if field.kind == "null" else field.kind)
            for field in shape_of(answer)
            if field.kind != "link"
        )
        if found and found[-1][2] == shape:
            found[-1] = ((minor, found[-1][0][1]), answer, shape)
        else:
            found.append(((minor, minor), answer, shape))
    return [(window, answer) for window, answer, _shape in found]


def joined(found: Iterable[tuple[Field, Window]]) -> dict[Field, list[Window]]:
    """Return every field once, with its windows; windows that touch are one."""
    result: dict[Field, list[Window]] = {}
    for field, window in found:
        known = result.setdefault(field, [])
        known.append(window)
        known.sort()
        for left, right in pairwise(known):
            if right[0] <= left[1] + 1:
                known[known.index(left)] = (left[0], max(left[1], right[1]))
                known.remove(right)
                break
    return result


def sorted_fields(found: dict[Field, list[Window]]) -> list[tuple[Field, Window]]:
    """Return the fields, outer ones first, in the order of the newest version, with one row per window.

    Objects in lists and maps are left out: their fields describe them.
    """
    order: dict[str, int] = {}
    for field in found:
        order.setdefault(field.path, len(order))
    rows = [
        (field, window)
        for field, all_of_it in found.items()
        for window in all_of_it
        if not (field.path.endswith(("]", "}")) and field.kind.startswith("object"))
    ]
    return sorted(rows, key=lambda row: (parents(row[0].path, order), -row[1][1]))


def parents(path: str, order: dict[str, int]) -> list[int]:
    """Return the places of a field and of the fields around it."""
    ends = [found.start() for found in re.finditer(r"[.\[]", path)] + [len(path)]
    return [order.get(path[:end], 0) for end in ends if path[:end] in order]
