"""What tests of several folders share."""

import gc
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support import affected, effort, seconds, short_run
from tests.support.processes import PATIENCE

pytest_plugins = ["tests.support.browser", "tests.support.keystone"]
HANGS_S = 600

# PyMySQL 2 reads this file for every connection, which takes longer than most tests. Certificates are still
# found in the folder that has them by their hashes.
os.environ["SSL_CERT_FILE"] = os.devnull

# Here, not in a hook: the settings of a test take the profile's values when its module is imported.
# Where CI is set, Hypothesis loads a profile of its own, with which every run draws the same cases.
# On a busy machine an example takes any time.
hypothesis.settings.register_profile("by hand", derandomize=True, deadline=None)
hypothesis.settings.register_profile("by seed", derandomize=False, deadline=None)
hypothesis.settings.load_profile("by seed" if effort.CI or effort.LONG else "by hand")


@pytest.fixture(autouse=True)
def _sql_log_as_before() -> Iterator[None]:
    """Let the level of the SQL log, which the configuration of a service sets, end with the test."""
    log = logging.getLogger("sqlalchemy.engine")
    before = log.level
    yield
    log.setLevel(before)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a command line try a part of many tests."""
    said = f"one of N tests, drawn anew for each run, or by the seed {effort.DRAWN_BY}"
    parser.addoption("--drawn", type=int, metavar="N", help=said)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say how to draw the same cases again, and what else is drawn."""
    drawn, cases = config.option.drawn, f"{effort.DRAWN_BY}={effort.run_seed()}"
    seed = f"one of {drawn} tests: {cases} pytest --drawn {drawn}" if drawn else f"random cases: {cases}"
    chosen = short_run.chosen()
    return [seed, *(chosen.header() if chosen else ())]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """End a test that hangs, later on a busy machine; let the processes of the run share databases."""
    if config.getoption("timeout", None) is None:
        config.option.timeout = HANGS_S * PATIENCE
    # The processes of the run inherit the seed and what is chosen by it, and draw the same.
    seed = effort.run_seed()
    if not hasattr(config, "workerinput"):
        _choose(config)
    if config.option.hypothesis_seed is None and (effort.CI or effort.LONG):
        config.option.hypothesis_seed = seed
    if effort.TEMPLATES not in os.environ:
        os.environ[effort.TEMPLATES] = tempfile.mkdtemp(prefix="placement-templates-")
        config.add_cleanup(_drop_templates)


def _choose(config: pytest.Config) -> None:
    """Choose what the run tries, and have a full run say how long it took."""
    os.environ.pop(short_run.VARIABLE, None)
    # pytest-xdist would begin with the groups of most tests.
    config.option.loadscopereorder = not affected.recorded()
    if not effort.CI or effort.chooses(config):
        return
    if not effort.FULL:
        short_run.choose()
    elif not effort.LONG and (commit := affected.head()):
        config.pluginmanager.register(seconds.Recorder(commit))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of tests that the change does not reach."""
    chosen = short_run.chosen()
    if chosen is None or chosen.everything or not collection_path.match("test_*.py"):
        return None
    return str(collection_path.relative_to(config.rootpath)) not in chosen.tests or None


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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long, unless it is asked for, and what is not drawn; begin with the longest."""
    seed = int(os.environ[effort.DRAWN_BY])
    if config.option.drawn:
        every = list(items)
        items[:] = effort.draw(items, config.option.drawn, seed)
        config.hook.pytest_deselected(items=[item for item in every if item not in items])
    chosen = short_run.chosen()
    reasons = {item: effort.left_out(item) or (chosen and chosen.left_out(item)) for item in items}
    if not (effort.FULL or effort.chooses(config)):
        long = seconds.of_what_takes_long([item for item in items if not reasons[item]])
        others = set(long).difference(effort.draw(long, effort.OF_LONG, seed))
        reasons |= dict.fromkeys(others, effort.NOT_DRAWN)
    for item, reason in reasons.items():
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
    seconds.longest_first(items)


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
        "On a fresh Debian 12, PLACEMENT_TEST_FULL=1 bash .ci/run installs what is missing and tries all"
        " but the long mode."
    )
