"""fastjsonschema and jsonschema agree about every schema: in the verdict, and in all that is said of it.

The service asks the first whether a value is valid, and the second for the words. Here the second judges
alone, too.
"""

import copy
import importlib
import math
import pkgutil
from collections.abc import Iterable, Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from placement import extensions, schemas
from placement.schemas.windows import Windows
from placement.web.judge import Judges
from placement.web.validation import UNIQUE, Schema
from tests.security import test_http_fuzz as vocabulary
from tests.support.effort import LONG, examples
from tests.web.test_validation_large_bodies import WRONG

LEFT_OUT = ("explorer", "metrics", "plans")
"""Extensions whose requests have no body and no parameters, and plans, whose schemas were never compared."""


class Suspicious(Judges):
    """Finds nothing valid, so that jsonschema looks at everything, and has it say what is unique."""

    def accepts(self, schema: Any, value: Any) -> bool:
        return schema is UNIQUE and jsonschema.Draft202012Validator(UNIQUE).is_valid(value)

    def find_suspects(self, values: Iterable[Any], schema: Any) -> Iterator[int]:
        return (at for at, _ in enumerate(values))


def alone(schema: Schema) -> Schema:
    """Return the schema with jsonschema as its only judge."""
    formats = copy.copy(schema._validator.format_checker)
    formats.judges = Suspicious({})
    made = copy.copy(schema)
    made._judges, made._validator = formats.judges, schema._validator.evolve(format_checker=formats)
    return made


def assert_judged_alike(schema: Schema, instance: Any, name: str = "") -> None:
    """Compare what the service says with what jsonschema says alone."""
    valid, both, one = (
        schema._judges.accepts(schema.document, instance),
        schema.failure(instance),
        alone(schema).failure(instance),
    )
    assert valid is (one is None), (name, instance)
    assert one == both, (name, instance)
    if one is not None and both is not None:
        assert (one.keyword, one.field) == (both.keyword, both.field)


def every_schema() -> dict[str, Schema]:
    found = {}
    modules = [f"placement.schemas.{each.name}" for each in pkgutil.iter_modules(schemas.__path__)]
    names = (each.name for each in pkgutil.iter_modules(extensions.__path__))
    modules += [f"placement.extensions.{name}.schemas" for name in names if name not in LEFT_OUT]
    for module_name in modules:
        module = importlib.import_module(module_name)
        for name, value in vars(module).items():
            if isinstance(value, Schema):
                found[f"{module_name}.{name}"] = value
            elif isinstance(value, Windows):
                for minor in range(40):
                    try:
                        found[f"{module_name}.{name}-{minor}"] = value.at(minor)
                    except LookupError:
                        continue
    return {name: schema for name, schema in found.items() if isinstance(schema, Schema)}


# One name for each distinct schema.
SCHEMAS = {id(schema): (name, schema) for name, schema in every_schema().items()}
instances = st.one_of(*vocabulary.BODIES.values(), vocabulary.trees) | st.dictionaries(
    st.sampled_from(vocabulary.PARAMETERS + vocabulary.MEMBERS),
    st.sampled_from(vocabulary.QUERY_VALUES) | vocabulary.words,
    max_size=3,
)
KEYWORDS = {
    *("type", "enum",
    # Shown in refusals; nothing is judged by it.
    "examples", "anyOf", "oneOf", "format", "minimum", "maximum"),
    *("pattern", "minLength", "maxLength"),
    *("items", "minItems", "maxItems", "uniqueItems"),
    *("properties", "patternProperties", "additionalProperties", "required", "minProperties"),
}
NEVER = [
    math.nan,
    math.inf,
    10**400,
    "\ud800",
    "\udfff\n",
    [],
    {},
    [[[[[]]]]],
    {"": {"": {}}},
    [1, True],
    [{}],
]
odd = st.sampled_from(vocabulary.NUMBERS + vocabulary.ODD + vocabulary.NAMES + NEVER)

