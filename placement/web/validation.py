"""JSON Schema in the service's form (specification 01 section 8): compiled once, with its texts."""

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pprint import pformat
from typing import Any

import jsonschema
from jsonschema import exceptions

from placement.web.judge import Judges, close_pattern

SHOWN_CHARACTERS = 1000
"""A longer value is shown by its beginning and end."""

SHOWN_MEMBERS = 2000
"""The most members of a value, over all levels, that are printed before the text is shortened."""

COMPARED_FAILURES = 100
"""The number of failures among which the one nearest the root is chosen; each takes about 60 us to word."""

UNIQUE = {"uniqueItems": True}

STEM = re.compile(r"\^(\w+)")
"""The beginning of the names that a pattern admits."""

Failures = Iterator[jsonschema.exceptions.ValidationError]

USUAL_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\\Z")
HEX_32 = re.compile(r"[0-9a-fA-F]{32}\Z")
DASH_OFFSETS = (8, 13, 18, 23)


def is_uuid_like(value: str) -> bool:
    """Return whether the text is a uuid in a spelling that bodies may use (specification 02 section 0.3)."""
    if USUAL_UUID.match(value):
        return True
    bare = value.replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "")
    return HEX_32.match(bare) is not None


def normalized_uuid(value: str) -> str:
    """Return a uuid-like text in lower case with its four dashes."""
    if USUAL_UUID.match(value):
        return value
    bare = value.replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "")
    return str(uuid.UUID(hex=bare))


def is_strict_uuid(value: str) -> bool:
    """Return whether the text is a uuid with dashes exactly where they belong, in either case."""
    return (
        len(value) == 36
        and all(value[offset] == "-" for offset in DASH_OFFSETS)
        and HEX_32.match(value.replace("-", "")) is not None
    )


class _Formats(jsonschema.FormatChecker):
    """The meaning of ``format: uuid`` for jsonschema, with the judges that use it."""

    def __init__(self, is_uuid: Callable[[str], bool]) -> None:
        super().__init__(formats=())
        self.judges = Judges({"uuid": is_uuid})

        def check(value: object) -> bool:
            return not isinstance(value, str) or is_uuid(value)

        self.checkers = {"uuid": (check, ())}


_OF_BODIES = _Formats(is_uuid_like)
_OF_QUERIES = _Formats(is_strict_uuid)


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(close_pattern(pattern))


def _find_suspects(validator: Any, values: Sequence[Any], schema: Any) -> Iterable[int]:
    """Return the positions of the values that jsonschema must check."""
    # A single value can be nearly all of the body: only its parts are judged, not the value itself before.
    if len(values) == 1:
        return (0,)
    suspects: Iterable[int] = validator.format_checker.judges.find_suspects(values, schema)
    return suspects


def _check_items(validator: Any, items: Any, instance: Any, _schema: Any) -> Failures:
    """Word failures only for wrong elements."""
    if isinstance(instance, list):
        for index in _find_suspects(validator, instance, items):
            yield from validator.descend(instance[index], items, path=index)


def _check_pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, _schema: Any
) -> Failures:
    """Word failures only for wrong values."""
    if not isinstance(instance, dict):
        return
    names, values = list(instance), list(instance.values())
    for pattern, subschema in patterns.items():
        # The judge runs first: the pattern is only matched against names with a possibly wrong value.
        matches = _compile(pattern).search
        for at in _find_suspects(validator, values, subschema):
            if matches(names[at]):
                yield from validator.descend(
                    values[at], subschema, path=names[at], schema_path=pattern
                )


def _check_pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Failures:
    if isinstance(instance, str) and not _compile(pattern).search(instance):
        yield exceptions.ValidationError(f"{instance!r} does not match {pattern!r}")


class _UnknownMember(exceptions.ValidationError):
    """A member that the schema does not know; jsonschema's path ends at the value that has it."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


def _check_additional_properties(
    _validator: Any, allowed: bool, instance: Any, schema: Mapping[str, Any]
) -> Failures:
    if allowed or not isinstance(instance, dict):
        return
    patterns = schema.get("patternProperties", {})
    known = schema.get("properties", {})
    # "(?!)" matches nothing.
    matches = _compile("|".join(patterns) or "(?!)").search
    others = (name for name in instance if name not in known and not matches(name))
    # At most this many are printed, since a body can have hundreds of thousands.
    extra = list(islice(others, SHOWN_MEMBERS))
    if not extra:
        return
    if patterns:
        verb = "does" if len(extra) == 1 else "do"
        names = ", ".join(map(repr, sorted(extra)))
        regexes = ", ".join(map(repr, sorted(patterns)))
        message = f"{names} {verb} not match any of the regexes: {regexes}"
    else:
        verb = "was" if len(extra) == 1 else "were"
        names = ", ".join(map(repr, extra))
        message = f"Additional properties are not allowed ({names} {verb} unexpected)"
    yield _UnknownMember(message, extra[0])


def _check_type(validator: Any, types: Any, instance: Any, schema: Any) -> Failures:
    """Print only the shown part of the value."""
    # The library's message has the repr of the whole value, which can be megabytes.
    of_library = jsonschema.Draft202012Validator.VALIDATORS["type"]
    yield from of_library(validator, types, _take_excerpt(instance), schema)


def _check_unique_items(validator: Any, unique: bool, instance: Any, _schema: Any) -> Failures:
    """Avoid comparing each element with all others, as the library does for unsortable values."""
    if unique and not validator.format_checker.judges.accepts(UNIQUE, instance):
        yield exceptions.ValidationError(f"{_take_excerpt(instance)!r} has non-unique elements")


def _check_any_of(validator: Any, branches: list[Any], instance: Any, _schema: Any) -> Failures:
    """Word only as many failures of a branch as are compared; the library would word all."""
    found = []
    for index, branch in enumerate(branches):
        errors = validator.descend(instance, branch, schema_path=index)
        failures = list(islice(errors, COMPARED_FAILURES))
        if not failures:
            return
        found += failures
    message = f"{_take_excerpt(instance)!r} is not valid under any of the given schemas"
    yield exceptions.ValidationError(message, context=found)


def _make_least_check(keyword: str, kind: str) -> Callable[..., Failures]:
    """Return the check of a lower bound with jsonschema's wording for empty values since 4.21."""
    of_library = jsonschema.Draft202012Validator.VALIDATORS[keyword]

    def check(validator: Any, least: int, instance: Any, schema: Any) -> Failures:
        if least == 1 and validator.is_type(instance, kind) and not instance:
            yield exceptions.ValidationError(f"{instance!r} should be non-empty")
        else:
            yield from of_library(validator, least, instance, schema)

    return check


