"""The bodies, queries and answers of the operations, for the reference and the OpenAPI document.

Request bodies and query strings are the schemas that the handlers check with. Answers at the newest
microversion are described here; a test compares them with what the service answers.
"""

import re
from typing import Any

from docs._tools.url_page import CLAIMS, INSIGHT, ROUTES
from placement import deploy, errors
from placement.extensions.claims import schemas as claims
from placement.extensions.feed import schemas as feed
from placement.extensions.history import schemas as history
from placement.extensions.plans import schemas as plans
from placement.extensions.questions import schemas as questions
from placement.extensions.trees import schemas as trees
from placement.handlers.explanation import KEPT_OUT, OUT_OF_REACH
from placement.schemas import allocation, allocation_candidate, resource_provider
from placement.schemas.questions import NOTHING
from placement.schemas.windows import Windows
from placement.search.tally import Reason, Stop
from placement.web.microversion import MAXIMUM
from placement.web.validation import Schema

NEWEST = MAXIMUM.minor

ALL_ROUTES = {
    # Without the patterns of variables.
    re.sub(r":[^}]*}", "}", path): methods
    for path, methods in (ROUTES | INSIGHT | CLAIMS).items()
}

Json = dict[str, Any]

# -- what goes in ------------------------------------------------------------------------------

BODIES: dict[tuple[str, str], Schema | Windows[Schema]] = {
    ("/resource_classes", "POST"): resource_provider.CUSTOM_CLASS,
    ("/resource_providers", "POST"): resource_provider.POST,
    ("/resource_providers/{uuid}", "PUT"): resource_provider.PUT,
    ("/resource_providers/{uuid}/inventories", "POST"): resource_provider.POST_INVENTORY,
    ("/resource_providers/{uuid}/inventories", "PUT"): resource_provider.PUT_INVENTORIES,
    (
        "/resource_providers/{uuid}/inventories/{resource_class}",
        "PUT",
    ): resource_provider.PUT_INVENTORY,
    ("/resource_providers/{uuid}/aggregates", "PUT"): resource_provider.PUT_AGGREGATES,
    ("/resource_providers/{uuid}/traits", "PUT"): resource_provider.PUT_TRAITS,
    ("/allocations", "POST"): allocation.POST,
    ("/allocations/{consumer_uuid}", "PUT"): allocation.PUT,
    ("/reshaper", "POST"): allocation.RESHAPE,
    ("/-/plans", "POST"): plans.PLAN,
    ("/-/what-if", "POST"): questions.WHAT_IF,
    ("/-/claims", "POST"): claims.CLAIMS,
    ("/-/claims/confirm", "POST"): claims.CONFIRM,
}

QUERIES: dict[tuple[str, str], Schema | Windows[Schema]] = {
    ("/resource_providers", "GET"): resource_provider.GET_QUERY,
    ("/allocation_candidates", "GET"): allocation_candidate.GET,
    ("/traits", "GET"): resource_provider.GET_TRAITS,
    ("/usages", "GET"): allocation.USAGES_QUERY,
    ("/-/capacity", "GET"): questions.CAPACITY,
    ("/-/capacity/history", "GET"): questions.CAPACITY_HISTORY,
    ("/-/changes", "GET"): feed.CHANGES,
    ("/-/explain", "GET"): questions.EXPLAIN,
    ("/-/groups/{name}", "GET"): NOTHING,
    ("/-/history", "GET"): history.HISTORY,
    ("/-/holds", "GET"): claims.HOLDS,
    ("/-/metrics", "GET"): NOTHING,
    ("/-/survival", "GET"): questions.SURVIVAL,
    ("/-/trees", "GET"): trees.TREES,
    ("/-/trees/{uuid}", "GET"): trees.TREE,
}

REPEATABLE = {"member_of", "required", "same_subtree"}
REPEATABLE_HERE = {("/-/trees", "uuid"), ("/-/explain", "or"), ("/-/capacity", "or")}
"""Parameters of which every value counts."""

NOTES = {
    "member_of": "; may be repeated since 1.24; ``!`` since 1.32",
    "or": "; a further query string, percent-encoded, that will do if none before it can be granted; may be "
    "repeated 7 times",
    "required": "; ``!`` since 1.22; may be repeated, and ``in:``, since 1.39",
    "same_subtree": "; may be repeated",
}
"""What the values of parameters may be, and since when, beyond what the schemas say."""


# -- what comes out ----------------------------------------------------------------------------


def _object(required: Json, **optional: Any) -> Json:
    return {
        "type": "object",
        "properties": required | optional,
        "required": list(required),
        "additionalProperties": False,
    }


