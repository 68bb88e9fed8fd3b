"""The service installs under the upper constraints of OpenStack's releases, and its suites pass there.

``tests/operations/constraints`` has the files as the releases publish them.
"""

import hashlib
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.processes import ran
from tests.support.setup_file import required

ROOT = Path(__file__).parents[3]
CONSTRAINTS = ROOT / "tests" / "operations" / "constraints"
PYTHONS = {"2025.1": "3.11", "2025.2": "3.12", "2026.1": "3.13"}
"""The Python with which the suites run under the constraints of a release, where the machine has it."""

LAYERS = ("db", "gabbits", "handlers", "objects", "policies", "schemas", "search", "web")
SUITES = tuple(f"tests/{layer}" for layer in LAYERS)
"""The suites of the core."""


def constraints(release: str) -> Path:
    return CONSTRAINTS / f"upper-constraints-{release}.txt"


def allowed(release: str) -> dict[str, set[str]]:
    """Return the versions of a file by normalised name, whatever the Python."""
    versions: dict[str, set[str]] = {}
    for line in constraints(release).read_text().splitlines():
        name, _, version = line.partition(";")[0].partition("===")
        versions.setdefault(normalised(name), set()).add(version.strip())
    return versions


def normalised(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(".", "-")


@pytest.mark.parametrize("release", PYTHONS)
def test_the_floors_lie_within_the_constraints(release: str) -> None:
    """pip finds a solution for what the service requires."""
    versions = allowed(release)
    named = [each for each in required() if normalised(each.name) in versions]
    too_new = [
        str(each)
        for each in named
        if not any(map(each.specifier.contains, versions[normalised(each.name)]))
    ]
    assert not too_new
    assert len(named) > 20


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.xdist_group("constraints")
@pytest.mark.parametrize("release", PYTHONS)
def test_the_suites_pass(release: str) -> None:
    """The service, installed under the constraints, passes the suites of the core on SQLite."""
    python = environment(release)
    unset = ("CI", "PLACEMENT_TEST_LONG", "PLACEMENT_TEST_MYSQL", "PLACEMENT_TEST_POSTGRESQL")
    variables = {name: value for name, value in os.environ.items() if name not in unset}
    command = [python, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *SUITES]
    run = ran(command, cwd=ROOT, env=variables)
    assert run.returncode == 0, (run.stdout + run.stderr)[-8000:]
    version = ran([python, "--version"], check=True).stdout
    print(f"{release}, {version.strip()}: {run.stdout.strip().splitlines()[-1]}")


def environment(release: str) -> Path:
    """Return the Python of an environment with the service, made under the constraints of a release.

    Made once for each change of what it is made of.
    """
    suites = CONSTRAINTS / "suites.txt"
    used = (constraints(release), suites, ROOT / "setup.cfg")
    state = hashlib.sha256(b"".join(each.read_bytes() for each in used)).hexdigest()
    folder = ROOT / f".venv-{release}"
    python, made = folder / "bin" / "python", folder / "made-of"
    if not made.exists() or made.read_text() != state:
        ran([interpreter(PYTHONS[release]), "-m", "venv", "--clear", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        ran([*install, "-c", constraints(release), "-r", suites, "-e", ROOT], check=True, cwd=folder)
        made.write_text(state)
    return python


def interpreter(version: str) -> str:
    """Return a Python of the version, or the one that runs the tests."""
    found = shutil.which(f"python{version}")
    if found and not ran([found, "-m", "venv", "-h"]).returncode:
        return found
    return sys.executable
