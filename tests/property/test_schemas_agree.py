"""Both judges of bodies agree, for every schema: in the verdict and in all that is said of it."""

import importlib
import pkgutil
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from placement import schemas
from placement.schemas.windows import Windows
from placement.web import judge
from placement.web.validation import Schema
from tests.property import test_http_fuzz as vocabulary
from tests.support.effort import examples
from tests.unit.web.test_large_bodies import WRONG

pytest.importorskip("jsonschema_rs")


def every_schema() -> dict[str, Schema]:
    found = {}
    modules = [f"placement.schemas.{each.name}" for each in pkgutil.iter_modules(schemas.__path__)]
    for module_name in [*modules, "placement.insight.schemas", "placement.claims.schemas"]:
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


fuzzed = settings(
    max_examples=examples(1500),
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


@fuzzed
@given(instance=instances, pick=st.sampled_from(sorted(SCHEMAS)))
def test_both_judges_agree(instance: Any, pick: int) -> None:
    """In the words, the keyword and the field as well as in the verdict."""
    name, schema = SCHEMAS[pick]
    assert_judged_alike(schema, instance, name)


def assert_judged_alike(schema: Schema, instance: Any, name: str = "") -> None:
    """Compare what the service says with jsonschema-rs and without it."""
    both = schema.failure(instance)
    accepted = schema._accepts is not None and schema._accepts(instance)
    assert accepted is (both is None), (name, instance)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(judge, "jsonschema_rs", None)
        plain = Schema(schema.document)
        plain._validator = schema._validator
        alone = plain.failure(instance)
    assert alone == both, (name, instance)
    if both is not None and alone is not None:
        assert (alone.keyword, alone.field) == (both.keyword, both.field)


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


@pytest.mark.parametrize("value", [[1, True], [1, 1.0], [{"a": 1}, {"a": 1.0}], [[], {}], ["a", "a"]])
@pytest.mark.parametrize("items", [{}, {"type": "string"}])
def test_both_judges_agree_on_what_is_equal(items: dict[str, Any], value: list[Any]) -> None:
    assert_judged_alike(Schema({"type": "array", "items": items, "uniqueItems": True}), value)


def test_both_judges_agree_on_large_bodies() -> None:
    """Where the first hundred failures of very many are compared."""
    for name, (schema, body) in WRONG.items():
        for size in (1, 99, 100, 101, 2500):
            assert_judged_alike(schema, body(size), name)