fuzzed = settings(
    # 100,500 in three tests; in CI 4,500.
    max_examples=33_500 if LONG else examples(1500),
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


def test_schemas_are_found_and_sound() -> None:
    """The service does not look at its own schemas when it starts."""
    assert len(SCHEMAS) >= 20
    for name, schema in SCHEMAS.values():
        try:
            jsonschema.Draft202012Validator.check_schema(schema.document)
        except jsonschema.SchemaError as error:
            pytest.fail(f"{name}: {error}")
        # fastjsonschema would take a keyword that it does not know for none, and the service mends some.
        assert keywords_of(schema.document) <= KEYWORDS, name
        assert not schema._judges.accepts(schema.document, None), name


def keywords_of(schema: dict[str, Any]) -> set[str]:
    members = [schema.get("properties", {}), schema.get("patternProperties", {})]
    within = [each for kind in members for each in kind.values()]
    within += [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *filter(None, [schema.get("items")])]
    return set(schema).union(*map(keywords_of, within))


@fuzzed
@given(instance=instances, pick=st.sampled_from(sorted(SCHEMAS)))
def test_both_judges_agree(instance: Any, pick: int) -> None:
    """In the words, the keyword and the field as well as in the verdict."""
    name, schema = SCHEMAS[pick]
    assert_judged_alike(schema, instance, name)


@fuzzed
@given(data=st.data(), pick=st.sampled_from(sorted(SCHEMAS)))
def test_both_judges_agree_on_what_fits_but_for_something(data: st.DataObject, pick: int) -> None:
    """Most parts of these are valid, so that each keyword decides."""
    name, schema = SCHEMAS[pick]
    assert_judged_alike(schema, data.draw(fitting(schema.document)), name)


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values that fit a schema but for an odd place in some of them."""
    fits = _members_that_fit(schema) if schema.get("type") == "object" else _others_that_fit(schema)
    return st.integers(0, 19).flatmap(lambda pick: odd if pick == 0 else fits)


def _members_that_fit(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    required = schema.get("required", ())
    known = {name: fitting(each) for name, each in schema.get("properties", {}).items()}
    optional = {name: value for name, value in known.items() if name not in required}
    if schema.get("additionalProperties", True):
        optional["x"] = odd
    members = st.fixed_dictionaries({name: known[name] for name in required}, optional=optional)
    for pattern, each in schema.get("patternProperties", {}).items():
        names = st.from_regex(pattern) | st.sampled_from(vocabulary.NAMES + vocabulary.UUIDS)
        others = st.dictionaries(
            names, fitting(each), min_size=schema.get("minProperties", 0), max_size=3
        )
        members = st.builds(lambda some, more: some | more, members, others)
    return members


def _others_that_fit(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "anyOf" in schema:
        return st.one_of(*map(fitting, schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema["type"] == "array":
        least = schema.get("minItems", 0)
        return st.lists(fitting(schema["items"]), min_size=least, max_size=least + 3)
    if "pattern" in schema:
        return st.from_regex(schema["pattern"])
    if "string" in schema["type"]:
        return st.sampled_from(vocabulary.UUIDS + vocabulary.NAMES)
    return st.sampled_from([1, 2.0, schema.get("minimum", 0), schema.get("maximum", 0)])


@fuzzed
@given(instance=instances, pick=st.sampled_from(sorted(SCHEMAS)))
def test_the_words_are_those_of_the_library(instance: Any, pick: int) -> None:
    """But for texts that end in a newline, which the library lets a pattern's end match."""
    assume("\\n" not in repr(instance))
    name, schema = SCHEMAS[pick]
    plain = jsonschema.Draft202012Validator(
        schema.document, format_checker=schema._validator.format_checker
    )
    best = jsonschema.exceptions.best_match(plain.iter_errors(instance))

    failure = schema.failure(instance)

    assert (failure is None) is (best is None), (name, instance)
    if failure is not None and len(best.message) <= 1000:
        steps = "".join(f"[{step!r}]" for step in best.path)
        words, found = failure.split("\n\nFailed validating ", 1)
        # Releases of the library differ in the order of the names.
        assert sorted(words) == sorted(best.message)
        assert found.startswith(repr(best.validator))
        assert f"\n\nOn instance{steps}:\n" in found


@pytest.mark.parametrize("value", [10.0, 10**30, -(10**30), 1e300, True, "A\n", None, 2**63, 0.5])
@pytest.mark.parametrize(
    "document",
    [
        {"type": "integer"},
        {"type": "number", "maximum": 3.40282e38},
        {"type": "integer", "minimum": 1, "maximum": 2147483647},
        {"type": ["string", "null"], "pattern": "^[A-Z]+$", "maxLength": 1},
        {"enum": ["none", "isolate"]},
    ],
)
def test_both_judges_agree_on_the_edges(document: dict[str, Any], value: Any) -> None:
    assert_judged_alike(Schema(document), value)


@pytest.mark.parametrize(
    "value", [[1, True], [1, 1.0], [{"a": 1}, {"a": 1.0}], [[], {}], ["a", "a"]]
)
@pytest.mark.parametrize("items", [{}, {"type": "string"}])
def test_both_judges_agree_on_what_is_equal(items: dict[str, Any], value: list[Any]) -> None:
    assert_judged_alike(Schema({"type": "array", "items": items, "uniqueItems": True}), value)


def test_both_judges_agree_on_large_bodies() -> None:
    """Where the first hundred failures of very many are compared."""
    for name, (schema, body) in WRONG.items():
        for size in (1, 99, 100, 101, 2500):
            assert_judged_alike(schema, body(size), name)
