"""The schemas of extensions' queries, with further parameters than a search has (07, 09)."""

from typing import Any

from placement.schemas import allocation_candidate
from placement.schemas.windows import Windows, allow_only
from placement.web.validation import Schema

DEFAULT_EXAMPLES = 3

MOST_QUERIES = 8
"""The largest number of queries, in order of preference; one of them is granted."""

MOST_AVOIDED = 100
_TRAIT = {"type": "string", "minLength": 1, "maxLength": 255}
AVOID = {"type": "array", "items": _TRAIT, "maxItems": MOST_AVOIDED}
"""The traits by which trees are avoided, in a body. None avoids nothing."""
AVOID_IN_QUERY = {
    "type": "string",
    "pattern": rf"^([^,\u0000]{{1,255}}(,[^,\u0000]{{1,255}}){{0,{MOST_AVOIDED - 1}}})?$",
}
"""The traits by which trees are avoided, in a query, separated by commas."""

NOTHING = Schema(allow_only({}))


def extend_search(more: dict[str, Any], without: tuple[str, ...] = ()) -> Windows[Schema]:
    """Return the queries of a search with more parameters, and without some."""
    return Windows(
        {
            minor: extend_query(each, more, without)
            for minor, each in allocation_candidate.GET.items()
        }
    )


def extend_query(filters: Schema, more: dict[str, Any], without: tuple[str, ...] = ()) -> Schema:
    """Return the query of a search with more parameters, and without some."""
    document = dict(filters.document)
    properties = {k: v for k, v in document["properties"].items() if k not in without}
    document["properties"] = properties | more
    return Schema(document, strict_uuid=True)
