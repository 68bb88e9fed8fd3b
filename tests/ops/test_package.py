"""What an operator installs, and what a packager unpacks, is whole."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.processes import lacking, require_program

ROOT = Path(__file__).resolve().parents[2]
BUILD = """
from setuptools import build_meta
build_meta.build_sdist("dist")
build_meta.build_wheel("dist")
"""
NOT_SHIPPED = {".gitignore"}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """A copy of what is under version control, its packages in ``dist``; and the names of its files."""
    git = require_program("git")
    if not (ROOT / ".git").exists():
        lacking("a repository")
    listed = subprocess.run(
        [git, "-C", ROOT, "ls-files"], check=True, capture_output=True, text=True, timeout=60
    )
    names = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    copy = tmp_path_factory.mktemp("repository")
    for name in names:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    built = subprocess.run(
        [sys.executable, "-c", BUILD],
        check=False,
        capture_output=True,
        text=True,
        cwd=copy,
        timeout=300,
    )
    assert built.returncode == 0, built.stderr
    # Setuptools tells of data that a later version of it may leave out.
    assert "is absent from the `packages` configuration" not in built.stderr
    return copy, names


def test_wheel_has_every_file_of_the_package(repository: tuple[Path, set[str]]) -> None:
    """Migrations, schemas, the mark of typed code; and nothing of the tests beside it."""
    copy, names = repository
    (wheel,) = (copy / "dist").glob("*.whl")
    found = {
        name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith("placement-")
    }

    assert found == {name for name in names if name.startswith("placement/")}


def test_source_distribution_has_every_file(repository: tuple[Path, set[str]]) -> None:
    """The README names documents, tools, examples and web server configurations."""
    copy, names = repository
    (archive,) = (copy / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        found = {name.partition("/")[2] for name in opened.getnames()}

    assert names - found == NOT_SHIPPED
