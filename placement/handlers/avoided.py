"""The traits of avoided trees, from ``[insight]/avoid`` or a question's own ``avoid`` (07 section 1.1)."""

from collections.abc import Mapping
from typing import Any

from placement.web.request import Request


def read_avoid(request: Request, given: Mapping[str, Any]) -> frozenset[str]:
    """Return the traits by which trees are avoided: ``avoid`` of a body or query, or the option.

    An empty list, or an empty value in a query, avoids nothing.
    """
    if "avoid" not in given:
        return frozenset(request.conf.insight.avoid)
    named = given["avoid"]
    return frozenset(named.split(",") if isinstance(named, str) else named) - {""}
