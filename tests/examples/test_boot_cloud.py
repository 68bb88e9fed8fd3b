"""The example that everybody runs first explains what keeps it from working."""

import sys
from pathlib import Path

import pytest

from tests.client.conftest import serving
from tests.support.processes import free_port, ran
from tests.support.service import running

BOOT = Path(__file__).parents[2] / "examples/boot_cloud.py"


def boot(url: str) -> str:
    """Run the example in vain and return what it says."""
    done = ran([sys.executable, BOOT, "--url", url])
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("path", ["/placement", "/resource_providers"])
def test_a_wrong_url_is_explained(path: str) -> None:
    """Nothing at all, or an answer that is not the root's."""
    with running() as service, serving(service.application) as url:
        assert "is not the root of a Placement service" in boot(url + path)


def test_a_service_that_is_not_there_is_explained() -> None:
    assert "Start one, or give its --url." in boot(f"http://127.0.0.1:{free_port()}")
