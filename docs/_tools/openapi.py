"""Write the OpenAPI document of the API at its newest microversion.

Paths, methods and policy rules come from the route table, request bodies and query strings from the
schemas that the handlers check with, words and examples from the story of the API reference; the answers
are described in :mod:`docs._tools.api_schemas`. Run it after a change of any of these::

    python -m docs._tools.openapi > docs/openapi.json

A test compares the file with the output of this module.
"""

import re
from collections.abc import Iterator
from typing import Any

import orjson

from docs._tools import api_examples, api_fields, api_limits
from docs._tools.api_calls import Call, Operation, Page
from docs._tools.api_examples import Exchange, Told
from docs._tools.api_fields import Field, Window
from docs._tools.api_schemas import (
    ALL_ROUTES,
    ANSWERS,
    BODIES,
    NEWEST,
    NOTES,
    PLAIN_TEXT,
    QUERIES,
    REPEATABLE,
    REPEATABLE_HERE,
    SCHEMAS,
    Json,
    reference_to,
)
from docs._tools.api_story import PAGES
from docs._tools.url_page import INSIGHT
from placement.handlers.allocation_candidate import CUT_HEADER
from placement.schemas.questions import MOST_QUERIES
from placement.schemas.windows import Windows
from placement.search.filters import GROUP_PARAMETERS
from placement.version import VERSION
from placement.web.dispatch import Action
from placement.web.microversion import MAXIMUM
from placement.web.validation import Schema

WRITES = {"POST", "PUT", "DELETE"}
"""Methods whose requests may lose against other writers until they are refused with 409."""


VERSION_HEADER: Json = {
    "name": "OpenStack-API-Version",
    "in": "header",
    "required": True,
    "description": f"The microversion. This is the document of {MAXIMUM}: without the header the service "
    "answers as at 1.0, in other shapes.",
    "schema": {"type": "string", "default": f"placement {MAXIMUM}"},
}
SERVER: Json = {
    "url": "http://127.0.0.1:8778",
    "description": "A trial on this machine. In a cloud the address is the endpoint of the type "
    "`placement` in the catalogue of Keystone.",
}
CUT: Json = {
    "description": "Only where the answer may lack candidates: `cut; by=BOUND`, where BOUND is `deadline`, "
    "`work`, `candidates` or `bytes`.",
    "schema": {"type": "string"},
}
*_FIRST, _LAST = (f"`{name}`" for name in GROUP_PARAMETERS)
_LISTED = f"{', '.join(_FIRST)} and {_LAST}"
GROUPS: Json = {
    "name": "groups",
    "in": "query",
    "required": False,
    "style": "form",
    "explode": True,
    "description": f"Granular groups: {_LISTED} with a suffix "
    "of `[a-zA-Z0-9_-]{1,64}`, as in `resources_NET1=SRIOV_NET_VF:1`. One provider serves the whole "
    "group. Since 1.33; since 1.25 with numbers as suffixes.",
    "schema": {
        "type": "object",
        "propertyNames": {"pattern": f"^({'|'.join(GROUP_PARAMETERS)})[a-zA-Z0-9_-]{{1,64}}$"},
        "patternProperties": api_limits.SUFFIXED,
        "additionalProperties": {"type": "string"},
    },
}


INSIGHT_TEXTS = {
    "/-/changes": "List the trees that have changed since a token, and wait for a change if asked to.",
    "/-/history": "List who wrote what, newest first, with what was there before and after.",
    "/-/trees": "List whole trees: every tree that has a provider which the filters find.",
    "/-/trees/{uuid}": "Show the whole tree of a provider.",
}
"""Used if the docstring of the handler only names the path."""

INSIGHT_PAGE = Page(
    "insight",
    "Insight",
    "Requests for operators, beside the compatible API. The service answers them if "
    "``[insight]/enabled`` is set.",
    tuple(
        Operation(
            method,
            path,
            INSIGHT_TEXTS.get(path) or str(actions[-1].handler.__doc__).splitlines()[0],
        )
        for path, methods in INSIGHT.items()
        for method, actions in methods.items()
    ),
)


# -- the document ------------------------------------------------------------------------------


