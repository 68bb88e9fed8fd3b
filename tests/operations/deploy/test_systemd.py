"""The unit file that we ship is one that systemd accepts."""

import re
import sys
from pathlib import Path

import pytest

from tests.support.deployment import shipped
from tests.support.processes import ran, require_program

pytestmark = pytest.mark.deploy


@pytest.mark.parametrize(
    "names",
    [
        ["placement.service"],
        ["placement-capacity.timer", "placement-capacity.service"],
        ["placement-audit.timer", "placement-audit.service"],
    ],
)
def test_the_unit_is_accepted(tmp_path: Path, names: list[str]) -> None:
    analyze = require_program("systemd-analyze")
    for name in names:
        # The unit is checked down to the program, which need not be installed for the system here.
        text = re.sub(
            "/usr/bin/(uwsgi|placement-manage)",
            sys.executable,
            shipped(f"systemd/{name}", tmp_path),
        )
        (tmp_path / name).write_text(text)
    done = ran([analyze, "verify", "--man=no", tmp_path / names[0]])
    complaints = [line for line in done.stderr.splitlines() if "placement" in line]
    assert (done.returncode, complaints) == (0, [])
