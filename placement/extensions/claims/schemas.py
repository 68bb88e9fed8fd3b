"""Bodies and query strings of claims with chosen places (specification 09)."""

from placement.schemas import allocation_candidate
from placement.schemas.allocation import OWNER_ID, TYPE
from placement.schemas.questions import AVOID, MOST_QUERIES, extend_query
from placement.schemas.windows import allow_keys, allow_only
from placement.web.microversion import MAXIMUM
from placement.web.validation import Schema

MOST_CLAIMS = 1000
MOST_GROUPS = 8
"""The largest number of groups of one consumer."""
MOST_DOMAINS = 1000
LONGEST_HOLD_S = 86_400
DEFAULT_LIMIT = 1000

_UUID = {"type": "string", "format": "uuid"}
# Clients and proxies remove path segments of dots, so such a group could never be read.
_NO_DOTS = r"^(?!(?:[\s\S]*/)?\.\.?(?:/|$))[^\u0000]{1,255}$"
_GROUP_NAME = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": _NO_DOTS}
_RULE = allow_only(
    {
        "rule": {"type": "string", "enum": ["apart", "together"]},
        "level": {"type": "string", "enum": ["tree", "aggregate"]},
        "at_most": {"type": "integer", "minimum": 1, "maximum": MOST_CLAIMS},
        "of": {
            "type": "array",
            "items": _UUID,
            "minItems": 1,
            "maxItems": MOST_DOMAINS,
            "uniqueItems": True,
        },
    },
    "rule",
)
_CLAIM = allow_only(
    {
        "consumer_uuid": _UUID,
        "consumer_generation": {"type": ["integer", "null"]},
        "project_id": OWNER_ID,
        "user_id": OWNER_ID,
        "consumer_type": TYPE,
        "query": {"type": "string"},
        "queries": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": MOST_QUERIES,
        },
        "groups": {
            "type": "array",
            "items": _GROUP_NAME,
            "maxItems": MOST_GROUPS,
            "uniqueItems": True,
        },
    },
    "consumer_uuid",
    "consumer_generation",
    "project_id",
    "user_id",
    "consumer_type",
) | {"oneOf": [{"required": ["query"]}, {"required": ["queries"]}]}
CLAIMS = Schema(
    allow_only(
        {
            "strategy": {"type": "string", "enum": ["any", "spread", "pack"]},
            "hold_s": {"type": "integer", "minimum": 1, "maximum": LONGEST_HOLD_S},
            "avoid": AVOID,
            "groups": allow_keys(_NO_DOTS, _RULE),
            "claims": {
                "type": "array",
                "items": _CLAIM,
                "minItems": 1,
                "maxItems": MOST_CLAIMS,
            },
        },
        "claims",
    )
)
"""``POST /-/claims``"""

CONFIRM = Schema(
    allow_only(
        {
            "consumers": {
                "type": "array",
                "items": allow_only(
                    {"consumer_uuid": _UUID, "consumer_generation": {"type": "integer"}},
                    "consumer_uuid",
                    "consumer_generation",
                ),
                "minItems": 1,
                "maxItems": MOST_CLAIMS,
            }
        },
        "consumers",
    )
)
"""``POST /-/claims/confirm``"""

CANDIDATES = extend_query(allocation_candidate.GET.at(MAXIMUM.minor), {}, ("limit",))
"""The query of one claim."""

HOLDS = Schema(
    allow_only(
        {
            "project_id": OWNER_ID,
            "group": _GROUP_NAME,
            "limit": {"type": "string", "pattern": "^([1-9][0-9]{0,3}|10000)$"},
            "marker": _UUID,
        }
    )
)
"""``GET /-/holds``"""
