"""The service with a small cloud, and a visitor who looks at it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.explorer.stage import Stage, fill, open_stage
from tests.support.browser import Visitor, visiting


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/explorer" in item.path.as_posix():
            item.add_marker(pytest.mark.xdist_group("explorer"))


@pytest.fixture(scope="module")
def filled() -> Iterator[Stage]:
    with open_stage() as stage:
        fill(stage)
        yield stage


@pytest.fixture
def stage(filled: Stage) -> Iterator[Stage]:
    """The service with its small cloud, shared by the tests of a module; the door stands open."""
    filled.asked.clear()
    yield filled
    filled.refuse = None


@pytest.fixture
def visitor(browser: Browser, stage: Stage) -> Iterator[Visitor]:
    with visiting(browser, stage.url) as made:
        yield made
