"""Functional tests that Nova ships, on our PlacementFixture (specification 06 section 10).

Nova's dependencies are none of ours: `.ci/install` puts it into .venv-nova, or PLACEMENT_TEST_NOVA
names another environment with Nova and our dependencies.
"""

import os
import re
from pathlib import Path

import pytest

from tests.support.processes import lacking, ran

pytestmark = pytest.mark.ci
ROOT = Path(__file__).parents[2]

MODULES = {
    "test_report_client": 15,
    "test_servers_provider_tree": 10,
    "libvirt.test_reshape": 3,
    "regressions.test_bug_1679750": 2,
}
"""What talks to Placement most, and how many tests each has at least."""


def python() -> Path:
    """Return the interpreter that has Nova; skip, or fail in CI, if there is none."""
    named = os.environ.get("PLACEMENT_TEST_NOVA")
    found = Path(named) if named else ROOT / ".venv-nova"
    if not (found / "bin/nova-manage").exists():
        lacking("nova in .venv-nova")
    return found / "bin/python"


@pytest.mark.parametrize("module", MODULES)
def test_nova(module: str, tmp_path: Path) -> None:
    """Nova's own tests pass on our fixture."""
    run_with_nova(f"nova.tests.functional.{module}", MODULES[module], tmp_path)


def test_the_audit_understands_nova(tmp_path: Path) -> None:
    """``placement-manage audit --from-nova`` reads Nova's own API (specification 07 section 8)."""
    run_with_nova("tests.e2e.nova_audit", 2, tmp_path)


def run_with_nova(module: str, at_least: int, tmp_path: Path) -> None:
    """Run a module of tests in a process of its own, with Nova's dependencies and our source."""
    run = ran(
        [python(), "-m", "testtools.run", module],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
            **{f"OS_{kind}_CAPTURE": "1" for kind in ("STDOUT", "STDERR", "LOG")},
        },
    )
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-20_000:]
    passed = re.search(r"^Ran (\d+) tests? in .*\nOK", run.stdout, re.M)
    assert passed and int(passed[1]) >= at_least, run.stdout[-2000:]
