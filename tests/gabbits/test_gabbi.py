"""Every YAML file of this folder is a test on every database: requests that run in order.

A suite begins on an empty database (tests/support/gabbi_fixtures.py).
"""

import functools
import json
import unittest
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from gabbi import handlers, suitemaker
from gabbi.handlers import jsonhandler
from gabbi.handlers.base import ResponseHandler
from gabbi.handlers.jsonhandler import JSONHandler

from tests.support import databases, gabbi_fixtures

SUITES = Path(__file__).parent
ASKS_NOTHING = ("core-auth", "core-content", "core-cors", "core-root", "core-routes", "insight-off")
"""Suites of which no request gets as far as the database: they are run on SQLite alone."""

CASES = [
    pytest.param(path, kind, id=f"{path.stem}-{kind}")
    for path in sorted(SUITES.glob("*.yaml"))
    for kind in (databases.KINDS[:1] if path.stem in ASKS_NOTHING else databases.KINDS)
]


@pytest.fixture(scope="module", autouse=True)
def _json_paths() -> Iterator[None]:
    """Parse each JSON path once: the parser is made anew for each, which takes longer than most requests."""
    with pytest.MonkeyPatch.context() as patch:
        # By the name that gabbi has for it: releases of gabbi differ in the library.
        parser = jsonhandler.json_parser
        patch.setattr(parser, "parse", functools.cache(parser.parse))
        yield


class InAnyOrder(ResponseHandler):
    """``response_json_in_any_order``: JSON paths and whole values, whose lists have no order."""

    test_key_suffix = "json_in_any_order"
    test_key_value: ClassVar[dict[str, Any]] = {}

    def action(self, test: Any, item: str, value: Any = None) -> None:
        found = JSONHandler.extract_json_path_value(test.response_data, item)
        test.assertEqual(_ordered(value), _ordered(found), item)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(member) for key, member in value.items()}
    if isinstance(value, list):
        return sorted(map(_ordered, value), key=lambda member: json.dumps(member, sort_keys=True))
    return value


def build(path: Path) -> unittest.TestSuite:
    """Make a suite of one file; the service is there without being named."""
    content: dict[str, Any] = yaml.load(path.read_text(), yaml.CSafeLoader)
    content.setdefault("fixtures", ["APIFixture"])
    return suitemaker.test_suite_from_dict(
        unittest.TestLoader(),
        path.stem,
        content,
        str(SUITES),
        str(uuid.uuid4()),
        80,
        gabbi_fixtures,
        gabbi_fixtures.application,
        handlers=[handler() for handler in (*handlers.RESPONSE_HANDLERS, InAnyOrder)],
        test_loader_name="gabbi",
    )


@pytest.mark.parametrize(("path", "kind"), CASES)
def test_suite(path: Path, kind: str) -> None:
    """Every request of the file is answered as the file says."""
    databases.require(kind)
    gabbi_fixtures.kind = kind
    result = unittest.TestResult()
    build(path).run(result)
    assert result.testsRun, "the suite is empty"
    failed = [f"{test.id()}\n{text}" for test, text in result.failures + result.errors]
    assert not failed, "\n".join(failed)
    if result.skipped:
        pytest.skip(str(result.skipped[0][1]))
