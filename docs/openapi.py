"""Write the OpenAPI document of the API at its newest microversion.

Paths, methods and policy rules come from the route table, request bodies and query strings from the
schemas that the handlers check with; only the answers are described here. Run it after a change of
either::

    python -m docs.openapi > docs/openapi.json

A test compares the file with what this prints.
"""

import re
from typing import Any

import orjson

from placement.schemas import (
    aggregate,
    allocation,
    allocation_candidate,
    inventory,
    reshaper,
    resource_class,
    resource_provider,
    trait,
    usage,
)
from placement.schemas.windows import Windows
from placement.version import VERSION
from placement.web.microversion import MAXIMUM
from placement.web.routes import ROUTES, Action
from placement.web.validation import Schema

NEWEST = MAXIMUM.minor

Json = dict[str, Any]

# -- what goes in ------------------------------------------------------------------------------

BODIES: dict[tuple[str, str], Schema | Windows[Schema]] = {
    ("/resource_classes", "POST"): resource_class.CUSTOM_CLASS,
    ("/resource_providers", "POST"): resource_provider.POST,
    ("/resource_providers/{uuid}", "PUT"): resource_provider.PUT,
    ("/resource_providers/{uuid}/inventories", "POST"): inventory.POST,
    ("/resource_providers/{uuid}/inventories", "PUT"): inventory.PUT_ALL,
    ("/resource_providers/{uuid}/inventories/{resource_class}", "PUT"): inventory.PUT,
    ("/resource_providers/{uuid}/aggregates", "PUT"): aggregate.PUT,
    ("/resource_providers/{uuid}/traits", "PUT"): trait.PUT_OF_PROVIDER,
    ("/allocations", "POST"): allocation.POST,
    ("/allocations/{consumer_uuid}", "PUT"): allocation.PUT,
    ("/reshaper", "POST"): reshaper.POST,
}

QUERIES: dict[tuple[str, str], Schema | Windows[Schema]] = {
    ("/resource_providers", "GET"): resource_provider.GET_QUERY,
    ("/allocation_candidates", "GET"): allocation_candidate.GET,
    ("/traits", "GET"): trait.GET_QUERY,
    ("/usages", "GET"): usage.GET_QUERY,
}

REPEATABLE = {"member_of", "required", "same_subtree"}
"""Parameters all of whose values count."""


def _document(schema: Schema | Windows[Schema]) -> Json:
    newest = schema.at(NEWEST) if isinstance(schema, Windows) else schema
    return dict(newest.document)


# -- what comes out ----------------------------------------------------------------------------


def _object(required: Json, **optional: Any) -> Json:
    return {
        "type": "object",
        "properties": required | optional,
        "required": list(required),
        "additionalProperties": False,
    }


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _map_of(value: Json, key: str = "^.+$") -> Json:
    return {"type": "object", "patternProperties": {key: value}, "additionalProperties": False}


def _list_of(value: Json) -> Json:
    return {"type": "array", "items": value}


STRING: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}
NULLABLE: Json = {"type": ["string", "null"]}
GENERATION: Json = {"resource_provider_generation": INTEGER}
LINKS = _list_of(_object({"rel": STRING, "href": STRING}))
AMOUNTS = _map_of({"type": "integer", "minimum": 0}, "^[A-Z0-9_]+$")
RECORD: Json = {
    "total": INTEGER,
    "reserved": INTEGER,
    "min_unit": INTEGER,
    "max_unit": INTEGER,
    "step_size": INTEGER,
    "allocation_ratio": {"type": "number"},
}