_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    {
        # These functions bound the cost of the words for any body.
        "anyOf": _check_any_of,
        "items": _check_items,
        "patternProperties": _check_pattern_properties,
        "type": _check_type,
        "uniqueItems": _check_unique_items,
        # The patterns of these end only at the end of the text, not at a newline before the end.
        "additionalProperties": _check_additional_properties,
        "pattern": _check_pattern,
        # These functions have the same words with every release of the library.
        "minItems": _make_least_check("minItems", "array"),
        "minLength": _make_least_check("minLength", "string"),
        "minProperties": _make_least_check("minProperties", "object"),
    },
)


class Failure(str):
    """The report of a failure, with the ``keyword`` of the schema and the ``field``."""

    keyword: str | None = None
    field: str | None = None


class Schema:
    """A schema of 2020-12 semantics.

    fastjsonschema decides whether an instance is valid; jsonschema words the first failures of an invalid
    one.

    :param document: the JSON Schema; ``additionalProperties`` may only be true or false.
    :param strict_uuid: ``format: uuid`` means the dashed form of query strings, not the spellings of bodies.
    """

    def __init__(self, document: Mapping[str, Any], *, strict_uuid: bool = False) -> None:
        self.document = document
        formats = _OF_QUERIES if strict_uuid else _OF_BODIES
        self._validator = _Validator(document, format_checker=formats)
        self._judges = formats.judges

    def list_members(self) -> list[str]:
        """Return the names of the members that an object may have, without the suffixes of patterns."""
        patterns = self.document.get("patternProperties", ())
        stems = (STEM.match(pattern) for pattern in patterns)
        return [*self.document.get("properties", ()), *(stem[1] for stem in stems if stem)]

    def failure(self, instance: Any, *, is_large: bool = False) -> Failure | None:
        """Return the report of the failure nearest the root, or None for a valid instance.

        :param is_large: judge only the parts, not first the whole. That takes a millisecond more, and avoids
            judging a wrong body of megabytes twice.
        """
        try:
            if not is_large and self._judges.accepts(self.document, instance):
                return None
            # The number is bounded: a body of some megabytes can have 100,000 failures, and wording them
            # would take seconds.
            failures = islice(self._validator.iter_errors(instance), COMPARED_FAILURES)
            error = exceptions.best_match(failures)
            return None if error is None else _report(error)
        except RecursionError:
            return Failure("the value is nested too deeply")


def _report(error: exceptions.ValidationError) -> Failure:
    if examples := error.schema.get("examples"):
        name, value = error.absolute_path[-1], _shorten(repr(error.instance))
        report = Failure(f"{name!r} is {value}, which is not written like {examples[0]}")
    else:
        report = Failure(_write_report(error))
    report.keyword = str(error.validator)
    # The path in the text is the path within a branch of "anyOf", as in the library.
    steps = [*error.absolute_path, *([error.name] if isinstance(error, _UnknownMember) else ())]
    report.field = _shorten("".join(f"/{step}" for step in steps))
    return report


def _write_report(error: exceptions.ValidationError) -> str:
    schema_steps = _render_steps(list(error.schema_path)[:-1])
    # The order of the keys is that of the table of schemas, and is part of the frozen text.
    subschema = pformat(error.schema, width=72, sort_dicts=False)
    return (
        f"{_shorten(error.message)}\n\n"
        f"Failed validating {error.validator!r} in schema{schema_steps}:\n"
        f"    {subschema}\n\n"
        f"On instance{_render_steps(error.path)}:\n"
        f"    {_shorten(repr(_take_excerpt(error.instance)))}"
    )


def _take_excerpt(value: Any) -> Any:
    """Return a copy of a tree with only its first ``SHOWN_MEMBERS`` members over all levels."""
    left = iter(range(SHOWN_MEMBERS))

    def copy_members(value: Any) -> Any:
        if isinstance(value, dict):
            members = zip(left, value.items(), strict=False)
            return {name: copy_members(member) for _, (name, member) in members}
        if isinstance(value, list):
            return [copy_members(member) for _, member in zip(left, value, strict=False)]
        return value

    return copy_members(value)


def _render_steps(path: Any) -> str:
    return "".join(f"[{step!r}]" for step in path)


def _shorten(text: str) -> str:
    if len(text) <= SHOWN_CHARACTERS:
        return text
    half = SHOWN_CHARACTERS // 2
    return f"{text[:half]} ... {text[-half:]}"
