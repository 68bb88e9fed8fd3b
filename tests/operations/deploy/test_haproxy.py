"""The configuration for HAProxy that we ship is one that HAProxy accepts."""

import subprocess
from pathlib import Path

import pytest

from tests.support.deployment import shipped
from tests.support.processes import ENDS_S, ran, require_program

pytestmark = pytest.mark.deploy


def test_the_configuration_is_accepted(tmp_path: Path) -> None:
    program, openssl = require_program("haproxy"), require_program("openssl")
    certificate = tmp_path / "placement.pem"
    made = ["-keyout", tmp_path / "key", "-out", tmp_path / "certificate"]
    kind = ["-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=api.example.org"]
    subprocess.run(
        [openssl, "req", *kind, *made],
        check=True,
        capture_output=True,
        timeout=ENDS_S,
    )
    parts = (tmp_path / name for name in ("certificate", "key"))
    certificate.write_text("".join(part.read_text() for part in parts))
    file = tmp_path / "haproxy.cfg"
    paths = {"/etc/haproxy/placement.pem": str(certificate)}
    file.write_text(shipped("haproxy/placement.cfg", tmp_path, **paths))

    checked = ran([program, "-c", "-f", file])

    assert checked.returncode == 0, checked.stderr
    assert "[WARNING]" not in checked.stderr