SCHEMAS: dict[str, Json] = {
    "Versions": _object(
        {
            "versions": _list_of(
                _object(
                    {
                        "id": STRING,
                        "min_version": STRING,
                        "max_version": STRING,
                        "status": STRING,
                        "links": LINKS,
                    }
                )
            )
        }
    ),
    "Errors": _object(
        {
            "errors": {
                "type": "array",
                "minItems": 1,
                "maxItems": 1,
                "items": _object(
                    {
                        "status": INTEGER,
                        "title": STRING,
                        "detail": STRING,
                        "request_id": STRING,
                    },
                    code=STRING,
                    min_version=STRING,
                    max_version=STRING,
                ),
            }
        }
    ),
    "ResourceClass": _object({"name": STRING, "links": LINKS}),
    "ResourceClasses": _object({"resource_classes": _list_of(_ref("ResourceClass"))}),
    "ResourceProvider": _object(
        {
            "uuid": STRING,
            "name": STRING,
            "generation": INTEGER,
            "parent_provider_uuid": NULLABLE,
            "root_provider_uuid": STRING,
            "links": LINKS,
        }
    ),
    "ResourceProviders": _object({"resource_providers": _list_of(_ref("ResourceProvider"))}),
    "Inventory": _object(RECORD | GENERATION),
    "Inventories": _object({"inventories": _map_of(_object(RECORD))} | GENERATION),
    "ProviderUsages": _object({"usages": AMOUNTS} | GENERATION),
    "Aggregates": _object({"aggregates": _list_of(STRING)} | GENERATION),
    "ProviderTraits": _object({"traits": _list_of(STRING)} | GENERATION),
    "Traits": _object({"traits": _list_of(STRING)}),
    "ProviderAllocations": _object(
        {
            "allocations": _map_of(
                _object({"resources": AMOUNTS, "consumer_generation": INTEGER})
            )
        }
        | GENERATION
    ),
    "ConsumerAllocations": _object(
        {"allocations": _map_of(_object({"generation": INTEGER, "resources": AMOUNTS}))},
        project_id=STRING,
        user_id=STRING,
        consumer_generation=INTEGER,
        consumer_type=STRING,
    ),
    "AllocationCandidates": _object(
        {
            "allocation_requests": _list_of(
                _object(
                    {
                        "allocations": _map_of(_object({"resources": AMOUNTS})),
                        "mappings": {
                            "type": "object",
                            "additionalProperties": _list_of(STRING),
                        },
                    }
                )
            ),
            "provider_summaries": _map_of(
                _object(
                    {
                        "resources": _map_of(_object({"capacity": INTEGER, "used": INTEGER})),
                        "traits": _list_of(STRING),
                        "parent_provider_uuid": NULLABLE,
                        "root_provider_uuid": STRING,
                    }
                )
            ),
        }
    ),
    "Usages": _object({"usages": _map_of(AMOUNTS | {"additionalProperties": INTEGER})}),
}

ANSWERS: dict[str, dict[int, str | None]] = {
    "get_versions": {200: "Versions"},
    "list_classes": {200: "ResourceClasses"},
    "create_class": {201: None},
    "show_class": {200: "ResourceClass"},
    "ensure_class": {201: None, 204: None},
    "delete_class": {204: None},
    "list_providers": {200: "ResourceProviders"},
    "create_provider": {200: "ResourceProvider"},
    "show_provider": {200: "ResourceProvider"},
    "update_provider": {200: "ResourceProvider"},
    "delete_provider": {204: None},
    "list_inventories": {200: "Inventories"},
    "create_inventory": {201: "Inventory"},
    "replace_inventories": {200: "Inventories"},
    "delete_inventories": {204: None},
    "show_inventory": {200: "Inventory"},
    "update_inventory": {200: "Inventory"},
    "delete_inventory": {204: None},
    "show_provider_usages": {200: "ProviderUsages"},
    "list_aggregates": {200: "Aggregates"},
    "replace_aggregates": {200: "Aggregates"},
    "show_provider_allocations": {200: "ProviderAllocations"},
    "list_provider_traits": {200: "ProviderTraits"},
    "replace_provider_traits": {200: "ProviderTraits"},
    "delete_provider_traits": {204: None},
    "replace_many_allocations": {204: None},
    "show_consumer_allocations": {200: "ConsumerAllocations"},
    "replace_consumer_allocations": {204: None},
    "delete_consumer_allocations": {204: None},
    "list_candidates": {200: "AllocationCandidates"},
    "list_traits": {200: "Traits"},
    "show_trait": {204: None},
    "ensure_trait": {201: None, 204: None},
    "delete_trait": {204: None},
    "show_usages": {200: "Usages"},
    "reshape": {204: None},
}
"""Success statuses and bodies by handler function."""

