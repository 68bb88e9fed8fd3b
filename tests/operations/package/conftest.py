"""A fresh Debian and our package, made once. Minutes: only with PLACEMENT_TEST_LONG=1."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import debian
from tests.support.processes import lacking, public_folder, ran, require_program

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def large() -> Iterator[Path]:
    """A folder on a disk, on which all that takes minutes is made; /tmp may be memory."""
    if not os.environ.get("PLACEMENT_TEST_LONG"):
        pytest.skip("takes minutes: PLACEMENT_TEST_LONG=1 runs it")
    if os.geteuid() != 0:
        lacking("root, to make another one")
    with public_folder("placement-package-", under="/var/tmp") as made:
        yield made


@pytest.fixture(scope="session")
def sources(large: Path) -> Path:
    """A copy of what is under version control."""
    git = require_program("git")
    listed = ran([git, "-C", ROOT, "ls-files"], check=True)
    copy = large / "build" / "placement"
    for name in listed.stdout.splitlines():
        if (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="session")
def package(sources: Path) -> Path:
    """The package, built; or the one that PLACEMENT_TEST_PACKAGE names."""
    if named := os.environ.get("PLACEMENT_TEST_PACKAGE"):
        return Path(named)
    done = ran(
        [require_program("dpkg-buildpackage"), "-b", "-us", "-uc"],
        cwd=sources,
        # Another test builds the pages for browsers, and the size does not matter here.
        env={
            **os.environ,
            "DEB_BUILD_OPTIONS": "nohtml",
            "DPKG_DEB_COMPRESSOR_TYPE": "none",
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        },
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (built,) = sources.parent.glob("*.deb")
    return built


@pytest.fixture(scope="session")
def fresh(large: Path) -> Path:
    """A fresh Debian, to be copied; or the one that PLACEMENT_TEST_DEBIAN names."""
    if named := os.environ.get("PLACEMENT_TEST_DEBIAN"):
        return Path(named)
    root = large / "fresh"
    debian.make_root(root, "ca-certificates")
    return root
