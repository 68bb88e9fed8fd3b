"""The files of the Debian package agree with the rest."""

from pathlib import Path

from placement.cmd.completion import MODULES
from placement.version import VERSION

ROOT = Path(__file__).parents[2]


def test_the_version_of_the_package_is_the_services() -> None:
    first = (ROOT / "debian/changelog").read_text().splitlines()[0]
    assert first.startswith(f"placement-service ({VERSION})")


def test_the_package_has_every_command() -> None:
    rules = (ROOT / "debian/rules").read_text().replace("\\\n", " ")
    (listed,) = [line for line in rules.splitlines() if line.startswith("COMMANDS = ")]
    assert set(listed.split()[2:]) == set(MODULES)
