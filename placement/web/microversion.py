"""The microversion that a request asks for (specification 01 section 5)."""

from functools import lru_cache
from typing import NamedTuple

import microversion_parse

from placement import errors

SERVICE_TYPE = "placement"
HEADER = "openstack-api-version"
LATEST = "latest"
BESIDE_THE_API = "/-/"
"""The prefix of paths that no version of the compatible API will ever have (specification 07 section 1)."""


class Version(NamedTuple):
    """A microversion; compares with plain pairs: ``request.version >= (1, 12)``."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


MINIMUM = Version(1, 0)
MAXIMUM = Version(1, 39)


class UnacceptableVersion(errors.PlacementError):
    """A well-formed version that this service does not have."""

    reason = "unacceptable_version"
    status = 406
    text = "Unacceptable version header: {given}"
    given: str


def read_version(environ: dict[str, str]) -> Version:
    """Return the version in force: the header's, otherwise the newest (the oldest in the compatible API)."""
    beside = environ.get("PATH_INFO", "").startswith(BESIDE_THE_API)
    header = environ.get("HTTP_OPENSTACK_API_VERSION", "")
    return negotiate(header, MAXIMUM if beside else MINIMUM)


# Errors are not cached: only the few well-formed headers that clients send use space here.
@lru_cache(maxsize=256)
def negotiate(header: str, default: Version = MINIMUM) -> Version:
    """Return the version that the header value selects; the last item for this service decides."""
    given = microversion_parse.get_version({HEADER: header}, SERVICE_TYPE)
    if given is None:
        return default
    if given == LATEST:
        return MAXIMUM
    try:
        version = Version(*microversion_parse.parse_version_string(given))
    except TypeError:
        raise errors.MalformedRequest.for_rule("version", given=given) from None
    if not MINIMUM <= version <= MAXIMUM:
        raise UnacceptableVersion(given=given)
    return version
