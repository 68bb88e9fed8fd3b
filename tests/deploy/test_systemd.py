"""The unit file that we ship is one that systemd accepts."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.deployment import shipped
from tests.support.processes import require_program

pytestmark = pytest.mark.deploy


def test_the_unit_is_accepted(tmp_path: Path) -> None:
    analyze = require_program("systemd-analyze")
    unit = tmp_path / "placement.service"
    # The unit is checked down to the program, which need not be installed for the system here.
    unit.write_text(
        shipped(
            "systemd/placement.service",
            tmp_path,
            **{"/usr/bin/uwsgi": sys.executable, "/usr/bin/placement-manage": sys.executable},
        )
    )
    done = subprocess.run(
        [analyze, "verify", "--man=no", unit],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    complaints = [line for line in done.stderr.splitlines() if "placement.service" in line]
    assert (done.returncode, complaints) == (0, [])
