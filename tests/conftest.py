"""What tests of several folders share."""

import os

import pytest

pytest_plugins = ["tests.support.browser"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what takes minutes, unless it is asked for."""
    if os.environ.get("PLACEMENT_TEST_LONG"):
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: PLACEMENT_TEST_LONG=1 runs it"))
