"""Query strings of ``/-/changes``, and their defaults."""

from placement.schemas.windows import allow_only
from placement.web.validation import Schema

DEFAULT_CHANGED_TREES = 1000
CHANGES = Schema(
    allow_only(
        {
            "since": {"type": "string", "minLength": 1},
            "wait_s": {"type": "string", "pattern": "^([1-5]?[0-9]|60)$"},
            # The entries of one transaction are not divided, and name at most 90 providers.
            "limit": {"type": "string", "pattern": "^([1-9][0-9]{2,3}|10000)$"},
        }
    )
)
