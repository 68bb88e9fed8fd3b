"""What tests of several folders share."""

pytest_plugins = ["tests.support.browser"]
