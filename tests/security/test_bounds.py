"""What is too much is refused at once, what is legal is answered within bounds, and memory stays flat.

PROMISE 9. The corpus in ``corpus.json`` holds requests that once looked dangerous; each is sent at every
microversion.
"""

import gc
import io
import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import os_traits
import pytest
import webob

from placement.db.statements import MOST
from tests.support import bodies, recorder
from tests.support.databases import KINDS
from tests.support.effort import in_one_process
from tests.support.processes import PATIENCE
from tests.support.service import Service, running
from tests.support.world import World

HOSTS = 40
MEGABYTE = 1 << 20

pytestmark = pytest.mark.timeout(240 * PATIENCE)
"""Per test, generous for a shared machine: what is meant is neither minutes nor for ever."""

CORPUS = json.loads((Path(__file__).parent / "corpus.json").read_text())


@pytest.fixture(scope="module", params=in_one_process("bounds", *KINDS))
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """A small cloud: hosts with two classes and traits, each with two children of another class."""
    with running(request.param) as made:
        world = World(made)
        for number in range(HOSTS):
            host = uuid(number, 0)
            world.host(host, VCPU=64, MEMORY_MB=4096)
            for child in (1, 2):
                key = uuid(number, child)
                world.provider(parent=host, inventory={"SRIOV_NET_VF": 64}, key=key)
        yield made


sqlite_alone = pytest.mark.parametrize("service", in_one_process("bounds", "sqlite"), indirect=True)
"""For what no database sees: a body that is refused, a search in memory, what is remembered."""


def uuid(number: int, child: int) -> str:
    """Return the uuid of a host, or of one of its children."""
    return f"10000000-0000-4000-8000-{number:06}{child:06}"


def send(
    service: Service, method: str, path: str, body: bytes = b"", **more: str
) -> webob.Response:
    """Send a request as it is and see that the answer is not 500."""
    sent = webob.Request.blank("/", method=method)
    sent.environ["PATH_INFO"], _, sent.environ["QUERY_STRING"] = path.partition("?")
    sent.body = body
    sent.environ |= {
        "HTTP_X_AUTH_TOKEN": "admin",
        "HTTP_X_ROLES": "admin,service",
        "HTTP_OPENSTACK_API_VERSION": "placement 1.39",
        "CONTENT_TYPE": "application/json",
        **more,
    }
    response = sent.get_response(service.application)
    text = response.body
    assert response.status_int < 500, (method, path[:100], text[:500])
    return response


def nested(depth: int, opening: str, closing: str) -> bytes:
    """Return JSON of this depth."""
    return (opening * depth + "1" + closing * depth).encode()


@sqlite_alone
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b" " * (8 * MEGABYTE + 1), 413),
        (b'{"name": "' + b"x" * (8 * MEGABYTE) + b'"}', 413),
        (b'{"name": "' + b"x" * (7 * MEGABYTE) + b'"}', 400),
        (nested(100_000, "[", "]"), 400),
        (nested(800_000, '{"name":', "}"), 400),
        (nested(900, '{"name":', "}"), 400),
        (b'{"name": ' + b"9" * MEGABYTE + b"}", 400),
        (b'{"name": -1e' + b"9" * 1000 + b"}", 400),
        (b'{"name": 1' + b"0" * 5000 + b"}", 400),
        (b'{"name": "a", ' + b",".join(b'"k%d": 1' % n for n in range(200_000)) + b"}", 400),
        (b'{"name": "a", ' + b'"name": "a", ' * 200_000 + b'"name": "a"}', 200),
        (b'{"name": "\\ud83d"}', 400),
        (b"\xff\xfe" * MEGABYTE, 400),
        (b'["' + b"\\u0000" * 500_000 + b'"]', 400),
    ],
    ids=range(14),
)
def test_a_body_that_is_too_much_is_refused(service: Service, body: bytes, status: int) -> None:
    response = send(service, "POST", "/resource_providers", body)

    assert response.status_int == status, response.text[:300]
    assert len(response.body) < 5000
    if status == 200:
        send(service, "DELETE", f"/resource_providers/{response.json['uuid']}")


