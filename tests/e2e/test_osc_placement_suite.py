"""The functional tests that osc-placement ships, on our PlacementFixture (specification 06 section 10)."""

import os
import subprocess
import sys
from pathlib import Path

import osc_placement.tests.functional
import pytest

from placement import wsgi

PACKAGE = osc_placement.tests.functional
MODULES = sorted(path.stem for path in Path(PACKAGE.__path__[0]).glob("test_*.py"))
ROOT = Path(wsgi.__file__).parents[2]


@pytest.mark.parametrize("module", MODULES)
def test_osc_placement(module: str, tmp_path: Path) -> None:
    """In a process of its own: the tests of other projects bring their own runner and logging."""
    scripts = Path(sys.executable).parent
    run = subprocess.run(
        [sys.executable, "-m", "testtools.run", f"{PACKAGE.__name__}.{module}"],
        cwd=tmp_path,
        env={
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "\nOK" in run.stdout
