"""The root document, which lists the microversions (specification 01 section 2)."""

from webob import Response

from placement.web.microversion import MAXIMUM, MINIMUM
from placement.web.request import Request
from placement.web.response import json_response, now

VERSIONS = {
    "versions": [
        {
            "id": f"v{MINIMUM}",
            "max_version": str(MAXIMUM),
            "min_version": str(MINIMUM),
            "status": "CURRENT",
            # The link is a relative reference to the same URL, which is right under every mount prefix.
            "links": [{"rel": "self", "href": ""}],
        }
    ]
}


def get_versions(request: Request) -> Response:
    """Return the range of microversions that clients can negotiate."""
    return json_response(request, VERSIONS, last_modified=now())
