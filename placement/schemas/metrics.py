"""The query string of /-/metrics (specification 07 section 6): there is none."""

from placement.web.validation import Schema

SHOW = Schema({"type": "object", "additionalProperties": False})