def reference_to(name: str) -> Json:
    """Return a reference to a schema of :data:`SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def _map_of(value: Json, key: str | None = None) -> Json:
    # Generators of clients support additionalProperties, and ignore patternProperties.
    named = {"propertyNames": {"pattern": key}} if key else {}
    return {"type": "object", "additionalProperties": value, **named}


def _list_of(value: Json) -> Json:
    return {"type": "array", "items": value}


STRING: Json = {"type": "string"}


def _reasons(kind: type[errors.PlacementError]) -> set[str]:
    below = kind.__subclasses__()
    own = set(kind.reasons.values()) if issubclass(kind, errors.Malformed) else set()
    return own | (set().union(*map(_reasons, below)) if below else {kind.reason})


# It imports every module that declares an error.
assert deploy.loadapp
REASONS = sorted(_reasons(errors.PlacementError))
"""Specification 01 section 9.6."""

MOMENT: Json = {"type": "string", "format": "date-time"}
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

BOOLEAN: Json = {"type": "boolean"}
AFFECTED: Json = {
    "uuid": NULLABLE,
    "type": NULLABLE,
    "project": NULLABLE,
    "user": NULLABLE,
    "allocations": _map_of(AMOUNTS),
}

REMEDIES: Json = {
    "relaxations": _list_of(reference_to("Relaxation")),
    "pairs_tried": BOOLEAN,
    "largest": _list_of(reference_to("LargestAmount")),
}


NUMBER: Json = {"type": "number"}
HELD = _map_of(_object({"resources": AMOUNTS}))
PLACE: Json = {
    "allocations": HELD,
    "mappings": {"type": "object", "additionalProperties": _list_of(STRING)},
    "root_provider_uuid": STRING,
}
STEP: Json = {
    "consumer_generation": INTEGER,
    "project_id": STRING,
    "user_id": STRING,
    "consumer_type": STRING,
    "from": HELD,
}
HOW_MANY: Json = {"count": INTEGER, "exact": BOOLEAN, "complete": BOOLEAN}
AVOIDED = _object({"trees": INTEGER, "count": INTEGER})
PLACES: Json = _list_of(_object({"uuid": STRING, "name": NULLABLE, "count": INTEGER}))


def _nullable(value: Json) -> Json:
    return {"anyOf": [value, {"type": "null"}]}


_SIDES = ("before", "after")
_WRITTEN: Json = {
    "anyOf": [
        _object(
            {
                "project_id": NULLABLE,
                "user_id": NULLABLE,
                "consumer_type": NULLABLE,
                "resources": AMOUNTS,
            }
        ),
        _object(
            {},
            name=STRING,
            parent_provider_uuid=NULLABLE,
            inventories=_map_of(_object(RECORD)),
            traits=_list_of(STRING),
            aggregates=_list_of(STRING),
        ),
    ]
}
"""What the history shows of a consumer, or of a provider."""


def _ended(*why: str) -> Json:
    """Return the members of what ended a search."""
    names = {"type": "string", "enum": [str(each) for each in why]}
    return {"why": names, "group": NULLABLE, "subject": NULLABLE, "meaning": STRING}


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
                    reason=STRING | {"enum": REASONS},
                    field=STRING,
                    rule=STRING,
                    near=_list_of(STRING),
                    retry=STRING | {"enum": [str(each) for each in errors.Retry]},
                    min_version=STRING,
                    max_version=STRING,
                    claim=_object({"number": INTEGER, "consumer_uuid": STRING}),
                    exact=BOOLEAN,
                    groups=_list_of(STRING),
                    avoided=INTEGER,
                    explanation=reference_to("Explanation"),
                    alternatives=_list_of(reference_to("Explanation")),
                    homeless=_list_of(_object(AFFECTED)),
                ),
            }
        }
    ),
    "ResourceClass": _object({"name": STRING, "links": LINKS}),
    "ResourceClasses": _object({"resource_classes": _list_of(reference_to("ResourceClass"))}),
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
    "ResourceProviders": _object(
        {"resource_providers": _list_of(reference_to("ResourceProvider"))}
    ),
    "Inventory": _object(RECORD | GENERATION),
    "Inventories": _object({"inventories": _map_of(_object(RECORD))} | GENERATION),
    "ProviderUsages": _object({"usages": AMOUNTS} | GENERATION),
    "Aggregates": _object({"aggregates": _list_of(STRING)} | GENERATION),
    "ProviderTraits": _object({"traits": _list_of(STRING)} | GENERATION),
    "Traits": _object({"traits": _list_of(STRING)}),
    "ProviderAllocations": _object(
        {"allocations": _map_of(_object({"resources": AMOUNTS, "consumer_generation": INTEGER}))}
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
    "Capacity": _object(
        {
            **HOW_MANY,
            "places": PLACES,
            "limits": _map_of(INTEGER),
            "stranded": AMOUNTS,
            "largest": AMOUNTS,
            "avoided": AVOIDED,
        }
    ),
    "CapacityOfShapes": _object({"shapes": _map_of(reference_to("Capacity")), "complete": BOOLEAN}),
    "CapacityOfAny": _object(
        {
            **HOW_MANY,
            "places": PLACES,
            "avoided": AVOIDED,
            "alternatives": _list_of(reference_to("Capacity")),
        }
    ),
    "Capacities": {
        "anyOf": [*map(reference_to, ("Capacity", "CapacityOfShapes", "CapacityOfAny"))]
    },
    "CapacityHistory": _object(
        {
            "shape": STRING,
            "records": _list_of(_object({"at": STRING, "count": INTEGER})),
            "forecast": _nullable(
                _object(
                    {"records": INTEGER, "per_day": {"type": "number"}, "runs_out_at": NULLABLE}
                )
            ),
        }
    ),
    "Outcome": _object(
        {
            "before": reference_to("State"),
            "after": reference_to("State"),
            "homeless": _list_of(_object(AFFECTED, groups=_list_of(STRING))),
            "placed": _list_of(_object({"asked": INTEGER, "placed": INTEGER})),
            "complete": BOOLEAN,
            "avoided": INTEGER,
        }
    ),
    "Survival": _object(
        {
            "level": {"type": "string", "enum": ["tree", "aggregate"]},
            "failures": INTEGER,
            "places": INTEGER,
            "tried": INTEGER,
            "survivable": INTEGER,
            "complete": BOOLEAN,
            "avoided": INTEGER,
            "lost": _list_of(
                _object(
                    {
                        "uuid": STRING,
                        "name": NULLABLE,
                        "consumers": INTEGER,
                        "homeless_count": INTEGER,
                        "homeless": _list_of(
                            _object(
                                AFFECTED | {"stopped": reference_to("KeptOut")},
                                groups=_list_of(STRING),
                            )
                        ),
                    }
                )
            ),
        }
    ),
    "State": _object(
        {"candidates": reference_to("Count"), "capacity": _object(HOW_MANY)},
        complete=BOOLEAN,
        **REMEDIES,
    ),
    "Explanation": _object(
        {
            "candidates": reference_to("Count"),
            "complete": BOOLEAN,
            "steps": _list_of(
                _object(
                    {
                        "group": NULLABLE,
                        "test": {"type": "string", "enum": [reason.value for reason in Reason]},
                        "subject": NULLABLE,
                        "unit": {"type": "string", "enum": ["providers", "trees"]},
                        "before": INTEGER,
                        "left": INTEGER,
                        "examples": _list_of(
                            # What is in the way follows, in members of its own.
                            _object({"uuid": STRING, "name": NULLABLE, "root": STRING})
                            | {"additionalProperties": True}
                        ),
                    }
                )
            ),
            "stopped": _nullable(reference_to("Stopped")),
            "combining": _nullable(reference_to("Stopped")),
        },
        **REMEDIES,
        # Of an explanation that a refusal has, the refusal says it.
        avoided=_object({"trees": INTEGER, "candidates": INTEGER}),
        about=_object(
            {"candidates": reference_to("Count"), "complete": BOOLEAN, "verdict": STRING},
            **REMEDIES,
        ),
    ),
    "Choice": _object(
        {
            "chosen": {"type": ["integer", "null"]},
            "exact": BOOLEAN,
            "complete": BOOLEAN,
            "alternatives": _list_of(reference_to("Explanation")),
        }
    ),
    "Explained": {"anyOf": [reference_to("Explanation"), reference_to("Choice")]},
    "Stopped": _object(_ended(*Stop)),
    "KeptOut": _object(_ended(*Stop, KEPT_OUT, OUT_OF_REACH)),
    "Count": _object({"count": INTEGER, "complete": BOOLEAN}),
    "Relaxation": _object(
        {
            "drop": {"anyOf": [reference_to("Demand"), _list_of(reference_to("Demand"))]},
            "candidates": reference_to("Count"),
        }
    ),
    "Demand": _object({"parameter": STRING, "value": STRING}),
    "LargestAmount": _object(
        {
            "group": STRING,
            "resource_class": STRING,
            "asked": INTEGER,
            "would_do": {"type": ["integer", "null"]},
        }
    ),
    "Trees": _object(
        {
            "trees": _list_of(
                _object(
                    {
                        "root": STRING,
                        "etag": STRING,
                        "providers": _list_of(reference_to("TreeProvider")),
                    }
                )
            ),
            "next": NULLABLE,
        }
    ),
    "TreeProvider": _object(
        {
            "uuid": STRING,
            "name": STRING,
            "parent": NULLABLE,
            "generation": INTEGER,
            "inventories": _map_of(_object(RECORD | {"used": INTEGER})),
            "traits": _list_of(STRING),
            "aggregates": _list_of(STRING),
        },
        allocations=_map_of(
            _object(
                {
                    "resources": AMOUNTS,
                    "project": NULLABLE,
                    "user": NULLABLE,
                    "type": STRING,
                    "generation": {"type": ["integer", "null"]},
                    "elsewhere": {"type": "boolean"},
                },
                groups=_list_of(STRING),
                held_until=MOMENT,
            )
        ),
    ),
    "Usages": _object({"usages": _map_of(_map_of(INTEGER))}),
    "Granted": _object(
        {
            "claims": _list_of(
                _object(
                    {
                        "consumer_uuid": STRING,
                        "consumer_generation": INTEGER,
                        "allocations": _map_of(_object({"resources": AMOUNTS})),
                        "mappings": _map_of(_list_of(STRING)),
                        "root_provider_uuid": STRING,
                    },
                    chosen=INTEGER,
                )
            )
        },
        exact=BOOLEAN,
        hold=_object({"expires_at": MOMENT}),
    ),
    "Confirmed": _object(
        {"consumers": _list_of(_object({"consumer_uuid": STRING, "consumer_generation": INTEGER}))}
    ),
    "ConsumerGroup": _object(
        {
            "name": STRING,
            "rule": STRING | {"enum": ["apart", "together"]},
            "level": STRING | {"enum": ["tree", "aggregate"]},
            "members": _list_of(
                _object(
                    {
                        "consumer_uuid": STRING,
                        "consumer_generation": INTEGER,
                        "domains": _list_of(STRING),
                    }
                )
            ),
            "kept": BOOLEAN,
        },
        at_most=INTEGER,
        of=_list_of(STRING),
    ),
    "Plan": _object(
        {
            "steps": _list_of({"anyOf": [reference_to("Move"), reference_to("Removal")]}),
            "cost": NUMBER,
            "lower_bound": NUMBER,
            "minimal": BOOLEAN,
            "complete": BOOLEAN,
            "avoided": INTEGER,
        },
        placed=_list_of(_object(PLACE)),
        emptied=_list_of(STRING),
        hold=_object({"expires_at": MOMENT}),
    ),
    "Move": _object(
        {"consumer_uuid": STRING, **STEP, **PLACE},
        held_by=_object({"consumer_uuid": STRING, "consumer_generation": INTEGER}),
    ),
    "Removal": _object({"remove": STRING, **STEP}),
    "Changes": _object(
        {
            "next": STRING,
            "trees": _list_of(
                _object(
                    {
                        "root": STRING,
                        "name": NULLABLE,
                        "changed": STRING | {"enum": ["usage", "stock"]},
                        "gone": BOOLEAN,
                    }
                )
            ),
            "complete": BOOLEAN,
        }
    ),
    "History": _object(
        {
            "writes": _list_of(
                _object(
                    {
                        "at": STRING,
                        "by": _object({"user_id": NULLABLE, "project_id": NULLABLE}),
                        "request_id": NULLABLE,
                        "global_request_id": NULLABLE,
                        "method": NULLABLE,
                        "route": NULLABLE,
                        "consumer_uuid": NULLABLE,
                        "provider_uuid": NULLABLE,
                        "name": NULLABLE,
                        "generation": _object(dict.fromkeys(_SIDES, _nullable(INTEGER))),
                        **dict.fromkeys(_SIDES, _nullable(_WRITTEN)),
                    }
                )
            ),
            "next": NULLABLE,
        }
    ),
    "Holds": _object(
        {
            "holds": _list_of(
                _object(
                    {
                        "consumer_uuid": STRING,
                        "consumer_generation": INTEGER,
                        "consumer_type": NULLABLE,
                        "project_id": STRING,
                        "user_id": STRING,
                        "expires_at": MOMENT,
                        "expired": BOOLEAN,
                    }
                )
            ),
            "next": NULLABLE,
        }
    ),
}

PLAIN_TEXT = "text/plain"
"""An answer that is not JSON."""

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
    "reshape_trees": {204: None},
    "show_capacity": {200: "Capacities"},
    "show_capacity_history": {200: "CapacityHistory"},
    "explain_candidates": {200: "Explained"},
    "list_changes": {200: "Changes"},
    "list_history": {200: "History"},
    "ask_what_if": {200: "Outcome"},
    "show_survival": {200: "Survival"},
    "make_plan": {200: "Plan"},
    "show_metrics": {200: PLAIN_TEXT},
    "list_trees": {200: "Trees", 304: None},
    "show_tree": {200: "Trees", 304: None},
    "create_claims": {200: "Granted"},
    "confirm_claims": {200: "Confirmed"},
    "confirm_claim": {200: "Confirmed"},
    "show_group": {200: "ConsumerGroup"},
    "list_holds": {200: "Holds"},
}
"""Statuses of success, 304 included, and bodies by handler function."""
