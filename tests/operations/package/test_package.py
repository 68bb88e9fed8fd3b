"""What an operator installs, and what a packager unpacks, is whole."""

import json
import os
import re
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from placement.version import VERSION
from tests.support.processes import lacking, ran, require_program

pytestmark = pytest.mark.xdist_group("packages")  # made once

ROOT = Path(__file__).resolve().parents[3]
NOT_SHIPPED = {".gitignore"}
BILL = ROOT / ".venv-bill"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """A folder with what ``tools/package`` makes, and the names of the files under version control."""
    git = require_program("git")
    if not (ROOT / ".git").exists():
        lacking("a repository")
    listed = ran([git, "-C", ROOT, "ls-files"], check=True)
    made = tmp_path_factory.mktemp("packages")
    said = package(made)
    # Setuptools tells of data that a later version of it may leave out.
    assert "is absent from the `packages` configuration" not in said
    return made, {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def package(folder: Path, umask: int = 0o022, **environment: str) -> str:
    """Build everything into the folder; return what was said on stderr."""
    done = ran(
        [sys.executable, ROOT / "tools" / "package", folder],
        umask=umask,
        # Without the writer of the bill all else is tested.
        env={**os.environ, **({} if BILL.exists() else {"PLACEMENT_NO_BILL": "1"}), **environment},
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_packages_are_the_same_bytes_again(packages: tuple[Path, set[str]], tmp_path: Path) -> None:
    """Whoever builds them: at another time, in another place, with another umask and hash seed."""
    made, _ = packages

    package(tmp_path, umask=0o077, PYTHONHASHSEED="7", TZ="Asia/Tokyo")

    first = {each.name: each.read_bytes() for each in made.iterdir()}
    again = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert sorted(first) == sorted(again)
    assert {Path(name).suffix for name in first} >= {".whl", ".gz"}
    assert [name for name, content in first.items() if again[name] != content] == []


def test_bill_of_materials_names_what_is_installed(packages: tuple[Path, set[str]]) -> None:
    """Every line of ``requirements.lock``, with its version and hashes."""
    if not BILL.exists():
        lacking("cyclonedx-bom")
    (bill,) = packages[0].glob("*.cdx.json")
    said = json.loads(bill.read_text())

    lock = (ROOT / "requirements.lock").read_text()
    locked = re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", lock, re.M)
    assert said["bomFormat"] == "CycloneDX"
    assert said["metadata"]["component"]["name"] == "placement-service"
    assert said["metadata"]["component"]["version"] == VERSION
    assert {(each["name"], each["version"]) for each in said["components"]} == set(locked)
    assert all(each["externalReferences"][0]["hashes"] for each in said["components"])


def test_nothing_is_made_without_a_bill(tmp_path: Path) -> None:
    """In a checkout that has no writer of it: a release without one would not be noticed."""
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    command = [sys.executable, tmp_path / "tools" / "package", tmp_path / "dist"]
    variables = {name: text for name, text in os.environ.items() if name != "PLACEMENT_NO_BILL"}
    done = ran(command, env=variables)
    assert done.returncode == 1
    assert "No release without its bill of materials" in done.stderr
    assert not (tmp_path / "dist").exists()


def test_wheel_has_every_file_of_the_package(packages: tuple[Path, set[str]]) -> None:
    """Migrations, schemas, the mark of typed code; and nothing of the tests beside it."""
    made, names = packages
    (wheel,) = made.glob("*.whl")
    listed = zipfile.ZipFile(wheel).namelist()
    found = {name for name in listed if not name.startswith("placement_service-")}

    assert found == {name for name in names if name.startswith("placement/")}


def test_source_distribution_has_every_file(packages: tuple[Path, set[str]]) -> None:
    """The README names documents, tools, examples and web server configurations."""
    made, names = packages
    (archive,) = made.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        found = {name.partition("/")[2] for name in opened.getnames()}

    assert names - found == NOT_SHIPPED
