"""Nothing that a client sends makes a 500, and every error has the one format (specification 01 section 9.1).

Requests are random over all routes and microversions, built from a vocabulary that lets some of them
get past each check. A failing example is printed whole and can be replayed with its blob.
"""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import webob
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placement import routes
from tests.support.databases import KINDS
from tests.support.effort import examples
from tests.support.service import Service, running
from tests.support.world import World

UUID = "0fa85f64-5717-4562-b3fc-2c963f66afa6"
CHILD = "1fa85f64-5717-4562-b3fc-2c963f66afa6"
CONSUMER = "2fa85f64-5717-4562-b3fc-2c963f66afa6"
UUIDS = [UUID, CHILD, CONSUMER, UUID.upper(), UUID.replace("-", ""), "{" + UUID + "}", "x" * 36]
NAMES = ["VCPU", "MEMORY_MB", "CUSTOM_A", "HW_CPU_X86_VMX", "CUSTOM_", "CUSTOM_a", "CUSTOM_A\n"]
ODD = ["", " ", "\0", "ü", "🐴", "%", "'; DROP TABLE traits; --", "x" * 300, "<b>", "{0}", "\u2028"]
NUMBERS = [
    0, 1, -1, 2.0, 2.5, 2**31 - 1, 2**31, 2**63, 2**64, 10**30, 1e300, -1e308, 5e-324, True, None,
]  # fmt: skip
MEMBERS = [
    "name", "uuid", "parent_provider_uuid", "generation", "total", "reserved", "min_unit", "max_unit",
    "step_size", "allocation_ratio", "resource_class", "resource_provider_generation", "inventories",
    "aggregates", "traits", "allocations", "resources", "resource_provider", "project_id", "user_id",
    "consumer_generation", "consumer_type", "mappings", "",
]  # fmt: skip
PARAMETERS = [
    "name", "uuid", "member_of", "resources", "in_tree", "required", "limit", "group_policy",
    "root_required", "same_subtree", "resources1", "required1", "member_of1", "in_tree1",
    "resources_A", "required_A", "project_id", "user_id", "consumer_type", "associated", "x", "",
]  # fmt: skip
QUERY_VALUES = [
    "VCPU:1", "VCPU:1,MEMORY_MB:2", "VCPU:99999999999999999999", "VCPU:0", "VCPU", "CUSTOM_X:1", UUID,
    f"in:{UUID},{CHILD}", f"!in:{UUID}", f"!{UUID}", "in:", "!", "!in:", "CUSTOM_A", "!CUSTOM_A",
    "in:CUSTOM_A,CUSTOM_B", "isolate", "none", "1", "0", "99999999999999999999", "_A", "1,_A", ",",
    "true", "startswith:CUSTOM", "in:CUSTOM_A", "all", "unknown", "\n", "CUSTOM_A\n",
]  # fmt: skip
ACCEPTS = [
    "application/json", "text/html", "*/*;q=0.8", "text/plain", "a;b=", "application/json;q=0",
]  # fmt: skip
STATUSES = {400, 404, 405, 406, 409, 415}
"""What an admin who is told who he is can be refused with."""

words = st.sampled_from(UUIDS + NAMES + ODD)
names_of_members = st.sampled_from(MEMBERS * 3 + UUIDS + NAMES + ODD)
texts = words | st.text(max_size=12)
floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.one_of(texts, st.sampled_from(NUMBERS), st.integers(), floats)
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(names_of_members, inner, max_size=5)
    ),
    max_leaves=12,
)