def document() -> Json:
    """Return the OpenAPI 3.1 document."""
    told = api_examples.tell()
    paths: dict[str, Json] = {}
    for page in (*PAGES, INSIGHT_PAGE):
        for operation in page.operations:
            path, method = operation.path, operation.method
            current = [each for each in ALL_ROUTES[path][method] if each.serves(NEWEST)]
            if path and current:
                described = _operation(page, operation, current[0], told)
                paths.setdefault(path, {})[method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Placement",
            "version": VERSION,
            "description": f"The API at microversion {MAXIMUM}, which requests have to name in the header "
            "OpenStack-API-Version: without it they are answered as at 1.0. Parameters and fields that are "
            "younger than their operation say since which version they exist.",
            "contact": {"name": "The operators of the service"},
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [SERVER],
        "tags": [
            {"name": page.title, "description": plain(page.text)} for page in (*PAGES, INSIGHT_PAGE)
        ],
        "paths": {path: paths[path] for path in ALL_ROUTES if path in paths},
        "components": {
            "schemas": {name: _dated(name, schema, told) for name, schema in SCHEMAS.items()},
            "parameters": {"Microversion": VERSION_HEADER},
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}
            },
        },
        "security": [{"token": []}],
    }


def _operation(page: Page, operation: Operation, action: Action, told: Told) -> Json:
    path, method = key = operation.path, operation.method
    text = plain(operation.text)
    exchanges = [each for each in told.exchanges.get(key, []) if _is_example(each.call, operation)]
    described: Json = {
        "operationId": action.handler.__name__,
        "tags": [page.title],
        "summary": re.split(r"(?<=[.:]) ", text)[0].rstrip(".:"),
        "description": text,
        "parameters": [
            {"$ref": "#/components/parameters/Microversion"},
            *_path_parameters(path, method),
            *_query_parameters(key),
        ],
        "responses": _responses(method, action, exchanges),
    }
    if action.rule is not None:
        described["x-policy"] = f"placement:{action.rule}"
        described["x-since-microversion"] = f"1.{api_fields.first_minor(path, method)}"
    else:
        described["security"] = []
    if key in BODIES:
        body = api_limits.limit_body(key, _newest(BODIES[key]))
        examples = [each.call.body for each in exchanges if each.call.body and each.succeeded]
        described["requestBody"] = {
            "required": True,
            "content": {
                "application/json": {
                    "schema": for_clients(_with_dates(body, api_fields.body_fields(*key), key)),
                    **_examples(examples),
                }
            },
        }
    return described


def _is_example(call: Call, operation: Operation) -> bool:
    """Tell whether a call is one of the operation, not a preparation, at the newest version."""
    template = re.sub(r"{\w+}", "[^/]+", operation.path)
    path = call.path.partition("?")[0]
    is_of_it = call.method == operation.method and re.fullmatch(template, path) is not None
    return is_of_it and call.version == str(MAXIMUM)


def plain(text: str) -> str:
    """Return a text of the story in Markdown, without the marks of reStructuredText."""
    text = re.sub(r":doc:`/?([^`]*)`", r"\1", text)
    return text.replace("``", "`")


def _newest(schema: Schema | Windows[Schema]) -> Json:
    newest = schema.at(NEWEST) if isinstance(schema, Windows) else schema
    return dict(newest.document)


# -- parameters --------------------------------------------------------------------------------


def _path_parameters(path: str, method: str) -> Iterator[Json]:
    for name in re.findall(r"{(\w+)}", path):
        schema = api_limits.limit_variable(path, method, name)
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(key: tuple[str, str]) -> Iterator[Json]:
    """Yield the parameters of the newest version; a pattern of names stands for its plain form."""
    if key not in QUERIES:
        return
    schema, dated = _newest(QUERIES[key]), api_fields.parameters(*key)
    first = api_fields.first_minor(*key)
    values = schema.get("properties", {}) | {
        api_fields.PLAIN_NAME.match(pattern)[1]: value  # type: ignore[index]
        for pattern, value in schema.get("patternProperties", {}).items()
    }
    for name, value in sorted(values.items()):
        required = name in schema.get("required", ())
        since = min(
            window[0]
            for field, all_of_it in dated.items()
            for window in all_of_it
            if field.path == name
        )
        yield {
            "name": name,
            "in": "query",
            "required": required,
            "schema": _parameter_schema(key[0], name, value),
            **_told(since, first, NOTES.get(name, "").replace("``", "`").lstrip("; ")),
        }
    if "patternProperties" in schema:
        yield GROUPS


def _parameter_schema(path: str, name: str, schema: Json) -> Json:
    limited = api_limits.limit_parameter(path, name, schema)
    if name == "or":
        return {"type": "array", "items": limited, "maxItems": MOST_QUERIES - 1}
    if name in REPEATABLE or (path, name) in REPEATABLE_HERE:
        return {"type": "array", "items": limited}
    return limited


def _told(since: int, first: int, note: str = "") -> Json:
    """Return a description with the version and the note; empty if there is neither."""
    words = [
        f"Since 1.{since}." if since > first else "",
        f"{note[:1].upper()}{note[1:]}." if note else "",
    ]
    text = " ".join(word for word in words if word)
    return {"description": text} if text else {}


