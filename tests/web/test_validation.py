"""Specification 01 section 8.2 and specification 02 section 0.5: the texts of failures."""

from typing import Any

import pytest

from placement.web.validation import Schema, is_strict_uuid, is_uuid_like, normalized_uuid

UUID = "0fa85f64-5717-4562-b3fc-2c963f66afa6"

SCHEMA = Schema(
    {
        "type": "object",
        "properties": {
            "total": {"type": "integer", "minimum": 1, "maximum": 100},
            "name": {"type": "string", "minLength": 1, "maxLength": 3},
            "code": {"type": "string", "pattern": "^CUSTOM_[A-Z]+$"},
            "uuid": {"type": "string", "format": "uuid"},
            "policy": {"type": "string", "enum": ["none", "isolate"]},
            "items": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
            "parent": {"type": ["string", "null"]},
        },
        "required": ["total"],
        "additionalProperties": False,
    }
)
KEYED = Schema(
    {
        "type": "object",
        "patternProperties": {"^[A-Z]+$": {"type": "integer"}, "^[0-9]+$": {"type": "string"}},
        "additionalProperties": False,
    }
)

MORE, EXTRA = "Additional properties are not allowed", "'additionalProperties' in schema:"
TOTAL, CODE = (f"in schema['properties']['{name}']:" for name in ("total", "code"))
NO_MATCH = "does not match '^CUSTOM_[A-Z]+$'"
FAILURES: list[tuple[Any, str, str]] = [
    ({}, "'total' is a required property", "'required' in schema:"),
    ({"total": 1, "a": 1}, f"{MORE} ('a' was unexpected)", EXTRA),
    ({"total": 1, "b": 1, "a": 1}, f"{MORE} ('b', 'a' were unexpected)", EXTRA),
    ({"total": 0}, "0 is less than the minimum of 1", f"'minimum' {TOTAL}"),
    ({"total": 10**30}, f"{10**30} is greater than the maximum of 100", f"'maximum' {TOTAL}"),
    ({"total": "abc"}, "'abc' is not of type 'integer'", f"'type' {TOTAL}"),
    ({"total": True}, "True is not of type 'integer'", f"'type' {TOTAL}"),
    ({"total": None}, "None is not of type 'integer'", f"'type' {TOTAL}"),
    ({"total": 1, "parent": 3}, "3 is not of type 'string', 'null'", "'type' in"),
    ({"total": 1, "name": "äöüß"}, "'äöüß' is too long", "'maxLength' in"),
    ({"total": 1, "name": ""}, "'' should be non-empty", "'minLength' in"),
    ({"total": 1, "code": "x"}, f"'x' {NO_MATCH}", f"'pattern' {CODE}"),
    ({"total": 1, "code": "CUSTOM_A\n"}, f"'CUSTOM_A\\n' {NO_MATCH}", f"'pattern' {CODE}"),
    ({"total": 1, "uuid": "x"}, "'x' is not a 'uuid'", "'format' in"),
    ({"total": 1, "policy": "x"}, "'x' is not one of ['none', 'isolate']", "'enum' in"),
    ({"total": 1, "items": [1, 1]}, "[1, 1] has non-unique elements", "'uniqueItems' in"),
    (
        {"total": 1, "items": ["x"]},
        "'x' is not of type 'integer'",
        "'type' in schema['properties']['items']['items']:",
    ),
]


@pytest.mark.parametrize(("instance", "reason", "place"), FAILURES)
def test_failure_names_reason_and_place(instance: Any, reason: str, place: str) -> None:
    report = SCHEMA.failure(instance)
    assert report is not None
    assert report.startswith(reason + "\n\nFailed validating ")
    assert f"Failed validating {place}" in report


@pytest.mark.parametrize(
    "instance",
    [
        {"total": 10.0, "name": "äöü"},
        {"total": 1, "uuid": UUID.upper(), "parent": None},
        {"total": 1, "uuid": "{urn:uuid:" + UUID.replace("-", "") + "}"},
    ],
)
def test_valid_instances_have_no_failure(instance: Any) -> None:
    assert SCHEMA.failure(instance) is None


def test_unknown_keys_are_told_the_sorted_patterns() -> None:
    one, two = KEYED.failure({"a": 1}), KEYED.failure({"b": 1, "a": 1})
    assert one and one.startswith("'a' does not match any of the regexes: '^[0-9]+$', '^[A-Z]+$'")
    assert two and two.startswith(
        "'a', 'b' do not match any of the regexes: '^[0-9]+$', '^[A-Z]+$'"
    )


def test_pattern_keys_tolerate_no_newline() -> None:
    report = KEYED.failure({"A\n": 1})
    assert report and report.startswith("'A\\n' does not match any of the regexes")


def test_failure_below_a_pattern_key_names_the_pattern() -> None:
    report = KEYED.failure({"A": "x"})
    assert report and "'type' in schema['patternProperties']['^[A-Z]+$']:" in report
    assert "On instance['A']:" in report


def test_reports_of_large_values_are_short() -> None:
    report = SCHEMA.failure({"total": "x" * 1_000_000})
    assert report is not None
    assert len(report) < 5000
    assert "is not of type 'integer'" in report


def test_endless_nesting_is_a_failure() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert SCHEMA.failure({"total": deep}) is not None


def test_strict_uuid_is_for_query_strings() -> None:
    strict = Schema({"properties": {"uuid": {"format": "uuid"}}}, strict_uuid=True)
    assert strict.failure({"uuid": UUID.upper()}) is None
    assert strict.failure({"uuid": UUID.replace("-", "")}) is not None


@pytest.mark.parametrize(
    ("value", "like", "strict"),
    [
        (UUID, True, True),
        (UUID.upper(), True, True),
        (UUID.replace("-", ""), True, False),
        ("{" + UUID + "}", True, False),
        ("urn:uuid:" + UUID, True, False),
        ("-" + UUID, True, False),
        (UUID + "\n", False, False),
        (" " + UUID, False, False),
        (UUID[:-1], False, False),
        (UUID[:-1] + "g", False, False),
        (UUID[:-1] + "٣", False, False),
        ("", False, False),
    ],
)
def test_uuid_spellings(value: str, like: bool, strict: bool) -> None:
    assert is_uuid_like(value) is like
    assert is_strict_uuid(value) is strict


def test_uuid_like_texts_have_one_normal_form() -> None:
    assert normalized_uuid(UUID) == UUID
    assert normalized_uuid("{urn:uuid:" + UUID.upper() + "}") == UUID


def test_the_field_is_the_path_within_the_whole_body() -> None:
    """Also of a failure in a branch of several; the text says it within the branch, as the library does."""
    branches = {"anyOf": [{"properties": {"drain": {"type": "string"}}}, {"type": "null"}]}
    schema = Schema({"properties": {"changes": {"type": "array", "items": branches}}})

    report = schema.failure({"changes": [None, {"drain": 1}]})

    assert report is not None
    assert report.field == "/changes/1/drain"
    assert "On instance['drain']:\n    1" in report
