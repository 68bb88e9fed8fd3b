"""Query strings of ``/-/trees``, and their defaults."""

from placement.schemas import resource_provider
from placement.schemas.questions import extend_query
from placement.schemas.windows import Windows, allow_only
from placement.web.validation import Schema

DEFAULT_LIMIT = 100

_ALLOCATIONS = {"allocations": {"type": "string", "enum": ["true", "false"]}}
TREE = Schema(allow_only(_ALLOCATIONS))
_PAGES = {
    "limit": {"type": "string", "pattern": "^([1-9][0-9]{0,3}|10000)$"},
    "after": {"type": "string", "format": "uuid"},
}
TREES_OWN = _ALLOCATIONS | _PAGES
TREES = Windows(
    {
        minor: extend_query(filters, TREES_OWN)
        for minor, filters in resource_provider.GET_QUERY.items()
    }
)