@sqlite_alone
def test_a_body_without_end_is_read_no_further_than_allowed(service: Service) -> None:
    """Chunked bodies announce no length."""

    class Endless(io.RawIOBase):
        given = 0

        def read(self, size: int = -1) -> bytes:
            assert size >= 0, "somebody reads to the end"
            self.given += size
            return b" " * size

    endless = Endless()
    more: Any = {"wsgi.input": endless, "wsgi.input_terminated": True}
    sent = webob.Request.blank("/resource_providers", method="POST")
    sent.environ |= {"HTTP_X_AUTH_TOKEN": "admin", "CONTENT_TYPE": "application/json", **more}
    sent.environ.pop("CONTENT_LENGTH", None)

    assert sent.get_response(service.application).status_int == 413
    assert endless.given <= 8 * MEGABYTE + 1


def groups(count: int, text: str = "VCPU:1") -> str:
    """Return a query of so many groups."""
    return "&".join(f"resources{number}={text}" for number in range(1, count + 1))


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("x" * 1_000_000, 414),
        ("name=" + "%41" * 333_333, 414),
        ("&" * 1_000_000, 414),
        ("name=" + "a" * 60_000, 200),
        ("name=a" + "&name=a" * 9000, 200),
        ("member_of=in:" + ",".join([uuid(1, 1)] * 1700), 200),
        ("resources=VCPU:" + "9" * 60_000, 200),
        ("required=in:" + ",".join(["HW_CPU_X86_VMX"] * 4000), 200),
        ("&".join(f"required=!CUSTOM_{n}" for n in range(3000)), 400),
        ("required=" + ",".join(os_traits.get_traits()), 200),
        ("&".join(f"required=in:{name},HW_CPU_X86_VMX" for name in os_traits.get_traits()), 200),
        ("&".join(f"member_of=in:{uuid(n, 1)},{uuid(n, 2)}" for n in range(700)), 200),
    ],
    ids=range(12),
)
def test_a_long_query_is_refused_or_answered(service: Service, query: str, status: int) -> None:
    response = send(service, "GET", f"/resource_providers?{query}")

    assert response.status_int == status, response.text[:300]
    assert len(response.body) < 70_000


def test_room_of_very_many_classes_is_looked_for(service: Service) -> None:
    """No database could join an inventory for each of them: SQLite stops at 64, MariaDB at 61."""
    names = [f"CUSTOM_{number}" for number in range(80)]
    for name in names:
        send(service, "PUT", f"/resource_classes/{name}")
    query = ",".join(f"{name}:1" for name in names)

    response = send(service, "GET", f"/resource_providers?resources={query}")

    assert response.json == {"resource_providers": []}


@sqlite_alone
@pytest.mark.parametrize(
    ("query", "status", "found"),
    [
        (groups(10_000) + "&group_policy=none", 414, 0),
        (groups(3000, "VCPU:1") + "&group_policy=none", 400, 0),
        (groups(257) + "&group_policy=none", 400, 0),
        # 256 groups on the 64 units of a host, 256 on the 128 of its children, 64 on two children.
        (groups(256) + "&group_policy=isolate&limit=1", 200, 0),
        (groups(256, "SRIOV_NET_VF:1") + "&group_policy=none&limit=10", 200, 0),
        (groups(64, "SRIOV_NET_VF:1") + "&group_policy=isolate&limit=10", 200, 0),
        (groups(16, "SRIOV_NET_VF:1") + "&group_policy=none&limit=1000", 200, 1000),
        (groups(40, "SRIOV_NET_VF:2") + "&resources=VCPU:64&group_policy=none&limit=1", 200, 1),
        ("resources=VCPU:1" + "".join(f"&same_subtree=_{n},_{n + 1}" for n in range(2000)), 400, 0),
        ("resources=VCPU:1&limit=" + "9" * 4000, 200, HOSTS),
        ("resources=" + ",".join(["VCPU:1"] * 5000), 200, HOSTS),
        ("resources=VCPU:1&required=" + ",".join(["!HW_CPU_X86_VMX"] * 3000), 200, HOSTS),
    ],
    ids=range(12),
)
def test_pathological_candidate_requests_end(
    service: Service, query: str, status: int, found: int
) -> None:
    """Some are refused for their size; the legal ones are answered without trying everything."""
    response = send(service, "GET", f"/allocation_candidates?{query}")

    assert response.status_int == status, response.text[:300]
    if status == 200:
        assert len(response.json["allocation_requests"]) == found


