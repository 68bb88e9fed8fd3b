"""Query strings of /-/trees (specification 07 section 5)."""

from placement.schemas import resource_provider
from placement.schemas.windows import Windows
from placement.web.validation import Schema

LARGEST_LIMIT = 10_000

_ALLOCATIONS = {"allocations": {"type": "string", "enum": ["true", "false"]}}
_PAGES = {
    "limit": {"type": "string", "pattern": "^([1-9][0-9]{0,3}|10000)$"},
    "after": {"type": "string", "format": "uuid"},
}

SHOW = Schema({"type": "object", "properties": _ALLOCATIONS, "additionalProperties": False})


def _with_pages(filters: Schema) -> Schema:
    document = dict(filters.document)
    document["properties"] = document["properties"] | _ALLOCATIONS | _PAGES
    return Schema(document, strict_uuid=True)


LIST = Windows(
    {minor: _with_pages(filters) for minor, filters in resource_provider.GET_QUERY.items()}
)
