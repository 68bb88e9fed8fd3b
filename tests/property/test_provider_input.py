"""Whatever is sent to the provider side, the answer is one of the API's and nothing is half done."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.databases import KINDS, require
from tests.support.effort import examples
from tests.support.service import Service, running
from tests.support.world import World

HOST = "11110000-0000-4000-8000-000000000001"

names = st.sampled_from(
    [
        "VCPU",
        "CUSTOM_A",
        "CUSTOM_NO",
        "HW_CPU_X86_AVX",
        "x",
        "",
        HOST,
        HOST.upper(),
        "in:",
        "!",
        ",",
    ]
) | st.text(max_size=12)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | names
    | st.sampled_from([0, 1, -1, 2**31 - 1, 2**31, 2**63, 10**30, 1.0, -1e308, 3.40282e38, 5e-324])
)
FIELDS = [
    "name",
    "uuid",
    "parent_provider_uuid",
    "resource_provider_generation",
    "inventories",
    "aggregates",
    "traits",
    "resource_class",
    "total",
    "reserved",
    "min_unit",
    "max_unit",
    "step_size",
    "allocation_ratio",
]
keys = st.sampled_from(FIELDS) | names
bodies = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5)
)
# Close to what is right, so that what follows the schema is reached as well.
records = st.fixed_dictionaries(
    {"total": st.sampled_from([1, 10.0, 2**31 - 1])},
    optional={
        "reserved": st.sampled_from([0, 1, 2**31 - 1]),
        "allocation_ratio": st.floats(min_value=-3e38, max_value=3.4e38),
        "max_unit": scalars,
    },
)
near = st.fixed_dictionaries(
    {},
    optional={
        "resource_provider_generation": st.sampled_from([0, 1, 0.0, -1, 10**25]),
        "inventories": st.dictionaries(names, records | scalars, max_size=3),
        "traits": st.lists(names, max_size=3),
        "aggregates": st.lists(names, max_size=3),
        "name": names,
        "parent_provider_uuid": names,
    },
) | records.map(lambda record: {**record, "resource_class": "VCPU"})
minors = st.sampled_from([0, 1, 4, 6, 7, 13, 14, 18, 19, 22, 24, 26, 32, 36, 37, 38, 39])
writes = st.sampled_from(
    [
        ("POST", "/resource_providers"),
        ("PUT", f"/resource_providers/{HOST}"),
        ("POST", f"/resource_providers/{HOST}/inventories"),
        ("PUT", f"/resource_providers/{HOST}/inventories"),
        ("PUT", f"/resource_providers/{HOST}/inventories/VCPU"),
        ("PUT", f"/resource_providers/{HOST}/aggregates"),
        ("PUT", f"/resource_providers/{HOST}/traits"),
        ("POST", "/resource_classes"),
        ("PUT", "/resource_classes/CUSTOM_A"),
    ]
)
PARAMETERS = [
    "name",
    "uuid",
    "member_of",
    "resources",
    "in_tree",
    "required",
    "associated",
    "project_id",
    "user_id",
    "consumer_type",
    "x",
]
parts = st.lists(
    st.sampled_from(["VCPU", ":", "1", ",", "in:", "!", HOST, "-1", "+", " ", "CUSTOM_A", "all"])
    | st.text(max_size=4),
    max_size=6,
).map("".join)
queries = st.lists(st.tuples(st.sampled_from(PARAMETERS), parts), max_size=4)
reads = st.sampled_from(["/resource_providers", "/traits", "/usages"])
GIVEN = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module", params=KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """The service with one provider."""
    require(request.param)
    with running(request.param) as made:
        World(made).provider("host", key=HOST)
        yield made


def is_answer(answer: Any) -> bool:
    """The status is one that the API gives, and an error is one document of it."""
    if answer.status_int < 400:
        return True
    (error,) = answer.json["errors"]
    return error["status"] == answer.status_int and answer.status_int in (400, 404, 405, 409)


@GIVEN
@given(write=writes, minor=minors, body=bodies | near)
def test_bodies(service: Service, write: tuple[str, str], minor: int, body: Any) -> None:
    """No body of JSON, right or wrong, surprises a write."""
    method, path = write
    answer = service.request(
        method, path, version=f"1.{minor}", content_type="application/json", json=body
    )

    assert is_answer(answer), answer.text
    shown = service.request("GET", f"/resource_providers/{HOST}/inventories", version="1.39")
    assert shown.status_int == 200


@GIVEN
@given(path=reads, minor=minors, query=queries)
def test_queries(service: Service, path: str, minor: int, query: list[tuple[str, str]]) -> None:
    """No query string surprises a list."""
    text = "&".join(f"{name}={quote(value, errors='surrogatepass')}" for name, value in query)
    answer = service.request("GET", f"{path}?{text}", version=f"1.{minor}")

    assert is_answer(answer), answer.text