def test_a_very_large_claim_is_answered(service: Service) -> None:
    """Thousands of entries that name what does not exist cost one look, not thousands."""
    sets = {f"20000000-0000-4000-8000-{n:012}": {"VCPU": 1} for n in range(20_000)}
    body = json.dumps(bodies.entry(sets)).encode()
    with recorder.recorded(service.db) as statements:
        response = send(service, "PUT", f"/allocations/{uuid(9, 9)}", body)

    assert response.status_int == 400, response.text[:300]
    assert f"resource provider '{next(iter(sets))}' that does not exist" in response.text
    assert service.request("GET", f"/allocations/{uuid(9, 9)}").json["allocations"] == {}
    assert len(statements) == len(sets) / MOST


@pytest.mark.parametrize("number", range(len(CORPUS)))
def test_the_corpus_at_every_microversion(service: Service, number: int) -> None:
    """``repeat``: a word of the body or path that is written so many times."""
    case = CORPUS[number]
    body, path = case.get("body", ""), case["path"]
    for word, times in case.get("repeat", {}).items():
        body, path = body.replace(word, word[1:-1] * times), path.replace(word, word[1:-1] * times)
    for minor in range(40):
        version = {"HTTP_OPENSTACK_API_VERSION": f"placement 1.{minor}"}
        response = send(service, case["method"], path, body.encode(), **version)
        if response.status_int >= 400:
            [error] = response.json["errors"]
            assert error["status"] == response.status_int


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / MEGABYTE


@sqlite_alone
def test_memory_stays_flat_under_refused_and_odd_requests(service: Service) -> None:
    """Names, versions, roles and queries that never come twice fill no cache for good."""

    def burst(first: int, count: int) -> None:
        for number in range(first, first + count):
            more = {
                "HTTP_ACCEPT": f"text/x{number}, application/json",
                "HTTP_X_ROLES": f"role{number},admin",
            }
            send(service, "GET", f"/traits/CUSTOM_{number}", **more)
            names = f"name=n{number}&required=CUSTOM_{number}"
            send(service, "GET", f"/resource_providers?{names}", **more)
            send(service, "GET", f"/allocation_candidates?resources_{number}=VCPU:1", **more)
            send(service, "POST", "/resource_classes", f'{{"name": "x{number}"}}'.encode(), **more)

    burst(0, 300)
    gc.collect()
    before = _resident_mb()
    burst(1000, 900)
    gc.collect()
    assert _resident_mb() - before < 15


def test_memory_stays_flat_under_dear_requests_of_insight() -> None:
    """Claims, what-if and explain of names that never come twice leave nothing behind."""
    hard = [f"resources_{n}=SRIOV_NET_VF:3&required_{n}=HW_GPU_API_VULKAN" for n in range(4)]

    def burst(service: Service, first: int, count: int) -> None:
        for number in range(first, first + count):
            query = "&".join([*hard, f"resources=MEMORY_MB:{number + 1}", "group_policy=none"])
            racks = [uuid(number, rack) for rack in range(1000)]
            rule = {"rule": "apart", "level": "aggregate", "of": racks}
            claims = [
                {
                    "consumer_uuid": uuid(number, 1000 + each),
                    "consumer_generation": None,
                    "project_id": f"p{number}",
                    "user_id": f"u{number}",
                    "consumer_type": "INSTANCE",
                    "query": f"resources=VCPU:{each + 1}&{query}",
                    "groups": [f"g{number}_{each}"],
                }
                for each in range(8)
            ]
            groups = {f"g{number}_{each}": rule for each in range(8)}
            claimed = json.dumps({"claims": claims, "groups": groups}).encode()
            changes = [{"place": f"resources=VCPU:{each + 1}", "times": 3} for each in range(5)]
            tried = json.dumps({"changes": changes, "query": query}).encode()
            for method, path, body, statuses in (
                ("POST", "/-/claims", claimed, {409}),
                ("POST", "/-/what-if", tried, {200}),
                ("GET", f"/-/explain?{query}", b"", {200}),
            ):
                assert send(service, method, path, body).status_int in statuses

    with running(insight__enabled=True, api__search_deadline=600) as service:
        for number in range(8):
            host = World(service).host(uuid(number, 0), VCPU=64, MEMORY_MB=4096)
            World(service).provider(parent=host, inventory={"SRIOV_NET_VF": 64})
        burst(service, 0, 10)
        gc.collect()
        before = _resident_mb()
        burst(service, 1000, 40)
        gc.collect()
        assert _resident_mb() - before < 15
