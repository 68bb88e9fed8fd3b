"""Specification 01 section 5.1: which version a header selects."""

import pytest

from placement.errors import MalformedRequest
from placement.web import microversion
from placement.web.microversion import UnacceptableVersion, Version

SELECTS = {
    (1, 0): ["", "placement", "1.5", "compute 2.1", "placement: 1.5", "placement,1.5"],
    (1, 5): [
        "placement 1.5",
        "PLACEMENT 1.5",
        "placement   1.5",
        "placement 1.05",
        "compute 2.1, placement 1.5",
        "placement 1.5, compute 2.9",
        "placement 1.5, placement",
    ],
    (1, 6): ["placement 1.5, placement 1.6"],
    (1, 39): ["placement latest", "placement 1.39"],
}
INVALID = ["LATEST", "1", "1.", "1.2.3", "pony.horse", "1.5 x"]
UNACCEPTABLE = ["0.5", "0.9", "1.40", "2.0", "-1.0"]


@pytest.mark.parametrize(
    ("header", "version"), [(h, v) for v, headers in SELECTS.items() for h in headers]
)
def test_header_selects(header: str, version: tuple[int, int]) -> None:
    assert microversion.negotiate(header) == version


@pytest.mark.parametrize("given", INVALID)
def test_header_is_invalid(given: str) -> None:
    with pytest.raises(MalformedRequest, match=f"^invalid version string: {given}$"):
        microversion.negotiate(f"placement {given}")


@pytest.mark.parametrize("given", UNACCEPTABLE)
def test_header_is_unacceptable(given: str) -> None:
    with pytest.raises(UnacceptableVersion, match=f"^Unacceptable version header: {given}$"):
        microversion.negotiate(f"placement {given}")


def test_no_header_is_the_oldest_version() -> None:
    assert microversion.read_version({}) == Version(1, 0)


def test_versions_print_as_in_headers() -> None:
    assert str(microversion.negotiate("placement 1.05")) == "1.5"
