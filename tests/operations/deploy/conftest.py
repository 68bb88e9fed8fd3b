"""A folder, a database and a configuration for each deployment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import deployment
from tests.support.processes import public_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    with public_folder("placement-deploy-") as made:
        yield made


@pytest.fixture
def environment(folder: Path) -> dict[str, str]:
    """The service's environment, which names a configuration and a ready SQLite database.

    The processes of a server share their metrics, which need no token.
    """
    metrics = f"[insight]\nenabled = true\npublic = metrics\nmetrics_directory = {folder}/metrics\n"
    return deployment.prepare(folder, f"sqlite:///{folder}/placement.sqlite", metrics)
