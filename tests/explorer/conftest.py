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


@pytest.fixture(scope="module")
def tab(browser: Browser, filled: Stage) -> Iterator[Visitor]:
    with visiting(browser, filled.url) as made:
        yield made


@pytest.fixture
def visitor(tab: Visitor, stage: Stage) -> Iterator[Visitor]:
    """Somebody in the one tab of the module: to open another takes longer than most tests."""
    yield tab
    tab.leave()


@pytest.fixture
def alone(browser: Browser, stage: Stage) -> Iterator[Visitor]:
    """Somebody with a tab for this test alone: a false clock and a lost network stay with a tab."""
    with visiting(browser, stage.url) as made:
        yield made
