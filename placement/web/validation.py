"""JSON Schema as the service speaks it (contract 01 section 8): compiled once, with its texts."""

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pprint import pformat
from typing import Any

import jsonschema
import jsonschema_rs
from jsonschema import exceptions

# Reports name the offending value. A value of megabytes would make the answer, and the time to
# print it, as large as the request: what is longer than this is shown by its beginning and end.
SHOWN_CHARACTERS = 1000

HEX_32 = re.compile(r"[0-9a-fA-F]{32}\Z")
DASH_OFFSETS = (8, 13, 18, 23)
END_OF_LINE = re.compile(r"(?<!\\)\$(?=$|\||\))")


def is_uuid_like(value: str) -> bool:
    """The text is a uuid in any of the spellings that bodies may use (contract 02 section 0.3)."""
    bare = value.replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "")
    return HEX_32.match(bare) is not None


def normalized_uuid(value: str) -> str:
    """Return a uuid-like text in lower case with its four dashes."""
    bare = value.replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "")
    return str(uuid.UUID(hex=bare))


def is_strict_uuid(value: str) -> bool:
    """The text is a uuid with dashes exactly where they belong, in either case."""
    return (
        len(value) == 36
        and all(value[offset] == "-" for offset in DASH_OFFSETS)
        and HEX_32.match(value.replace("-", "")) is not None
    )


def _format_checker(matches: Callable[[str], bool]) -> jsonschema.FormatChecker:
    checker = jsonschema.FormatChecker(formats=())

    def check(value: object) -> bool:
        return not isinstance(value, str) or matches(value)

    checker.checkers = {"uuid": (check, ())}
    return checker


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a schema's pattern so that ``$`` is the end, not also a newline before the end."""
    return re.compile(END_OF_LINE.sub(r"\\Z", pattern))


def _pattern(
    _validator: Any, pattern: str, instance: Any, _schema: Mapping[str, Any]
) -> Iterator[exceptions.ValidationError]:
    if isinstance(instance, str) and not _compiled(pattern).search(instance):
        yield exceptions.ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, _schema: Mapping[str, Any]
) -> Iterator[exceptions.ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        matches = _compiled(pattern).search
        for name, value in instance.items():
            if matches(name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _no_additional_properties(
    _validator: Any, allowed: bool, instance: Any, schema: Mapping[str, Any]
) -> Iterator[exceptions.ValidationError]:
    if allowed or not isinstance(instance, dict):
        return
    patterns = schema.get("patternProperties", {})
    known = schema.get("properties", {})
    searches = [_compiled(pattern).search for pattern in patterns]
    extra = [n for n in instance if n not in known and not any(s(n) for s in searches)]
    if not extra:
        return
    if patterns:
        verb = "does" if len(extra) == 1 else "do"
        names = ", ".join(map(repr, sorted(extra)))
        regexes = ", ".join(map(repr, sorted(patterns)))
        yield exceptions.ValidationError(f"{names} {verb} not match any of the regexes: {regexes}")
    else:
        verb = "was" if len(extra) == 1 else "were"
        names = ", ".join(map(repr, extra))
        yield exceptions.ValidationError(
            f"Additional properties are not allowed ({names} {verb} unexpected)"
        )


_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _no_additional_properties,
    },
)


class Schema:
    """A compiled schema of 2020-12 semantics.

    Two libraries share the work: jsonschema-rs says in microseconds that an instance is valid (the
    other takes 60 for every provider of a body), jsonschema finds the words for one that is not.

    :param document: the JSON Schema; ``additionalProperties`` may only be true or false.
    :param strict_uuid: what ``format: uuid`` means: the dashed form of query strings if true, the
        uuid-like spellings of bodies if false.
    """

    def __init__(self, document: Mapping[str, Any], *, strict_uuid: bool = False) -> None:
        jsonschema.Draft202012Validator.check_schema(document)
        self.document = document
        is_uuid = is_strict_uuid if strict_uuid else is_uuid_like
        self._validator = _Validator(document, format_checker=_format_checker(is_uuid))
        self._accepts = jsonschema_rs.Draft202012Validator(
            dict(document), formats={"uuid": is_uuid}, validate_formats=True
        ).is_valid

    def failure(self, instance: Any) -> str | None:
        """Return the report of the failure nearest the root, or None for a valid instance."""
        try:
            if self._accepts(instance):
                return None
            error = exceptions.best_match(self._validator.iter_errors(instance))
            return None if error is None else _report(error)
        except (RecursionError, ValueError):
            # ValueError is how jsonschema-rs puts it.
            return "the value is nested too deeply"


def _report(error: exceptions.ValidationError) -> str:
    subschema = pformat(error.schema, width=72, sort_dicts=False)
    return (
        f"{_shortened(error.message)}\n\n"
        f"Failed validating {error.validator!r} in schema{_steps(list(error.schema_path)[:-1])}:\n"
        f"    {subschema}\n\n"
        f"On instance{_steps(error.path)}:\n"
        f"    {_shortened(repr(error.instance))}"
    )


def _steps(path: Any) -> str:
    return "".join(f"[{step!r}]" for step in path)


def _shortened(text: str) -> str:
    if len(text) <= SHOWN_CHARACTERS:
        return text
    half = SHOWN_CHARACTERS // 2
    return f"{text[:half]} ... {text[-half:]}"