# -- bodies ------------------------------------------------------------------------------------


def _dated(name: str, schema: Json, told: Told) -> Json:
    """Return the schema of an answer with the versions of its fields."""
    firsts = [
        api_fields.first_minor(path, method)
        for path, methods in ALL_ROUTES.items()
        for method, actions in methods.items()
        if name in ANSWERS[actions[-1].handler.__name__].values()
    ]
    return _marked(schema, _since(told.answers.get(name, {})), "", min(firsts, default=0))


def _with_dates(schema: Json, found: dict[Field, list[Window]], key: tuple[str, str]) -> Json:
    return _marked(schema, _since(found), "", api_fields.first_minor(*key))


def _since(found: dict[Field, list[Window]]) -> dict[str, int]:
    """Return the minor version since which each field exists, whatever its type."""
    result: dict[str, int] = {}
    for field, all_of_it in found.items():
        result[field.path] = min(result.get(field.path, NEWEST), all_of_it[0][0])
    return result


def _marked(schema: Json, since: dict[str, int], path: str, first: int) -> Json:
    """Return a copy of a schema in which properties that came later say so."""
    marked = dict(schema)
    if "properties" in schema:
        marked["properties"] = {}
        for name, value in schema["properties"].items():
            place = f"{path}.{name}".lstrip(".")
            part = _marked(value, since, place, first)
            if "$ref" not in part:
                part |= _told(since.get(place, 0), first)
            marked["properties"][name] = part
    if "patternProperties" in schema:
        marked["patternProperties"] = {
            pattern: _marked(
                value, since, f"{path}.{api_fields.KEYS.get(pattern, '')}".lstrip("."), first
            )
            for pattern, value in schema["patternProperties"].items()
        }
    if "items" in schema:
        marked["items"] = _marked(schema["items"], since, f"{path}[]", first)
    if isinstance(schema.get("additionalProperties"), dict):
        keys = [known for known in since if known.startswith(f"{path}.{{")]
        place = min(keys, key=len) if keys else f"{path}.{{}}"
        marked["additionalProperties"] = _marked(
            schema["additionalProperties"], since, place, first
        )
    return marked


def for_clients(schema: Json) -> Json:
    """Return a schema with its maps in the form that generators of clients understand."""
    result: Json = {
        name: [for_clients(each) if isinstance(each, dict) else each for each in value]
        if isinstance(value, list)
        else value
        for name, value in schema.items()
    }
    for name in ("properties",):
        if name in result:
            result[name] = {key: for_clients(value) for key, value in result[name].items()}
    if "items" in result:
        result["items"] = for_clients(result["items"])
    if "patternProperties" in result:
        ((pattern, value),) = result.pop("patternProperties").items()
        result["additionalProperties"] = for_clients(value)
        result["propertyNames"] = api_limits.limit_keys(pattern)
    return result


def _examples(found: list[Any]) -> Json:
    return {"example": found[0]} if found else {}


def _responses(method: str, action: Action, exchanges: list[Exchange]) -> Json:
    name = action.handler.__name__
    shown = {each.answer.status_code: each.shown() for each in reversed(exchanges)}
    responses: Json = {
        str(status): _response(
            "Not Modified" if status == 304 else "Success", body, shown.get(status)
        )
        for status, body in ANSWERS[name].items()
    }
    if name == "list_candidates":
        responses["200"]["headers"] = {CUT_HEADER: CUT}
    failures = {400: "Bad Request", 406: "Not Acceptable", 503: "Service Unavailable"}
    if action.rule is not None:
        failures |= {401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}
    if action.takes_json:
        failures |= {413: "Content Too Large", 415: "Unsupported Media Type"}
    if action.shows_json:
        failures[414] = "URI Too Long"
    if method in WRITES:
        failures[409] = "Conflict"
    if name == "list_changes":
        failures[410] = "Gone"
    for status, text in sorted(failures.items()):
        responses[str(status)] = _response(text, "Errors", shown.get(status))
    return responses


def _response(text: str, body: str | None, example: Any) -> Json:
    if body is None:
        return {"description": text}
    if body == PLAIN_TEXT:
        return {"description": text, "content": {PLAIN_TEXT: {"schema": {"type": "string"}}}}
    content = {"schema": reference_to(body), **_examples([example] if example else [])}
    return {"description": text, "content": {"application/json": content}}


def text() -> str:
    """Return the document as indented JSON."""
    return orjson.dumps(document(), option=orjson.OPT_INDENT_2).decode() + "\n"


if __name__ == "__main__":
    print(text(), end="")
