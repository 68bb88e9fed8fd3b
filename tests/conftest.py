"""What tests of several folders share."""

import gc
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import effort
from tests.support.processes import PATIENCE

pytest_plugins = ["tests.support.browser", "tests.support.keystone"]
HANGS_S = 600

# PyMySQL 2 reads this file for every connection, which takes longer than most tests. Certificates are still
# found in the folder that has them by their hashes.
os.environ["SSL_CERT_FILE"] = os.devnull


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """End a test that hangs, later on a busy machine; let the processes of the run share databases."""
    if config.getoption("timeout", None) is None:
        config.option.timeout = HANGS_S * PATIENCE
    if effort.TEMPLATES not in os.environ:
        os.environ[effort.TEMPLATES] = tempfile.mkdtemp(prefix="placement-templates-")
        config.add_cleanup(_drop_templates)


def _drop_templates() -> None:
    # The process that hands out the tests needs nothing of the service before.
    from tests.support.databases import drop_templates

    drop_templates(Path(os.environ.pop(effort.TEMPLATES)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Let the garbage collector look at nothing that is imported and collected: it stays to the end.

    Each of its large runs would look at all of it again, which was a twentieth of the tests' time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what takes long, unless it is asked for."""
    for item in items:
        if reason := effort.left_out(item):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter") -> None:
    """Say what was not tried, and how to try it."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    if not effort.CI:
        reasons[effort.SEEDS] = 0
    if not reasons:
        return
    terminalreporter.section("not tried here")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count or '':>6}  {reason}")
    terminalreporter.write_line(
        "On a fresh Debian 12, bash .ci/run installs what is missing and tries all but the long mode."
    )
