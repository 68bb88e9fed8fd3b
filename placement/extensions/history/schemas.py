"""Query strings of ``/-/history``, and their defaults."""

from placement.printable import TIME_EXAMPLE
from placement.schemas.windows import allow_only
from placement.web.validation import Schema

DEFAULT_WRITES = 100
_MOMENT = {
    "type": "string",
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$",
    "examples": [TIME_EXAMPLE],
}
HISTORY = Schema(
    allow_only(
        {
            "consumer": {"type": "string", "format": "uuid"},
            "provider": {"type": "string", "format": "uuid"},
            "project_id": {"type": "string", "minLength": 1, "maxLength": 255},
            "request_id": {"type": "string", "minLength": 1, "maxLength": 64},
            "since": _MOMENT,
            "until": _MOMENT,
            "limit": {"type": "string", "pattern": "^([1-9][0-9]{0,2}|1000)$"},
            "marker": {"type": "string", "pattern": "^[0-9]{1,18}-[0-9]{1,18}$"},
        }
    )
)
