"""Functional tests that Nova ships, on our PlacementFixture (specification 06 section 10).

Nova's dependencies are none of ours: `.ci/install` puts it into .venv-nova, or PLACEMENT_TEST_NOVA
names another environment with Nova and our dependencies.
"""

import os
import re
from pathlib import Path

import pytest

from tests.support.processes import lacking, ran

pytestmark = [pytest.mark.ci, pytest.mark.xdist_group("nova")]
ROOT = Path(__file__).parents[3]

SUITE = "nova.tests.functional"
MODULES = {
    "test_report_client": 15,
    "test_servers_provider_tree": 10,
    "libvirt.test_reshape": 3,
    "regressions.test_bug_1679750": 2,
}
"""What talks to Placement most, and how many tests each has at least."""

AUDIT = "tests.operations.e2e.nova_audit"
RUN = "import gc, unittest; gc.set_threshold(100_000, 50, 100); unittest.main(module=None)"
"""``python -m unittest``, whose garbage collector seldom looks at all of Nova: a tenth of the time."""


def python() -> Path:
    """Return the interpreter that has Nova; skip, or fail in CI, if there is none."""
    named = os.environ.get("PLACEMENT_TEST_NOVA")
    found = Path(named) if named else ROOT / ".venv-nova"
    if not (found / "bin/nova-manage").exists():
        lacking("nova in .venv-nova")
    return found / "bin/python"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What all the tests print, in a process with Nova's dependencies and our source.

    They share it: to import Nova and to make its databases takes longer than most of them.
    """
    home = tmp_path_factory.mktemp("nova")
    run = ran(
        [python(), "-c", RUN, "-v", *(f"{SUITE}.{module}" for module in MODULES), AUDIT],
        cwd=home,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
            **{f"OS_{kind}_CAPTURE": "1" for kind in ("STDOUT", "STDERR", "LOG")},
        },
    )
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-20_000:]
    return run.stderr


@pytest.mark.parametrize("module", MODULES)
def test_nova(printed: str, module: str) -> None:
    """Nova's own tests pass on our fixture."""
    assert count(printed, f"{SUITE}.{module}") >= MODULES[module], printed[-2000:]


def test_the_audit_understands_nova(printed: str) -> None:
    """``placement-manage audit --from-nova`` reads Nova's own API (specification 07 section 8)."""
    assert count(printed, AUDIT) == 3, printed[-2000:]


def count(printed: str, module: str) -> int:
    """Return how many tests of a module passed."""
    return len(
        re.findall(rf"^test\w* \({re.escape(module)}\..*(?:\n.*)? \.\.\. ok$", printed, re.M)
    )
