"""The functional tests that osc-placement ships, on our PlacementFixture (specification 06 section 10)."""

import os
import re
import sys
from pathlib import Path

import osc_placement.tests.functional
import pytest

from placement import wsgi
from tests.support.processes import ran

pytestmark = pytest.mark.ci
PACKAGE = osc_placement.tests.functional
MODULES = sorted(
    f"{PACKAGE.__name__}.{path.stem}" for path in Path(PACKAGE.__path__[0]).glob("test_*.py")
)
AT_LEAST = 100
ROOT = Path(wsgi.__file__).parents[2]


def test_osc_placement(tmp_path: Path) -> None:
    """In a process of its own: the tests of other projects bring their own runner and logging."""
    scripts = Path(sys.executable).parent
    run = ran(
        [sys.executable, "-m", "tests.operations.e2e.osc_suite", *MODULES],
        cwd=tmp_path,
        env={
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "PYTHONPATH": str(ROOT),
        },
    )
    assert run.returncode == 0, run.stdout + run.stderr
    passed = re.search(r"^Ran (\d+) tests in .*\nOK", run.stdout, re.M)
    assert passed and int(passed[1]) >= AT_LEAST, run.stdout[-2000:]