WRITES = {"POST", "PUT", "DELETE"}
"""What may keep losing against other writers until it is refused with 409."""


# -- the document ------------------------------------------------------------------------------


def document() -> Json:
    """Return the OpenAPI 3.1 document."""
    paths: dict[str, Json] = {}
    for path, methods in ROUTES.items():
        for method, actions in methods.items():
            current = [action for action in actions if action.serves(NEWEST)]
            if path and current:
                paths.setdefault(path, {})[method.lower()] = _operation(path, method, current[0])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Placement",
            "version": VERSION,
            "description": f"The API at microversion {MAXIMUM}. Send the header "
            "`OpenStack-API-Version: placement " + str(MAXIMUM) + "`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}
            },
        },
        "security": [{"token": []}],
    }


def _operation(path: str, method: str, action: Action) -> Json:
    key = (path, method)
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }
        for name in re.findall(r"{(\w+)}", path)
    ]
    if key in QUERIES:
        parameters += _query_parameters(_document(QUERIES[key]))
    operation: Json = {
        "operationId": action.handler.__name__,
        "summary": (action.handler.__doc__ or "").splitlines()[0],
        "parameters": parameters,
        "responses": _responses(method, action),
    }
    if action.rule is not None:
        operation["x-policy"] = f"placement:{action.rule}"
        operation["x-since-microversion"] = f"1.{min(_first_minor(path, method), NEWEST)}"
    else:
        operation["security"] = []
    if key in BODIES:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _document(BODIES[key])}},
        }
    return operation


def _first_minor(path: str, method: str) -> int:
    return min(action.since for action in ROUTES[path][method])


def _query_parameters(schema: Json) -> list[Json]:
    """Return the parameters of a query schema; a pattern of names stands for its plain form."""
    plain = {
        re.match(r"\^(\w+?)\(", pattern)[1]: value  # type: ignore[index]
        for pattern, value in schema.get("patternProperties", {}).items()
    }
    named = schema.get("properties", {}) | plain
    parameters = []
    for name, value in sorted(named.items()):
        parameter: Json = {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "schema": value,
        }
        if name in REPEATABLE:
            parameter["description"] = "May be repeated."
        if name in plain:
            parameter["description"] = (
                f"May be repeated with a suffix of `[a-zA-Z0-9_-]{{1,64}}`: `{name}_NET1`."
            )
        parameters.append(parameter)
    return parameters


def _responses(method: str, action: Action) -> Json:
    name = action.handler.__name__
    responses: Json = {
        str(status): _response("Success", body) for status, body in ANSWERS[name].items()
    }
    failures = {400: "Bad Request", 406: "Not Acceptable", 503: "Service Unavailable"}
    if action.rule is not None:
        failures |= {401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}
    if action.takes_json:
        failures |= {413: "Content Too Large", 415: "Unsupported Media Type"}
    if action.shows_json:
        failures[414] = "URI Too Long"
    if method in WRITES:
        failures[409] = "Conflict"
    for status, text in sorted(failures.items()):
        responses[str(status)] = _response(text, "Errors")
    return responses


def _response(text: str, body: str | None) -> Json:
    if body is None:
        return {"description": text}
    return {
        "description": text,
        "content": {"application/json": {"schema": _ref(body)}},
    }


def text() -> str:
    """Return the document as indented JSON."""
    return orjson.dumps(document(), option=orjson.OPT_INDENT_2).decode() + "\n"


if __name__ == "__main__":
    print(text(), end="")
