"""Every library that serves requests has a lowest version, and those with known holes a safe one.

docs/promise.rst gives the reasons; the database of pip-audit cannot be asked from everywhere, so this is
what CI holds.
"""

from importlib import metadata

import pytest

from tests.support.setup_file import ROOT, required

SAFE = {"orjson": "3.9.15", "PyMySQL": "1.1.1", "waitress": "3.0.1", "WebOb": "1.8.8"}
"""The first version without a known vulnerability that the service could meet."""

SERVING = ("postgresql", "mysql", "mysqlclient", "profiler")
ALWAYS = {requirement.name for requirement in required()}
REQUIREMENTS = {requirement.name: requirement for requirement in required(*SERVING)}


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_a_lowest_version_is_given_and_met(name: str) -> None:
    requirement = REQUIREMENTS[name]

    assert {each.operator for each in requirement.specifier} == {">="}
    assert requirement.url is None
    try:
        installed = metadata.version(name)
    except metadata.PackageNotFoundError:
        # An extra that the tests do without: MariaDB has two drivers.
        assert name not in ALWAYS
        return
    assert requirement.specifier.contains(installed, prereleases=True)


@pytest.mark.parametrize("name", SAFE)
def test_no_version_with_a_known_hole_is_admitted(name: str) -> None:
    safe = tuple(map(int, SAFE[name].split(".")))
    [lowest] = REQUIREMENTS[name].specifier

    assert tuple(map(int, lowest.version.split("."))) >= safe
    said = (ROOT / "docs" / "promise.rst").read_text()
    assert f"{name} {SAFE[name]}" in said, "docs/promise.rst gives no reason"
