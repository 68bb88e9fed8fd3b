"""Every library that serves requests has a lowest version, and those with known holes a safe one.

docs/promise.rst gives the reasons; the database of pip-audit cannot be asked from everywhere, so this is
what CI holds.
"""

import configparser
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
SAFE = {
    "orjson": "3.9.15",
    "PyMySQL": "1.1.1",
    "waitress": "3.0.1",
    "WebOb": "1.8.8",
}
"""The first version without a known vulnerability that the service could meet."""

SERVING = ("postgresql", "mysql", "mysqlclient", "profiler")


def _requirements(*extras: str) -> list[Requirement]:
    """Return what is required always, and by these extras."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    texts = [setup["options"]["install_requires"]]
    texts += [setup["options.extras_require"][extra] for extra in extras]
    return [Requirement(line) for text in texts for line in text.split("\n") if line.strip()]


ALWAYS = {requirement.name for requirement in _requirements()}
REQUIREMENTS = {requirement.name: requirement for requirement in _requirements(*SERVING)}


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
