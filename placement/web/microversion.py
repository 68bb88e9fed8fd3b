"""Which microversion a request asks for (specification 01 section 5)."""

from functools import lru_cache
from typing import NamedTuple

import microversion_parse

from placement import errors

SERVICE_TYPE = "placement"
HEADER = "openstack-api-version"
LATEST = "latest"
BESIDE_THE_API = "/-/"
"""Paths under which no version of the compatible API will ever be (specification 07 section 1)."""


class Version(NamedTuple):
    """A microversion; compares with plain pairs: ``request.version >= (1, 12)``."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


MINIMUM = Version(1, 0)
MAXIMUM = Version(1, 39)


class InvalidVersion(errors.BadRequest):
    """The header holds something that is no version."""

    text = "invalid version string: {given}"
    given: str


class UnacceptableVersion(errors.PlacementError):
    """A well-formed version that this service does not have."""

    reason = "unacceptable_version"
    status = 406
    text = "Unacceptable version header: {given}"
    given: str


def requested(environ: dict[str, str]) -> Version:
    """Return the version in force for the request of a WSGI environment.

    What lies outside the compatible API is asked at the newest version unless the header names one.

    :raises InvalidVersion: 400
    :raises UnacceptableVersion: 406
    """
    header = environ.get("HTTP_OPENSTACK_API_VERSION", "")
    if environ.get("PATH_INFO", "").startswith(BESIDE_THE_API) and not _names_us(header):
        return MAXIMUM
    return negotiate(header)


def _names_us(header: str) -> bool:
    return microversion_parse.get_version({HEADER: header}, SERVICE_TYPE) is not None


# Errors are not cached: only the few well-formed headers that clients send take room here.
@lru_cache(maxsize=256)
def negotiate(header: str) -> Version:
    """Return the version that the header value selects; the last item of ours decides."""
    given = microversion_parse.get_version({HEADER: header}, SERVICE_TYPE)
    if given is None:
        return MINIMUM
    if given == LATEST:
        return MAXIMUM
    try:
        version = Version(*microversion_parse.parse_version_string(given))
    except TypeError:
        raise InvalidVersion(given=given) from None
    if not MINIMUM <= version <= MAXIMUM:
        raise UnacceptableVersion(given=given)
    return version