def mostly(usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return what draws from ``odd`` once in ten times."""
    return st.integers(0, 9).flatmap(lambda number: usual if number else odd)


sizes = mostly(st.integers(1, 50), st.sampled_from(NUMBERS))
ratios = st.one_of(sizes, st.floats(min_value=-3e38, max_value=3.4e38))
classes = mostly(st.sampled_from(NAMES[:3]), texts)
amounts = st.dictionaries(classes, sizes, min_size=1, max_size=2)
inventory = st.fixed_dictionaries(
    {"total": sizes},
    optional={
        "reserved": sizes,
        "max_unit": sizes,
        "step_size": sizes,
        "allocation_ratio": ratios,
        "resource_class": classes,
        "resource_provider_generation": st.sampled_from([0, 1, 2, 0.0, None]),
    },
)
generation = {"resource_provider_generation": mostly(st.integers(0, 3), st.just(2**40))}
inventories = st.fixed_dictionaries(
    generation | {"inventories": st.dictionaries(classes, inventory, max_size=2)}
)
consumer = st.fixed_dictionaries(
    {
        "allocations": st.dictionaries(
            st.sampled_from(UUIDS), st.fixed_dictionaries({"resources": amounts}), max_size=2
        ),
        "project_id": st.sampled_from(["p", *ODD]),
        "user_id": st.sampled_from(["u", *ODD]),
    },
    optional={
        "consumer_generation": st.sampled_from([None, 0, 1, 2**40]),
        "consumer_type": st.sampled_from(["INSTANCE", *NAMES]),
    },
)
consumers = st.dictionaries(st.sampled_from(UUIDS), consumer, max_size=2)
lists = st.lists(texts, max_size=3)
provider = st.fixed_dictionaries(
    {"name": texts}, optional={"uuid": words, "parent_provider_uuid": words}
)
reshapes = st.fixed_dictionaries(
    {
        "inventories": st.dictionaries(st.sampled_from(UUIDS), inventories, max_size=2),
        "allocations": consumers,
    }
)
BODIES: dict[str, st.SearchStrategy[Any]] = {
    "/resource_classes": st.fixed_dictionaries({"name": words}),
    "/resource_classes/{name}": st.fixed_dictionaries({"name": words}),
    "/resource_providers": provider,
    routes.PROVIDER: provider,
    routes.PROVIDER + "/inventories": st.one_of(inventories, inventory),
    routes.PROVIDER + "/inventories/{resource_class}": inventory,
    routes.PROVIDER + "/aggregates": st.one_of(
        lists, st.fixed_dictionaries(generation | {"aggregates": lists})
    ),
    routes.PROVIDER + "/traits": st.fixed_dictionaries(generation | {"traits": lists}),
    "/allocations": consumers,
    "/allocations/{consumer_uuid}": consumer,
    "/reshaper": reshapes,
}
raw_bodies = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([b"NaN", b"[" * 5000, b"1e999", b"9" * 5000, b'"\\ud800"']),
)

pieces = st.sampled_from(["VCPU", ":", "1", ",", "in:", "!", UUID, "-1", "+", "CUSTOM_A", "all"])
parts = st.lists(pieces, max_size=6).map("".join)
queries = st.lists(
    st.tuples(st.sampled_from(PARAMETERS), st.one_of(st.sampled_from(QUERY_VALUES), words, parts)),
    max_size=4,
).map(lambda pairs: "&".join(f"{quote(n)}={quote(v)}" for n, v in pairs))
raw_queries = st.text(st.characters(max_codepoint=255), max_size=20)
versions = st.integers(0, 39).map(lambda minor: f"placement 1.{minor}")
odd_versions = st.sampled_from(["placement 1.40", "placement x", "", "\xff, ,"])
odd_segments = st.one_of(words, st.text(st.characters(max_codepoint=255), min_size=1, max_size=8))
SEGMENTS = {"{uuid}": st.sampled_from(UUIDS[:2]), "{consumer_uuid}": st.sampled_from(UUIDS)}


@st.composite
def requests(draw: Any) -> webob.Request:
    """Return a request that mostly gets past the checks before the handler."""
    template = draw(st.sampled_from(list(routes.ROUTES)))
    method = draw(
        mostly(st.sampled_from(list(routes.ROUTES[template])), st.sampled_from(["GET", "BREW"]))
    )
    path = "/".join(
        draw(mostly(SEGMENTS.get(part, st.sampled_from(NAMES)), odd_segments))
        if part.startswith("{")
        else part
        for part in template.split("/")
    )
    values = mostly(BODIES.get(template, trees), trees).map(lambda v: json.dumps(v).encode())
    sent = webob.Request.blank(
        "/",
        {
            "PATH_INFO": path.encode("utf-8", "replace").decode("latin-1"),
            "QUERY_STRING": draw(mostly(queries, raw_queries)),
            "CONTENT_TYPE": draw(
                mostly(st.just("application/json"), st.sampled_from(["", "\xff"]))
            ),
            "HTTP_ACCEPT": draw(mostly(st.just("application/json"), st.sampled_from(ACCEPTS))),
            "HTTP_OPENSTACK_API_VERSION": draw(
                mostly(st.one_of(versions, st.just("placement latest")), odd_versions)
            ),
            "HTTP_X_AUTH_TOKEN": "admin",
            "HTTP_X_ROLES": "admin,service",
        },
        method=method,
    )
    sent.body = draw(mostly(values, raw_bodies))
    return sent


@pytest.fixture(scope="module", params=KINDS)
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    with running(request.param) as made:
        for uuid, name, parent in [(UUID, "a", None), (CHILD, "b", UUID)]:
            World(made).provider(name, parent, key=uuid)
        yield made


SHOWN = (
    "REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "CONTENT_TYPE", "HTTP_ACCEPT",
    "HTTP_OPENSTACK_API_VERSION",
)  # fmt: skip


def check(response: webob.Response, context: object) -> None:
    """The response is none of the server's own failures, and its error is a proper one."""
    assert response.status_int < 400 or response.status_int in STATUSES, (response.text, context)
    assert response.headers["x-openstack-request-id"].startswith("req-")
    if response.status_int < 400:
        return
    kind = response.headers["content-type"]
    assert kind in ("application/json", "text/html; charset=UTF-8", "text/plain; charset=UTF-8")
    if kind != "application/json":
        assert str(response.status_int) in response.text
        return
    [error] = json.loads(response.body)["errors"]
    assert error["status"] == response.status_int
    assert error["title"] == response.status.split(" ", 1)[1]
    assert error["request_id"] == response.headers["x-openstack-request-id"]
    assert error["detail"].count("\n") == 2
    assert len(response.body) < 20_000


@settings(
    max_examples=examples(1000),
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
@given(sent=requests())
def test_no_request_makes_a_500(service: Service, sent: webob.Request) -> None:
    """And what a write has left can be shown."""
    context = {name: sent.environ.get(name) for name in SHOWN} | {"body": sent.body}
    check(sent.get_response(service.application), context)
    if sent.method in ("POST", "PUT"):
        shown = service.request("GET", f"/resource_providers/{UUID}/inventories", version="1.39")
        assert shown.status_int in (200, 404), (shown.text, context)
