"""Every request under ``/-/``, by the URL page and the OpenAPI document: what fits its schemas, and what not.

Nothing is listed here: a new route is tried as soon as it stands on the page, and one that takes a body and
is not described fails.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docs._tools.url_page import CLAIMS, EXPLORER, INSIGHT, ROUTES
from placement.web.dispatch import Actions

_DOCUMENT = json.loads((Path(__file__).parents[2] / "docs/openapi.json").read_text())["paths"]
Json = Mapping[str, Any]
Place = tuple[str | int, ...]
"""Names and numbers that lead to a value in a body."""

SOMEBODY = "2fa85f64-5717-4562-b3fc-2c963f66afa6"
QUERY = "resources=VCPU:1"
TEXTS = ("a", "VCPU", SOMEBODY)
"""What stands for a text, and for the name of a member: the first that its pattern takes."""


@dataclass(frozen=True)
class Described:
    """A request. ``template``: with variables in braces; ``body``: its schema; ``parameters``: of its query.

    ``is_open``: no policy rule is asked.
    """

    method: str
    template: str
    body: Json | None
    parameters: Sequence[str]
    is_open: bool

    @property
    def variables(self) -> list[str]:
        """The variables of the path, as they stand there."""
        return re.findall(r"{[^}]*}", self.template)

    def __str__(self) -> str:
        return f"{self.method} {self.template}"


def _pages() -> Iterator[tuple[str, str, Actions]]:
    for page in (ROUTES, INSIGHT, CLAIMS, EXPLORER):
        for template, methods in page.items():
            for method, actions in methods.items():
                yield template, method, actions


def _described(template: str, method: str, actions: Actions) -> Described:
    action = actions[-1]
    told = _DOCUMENT.get(re.sub(r":[^}]*}", "}", template), {}).get(method.lower(), {})
    body = None
    if action.takes_json:
        body = told["requestBody"]["content"]["application/json"]["schema"]
    parameters = [each["name"] for each in told.get("parameters", ()) if each.get("in") == "query"]
    return Described(method, template, body, parameters, action.rule is None)


REQUESTS = [
    _described(template, method, actions)
    for template, method, actions in _pages()
    if template.startswith("/-/")
]


def fitting(schema: Json, *, whole: bool = True, choice: int = 0) -> Any:
    """Return a value that fits a schema.

    :param whole: with the members that may be left out.
    :param choice: which it is of several schemas.
    """
    if "anyOf" in schema:
        schema = schema["anyOf"][choice % len(schema["anyOf"])]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][-1]
    if kind == "object":
        return _fitting_object(schema, whole, choice)
    if kind == "array":
        return [fitting(schema["items"], whole=whole, choice=choice)]
    if kind == "string":
        return _fitting_text(schema)
    numbers = {"integer": max(1, schema.get("minimum", 1)), "number": 1.0}
    return numbers.get(kind)


def _fitting_object(schema: Json, whole: bool, choice: int) -> Any:
    wanted = schema.get("properties", {})
    if not whole:
        wanted = {name: wanted[name] for name in schema.get("required", ())}
    value = {name: fitting(each, whole=whole, choice=choice) for name, each in wanted.items()}
    if isinstance(of_any := schema.get("additionalProperties"), dict):
        pattern = schema.get("propertyNames", {}).get("pattern", "")
        name = next(text for text in TEXTS if re.search(pattern, text))
        value[name] = fitting(of_any, whole=whole, choice=choice)
    return value


def _fitting_text(schema: Json) -> str:
    if schema.get("format") == "uuid":
        return SOMEBODY
    if schema.get("format") == "placement-query":
        return QUERY
    return next(text for text in TEXTS if re.search(schema.get("pattern", ""), text))


def variants(schema: Json) -> list[Any]:
    """Return bodies that fit a schema: of each kind, with all that may be there, and with what must."""
    return [
        fitting(schema, whole=whole, choice=choice)
        for choice in range(max([1, *map(len, _choices(schema))]))
        for whole in (True, False)
    ]


def _choices(schema: Any) -> Iterator[Sequence[Any]]:
    if isinstance(schema, dict):
        yield schema.get("anyOf", ())
    if isinstance(schema, dict | list):
        for each in schema.values() if isinstance(schema, dict) else schema:
            yield from _choices(each)


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Yield every place of a body, its own first."""
    yield here
    if isinstance(value, dict | list):
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for key, member in members:
            yield from places(member, (*here, key))


def replaced(value: Any, place: Place, odd: Any) -> Any:
    """Return a copy of a body with another value in one place."""
    if not place:
        return odd
    first, *rest = place
    copied = value.copy()
    copied[first] = replaced(value[first], tuple(rest), odd)
    return copied


def without(value: Any, place: Place) -> Any:
    """Return a copy of a body that lacks what is at a place."""
    *before, last = place
    around = value
    for step in before:
        around = around[step]
    left = around.copy()
    del left[last]
    return replaced(value, tuple(before), left)


def renamed(value: Any, place: Place, odd: str) -> Any:
    """Return a copy of a body in which the member at a place, which is not a list's, has another name."""
    *before, name = place
    around = value
    for step in before:
        around = around[step]
    other = {odd if key == name else key: member for key, member in around.items()}
    return replaced(value, tuple(before), other)
