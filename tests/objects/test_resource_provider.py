"""What the YAML suites cannot say about the provider side: cost, times, revisions, odd input."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from sqlalchemy import select, update

from placement.db import models
from tests.support import bodies
from tests.support.bodies import stock
from tests.support.client import Answer
from tests.support.databases import KINDS
from tests.support.recorder import recorded
from tests.support.service import Service, running
from tests.support.world import World

HOST = "11110000-0000-4000-8000-000000000001"
CHILD = "11110000-0000-4000-8000-000000000002"
OTHER = "11110000-0000-4000-8000-000000000003"
LONG_AGO = datetime(2020, 2, 29, 12, 0, 0)
STOCK = {"VCPU": 10, "DISK_GB": 10}


class Client(World):
    """Sends requests that must succeed, and looks at the database beside."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self.service = service
        self.db = service.db

    def revisions(self) -> dict[str, int]:
        """Return the revisions of all providers by uuid."""
        table = models.resource_providers
        rows = self.db.read(lambda reader: reader.rows(select(table.c.uuid, table.c.revision)))
        return {row[0]: row[1] for row in rows}

    def moved(self, method: str, path: str, body: Any = None, version: str = "1.39") -> set[str]:
        """Send a request and return the providers whose revision it moved."""
        before = self.revisions()
        self.call(method, path, body, version)
        after = self.revisions()
        assert all(after[uuid] >= before[uuid] for uuid in before.keys() & after.keys())
        return {uuid for uuid in before.keys() & after.keys() if after[uuid] != before[uuid]}

    def three_providers(self) -> None:
        """Make a host with a child, and another host."""
        for uuid, parent in ((HOST, None), (CHILD, HOST), (OTHER, None)):
            self.provider(uuid, parent, key=uuid)


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client of the service on an empty database of each kind."""
    with running(request.param) as service:
        yield Client(service)


COSTS = {
    # operation: statements between BEGIN and COMMIT
    "/resource_providers?name=x": 1,
    f"/resource_providers?uuid={HOST}": 1,
    f"/resource_providers?uuid={HOST}&name=x": 1,
    f"/resource_providers/{HOST}": 1,
    f"/resource_providers/{HOST}/inventories": 1,
    f"/resource_providers/{HOST}/inventories/VCPU": 1,
    f"/resource_providers/{HOST}/usages": 1,
    f"/resource_providers/{HOST}/aggregates": 1,
    f"/resource_providers/{HOST}/traits": 1,
    "/traits?name=startswith:HW&associated=true": 1,
    "/traits/HW_CPU_X86_AVX": 1,
    "/resource_classes": 1,
    "/resource_classes/VCPU": 1,
    "/usages?project_id=p": 1,
    "/usages?project_id=p&user_id=u&consumer_type=all": 1,
}


def test_statements_of_reads(client: Client) -> None:
    """The number does not depend on how many rows there are."""
    client.three_providers()
    for uuid in (HOST, CHILD, OTHER):
        client.set_inventory(uuid, STOCK)
    sent = {}
    for path in COSTS:
        with recorded(client.db) as statements:
            client.call("GET", path)
        sent[path] = len(statements)

    assert sent == COSTS


@pytest.mark.parametrize(
    "filters", ["", f"&in_tree={HOST}&member_of={HOST}&name=x", "&resources=VCPU:1,DISK_GB:1"]
)
def test_statements_of_lists(client: Client, filters: str) -> None:
    """One asks whether a provider changed; if one did, what is new takes five in one snapshot."""
    client.provider(HOST, inventory=STOCK, key=HOST)
    search = f"/resource_providers?{filters}"
    # Once to read everything, once to see that nothing moves any more.
    for _ in range(2):
        client.call("GET", search)

    with recorded(client.db) as unchanged:
        client.call("GET", search)
    # No provider has these, so the question is whether they exist.
    with recorded(client.db) as idle_names:
        client.call("GET", f"{search}&required=!HW_CPU_X86_AVX,!HW_CPU_X86_AVX2")
    client.set_inventory(HOST, STOCK)
    with recorded(client.db) as changed:
        client.call("GET", search)

    assert [len(each) for each in (unchanged, idle_names, changed)] == [1, 2, 6]


def traits(generation: int, *names: str) -> dict[str, Any]:
    """Return the body of a replacement."""
    return {"resource_provider_generation": generation, "traits": names}


def aggregates(generation: int, *uuids: str) -> dict[str, Any]:
    """Return the body of a replacement."""
    return {"resource_provider_generation": generation, "aggregates": uuids}


def test_statements_of_writes(client: Client) -> None:
    """In this order; a record, trait or aggregate more costs no statement more."""
    host = f"/resource_providers/{HOST}"
    root = {"name": "host", "uuid": HOST}
    below = {"name": "child", "uuid": CHILD, "parent_provider_uuid": HOST}
    moved = {"name": "child", "parent_provider_uuid": None}
    three = {"VCPU": 10, "DISK_GB": 10, "MEMORY_MB": 10}
    other = {"PCPU": 10, "VCPU": 9, "DISK_GB": 8}
    one = {"total": 10}
    steps: list[tuple[int, str, str, Any]] = [
        (5, "POST", "/resource_providers", root),
        (6, "POST", "/resource_providers", below),
        (5, "PUT", host, {"name": "renamed"}),
        (8, "PUT", f"/resource_providers/{CHILD}", moved),
        (7, "PUT", f"{host}/inventories", stock(0, three)),
        (10, "PUT", f"{host}/inventories", stock(1, other)),
        (5, "PUT", f"{host}/inventories", stock(2, other)),
        (5, "PUT", f"{host}/inventories/VCPU", one | {"resource_provider_generation": 3}),
        (5, "DELETE", f"{host}/inventories/VCPU", None),
        (6, "POST", f"{host}/inventories", one | {"resource_class": "VCPU"}),
        (5, "DELETE", f"{host}/inventories", None),
        (8, "PUT", f"{host}/aggregates", aggregates(7, HOST, CHILD)),
        (9, "PUT", f"{host}/aggregates", aggregates(8, OTHER)),
        (6, "PUT", f"{host}/traits", traits(9, "HW_CPU_X86_AVX", "HW_CPU_X86_AVX2")),
        (3, "PUT", f"{host}/traits", traits(10, "HW_CPU_X86_AVX", "HW_CPU_X86_AVX2")),
        (4, "DELETE", f"{host}/traits", None),
        (3, "PUT", "/traits/CUSTOM_A", None),
        (1, "PUT", "/traits/CUSTOM_A", None),
        (3, "DELETE", "/traits/CUSTOM_A", None),
        (4, "PUT", "/resource_classes/CUSTOM_A", None),
        (1, "PUT", "/resource_classes/CUSTOM_A", None),
        (3, "DELETE", "/resource_classes/CUSTOM_A", None),
        (8, "DELETE", host, None),
    ]
    sent = []
    for _, method, path, body in steps:
        with recorded(client.db) as statements:
            client.call(method, path, body)
        sent.append((len(statements), method, path, body))

    assert sent == steps


def test_inventory_that_is_there_is_refused_at_once(client: Client) -> None:
    """Without an attempt to write it, which the database would refuse again and again."""
    client.three_providers()
    path, body = f"/resource_providers/{HOST}/inventories", {"resource_class": "VCPU", "total": 10}
    client.call("POST", path, body)

    with recorded(client.db) as statements:
        answer = client.service.send("POST", path, body, "1.39")

    assert answer.status == 409
    assert len(statements) == 2


def test_a_thousand_providers_are_one_statement(client: Client) -> None:
    """With all their links."""
    rows = [{"uuid": f"{n:08x}-0000-4000-8000-000000000000", "name": f"n{n}"} for n in range(1000)]
    client.db.write(
        lambda tx: tx.connection.execute(models.resource_providers.insert().values(rows))
    )

    # Once to read everything, once to see that nothing moves any more.
    for _ in range(2):
        client.call("GET", "/resource_providers")

    with recorded(client.db) as statements:
        answer = client.call("GET", "/resource_providers")

    assert len(statements) == 1
    assert len(answer.json["resource_providers"]) == 1000
    assert len(answer.json["resource_providers"][999]["links"]) == 6


def test_revisions_follow_what_the_search_reads(client: Client) -> None:
    """The search keeps its picture by them: whom a write concerns, it reads again."""
    host = f"/resource_providers/{HOST}"
    client.three_providers()
    client.call("PUT", "/resource_classes/CUSTOM_A")
    only_host = {HOST}

    assert client.moved("PUT", f"{host}/inventories", stock(0, {"VCPU": 10})) == only_host
    one = {"total": 10, "resource_class": "CUSTOM_A"}
    assert client.moved("POST", f"{host}/inventories", one) == only_host
    replacement = {"total": 5, "resource_provider_generation": 2}
    assert client.moved("PUT", f"{host}/inventories/VCPU", replacement) == only_host
    assert client.moved("DELETE", f"{host}/inventories/VCPU") == only_host
    renamed = {"name": "CUSTOM_B"}
    assert client.moved("PUT", "/resource_classes/CUSTOM_A", renamed, "1.2") == only_host
    assert client.moved("DELETE", f"{host}/inventories") == only_host
    assert client.moved("PUT", f"{host}/aggregates", [HOST], "1.18") == only_host
    assert client.moved("PUT", f"{host}/aggregates", [HOST], "1.18") == set()
    assert client.moved("PUT", f"{host}/aggregates", aggregates(5, OTHER)) == only_host
    assert client.moved("PUT", f"{host}/traits", traits(6, "HW_CPU_X86_AVX")) == only_host
    assert client.moved("PUT", f"{host}/traits", traits(7, "HW_CPU_X86_AVX")) == set()
    assert client.moved("DELETE", f"{host}/traits") == only_host
    assert client.moved("DELETE", f"{host}/traits") == set()
    below = {"name": HOST, "parent_provider_uuid": OTHER}
    # The new parent's row is written too, which other nodes of a cluster then see.
    assert client.moved("PUT", host, below) == {HOST, CHILD, OTHER}
    alone = {"name": CHILD, "parent_provider_uuid": None}
    assert client.moved("PUT", f"/resource_providers/{CHILD}", alone) == {CHILD}
    # Lists with ``resources`` show the name, and a change to the same name is a modification.
    for _ in range(2):
        assert client.moved("PUT", host, {"name": "renamed"}) == only_host


def last_modified(answer: Answer) -> datetime:
    """Return the time of the header, without zone."""
    return parsedate_to_datetime(answer.headers["Last-Modified"]).replace(tzinfo=None)


def is_recent(answer: Answer) -> bool:
    """The header tells of this test."""
    return abs(models.now() - last_modified(answer)) < timedelta(minutes=1)


def age(client: Client, *tables: Any) -> None:
    """Let everything in the tables have happened long ago."""
    for table in tables:
        client.db.write(
            lambda tx, table=table: tx.connection.execute(
                update(table).values(created_at=LONG_AGO, updated_at=None)
            )
        )


def test_times_of_providers(client: Client) -> None:
    """Renames, moves of the provider or of what is above it, and generations are modifications."""
    host, child = f"/resource_providers/{HOST}", f"/resource_providers/{CHILD}"
    client.three_providers()

    def old() -> None:
        age(client, models.resource_providers)
        assert last_modified(client.call("GET", host)) == LONG_AGO
        assert last_modified(client.call("GET", f"/resource_providers?uuid={HOST}")) == LONG_AGO

    old()
    assert is_recent(client.call("PUT", host, {"name": "renamed"}))
    assert is_recent(client.call("GET", host))
    assert is_recent(client.call("GET", "/resource_providers"))
    assert last_modified(client.call("GET", child)) == LONG_AGO
    old()
    client.call("PUT", host, {"name": "renamed", "parent_provider_uuid": OTHER})
    assert is_recent(client.call("GET", child))
    old()
    client.call("PUT", f"{host}/inventories", stock(0, {}))
    assert is_recent(client.call("GET", host))
    old()
    client.call("PUT", f"{host}/aggregates", [OTHER], "1.18")
    assert last_modified(client.call("GET", host)) == LONG_AGO
    assert is_recent(client.call("GET", f"{host}/aggregates"))
    assert is_recent(client.call("GET", f"{host}/usages"))
    assert is_recent(client.call("GET", "/resource_providers?name=nobody"))


def test_times_of_inventories_traits_and_classes(client: Client) -> None:
    """Of the records and the traits themselves; a claim modifies no record."""
    host = f"/resource_providers/{HOST}"
    client.provider(HOST, None, STOCK, ["HW_CPU_X86_AVX"], key=HOST)
    age(client, models.inventories, models.traits, models.resource_classes)

    assert last_modified(client.call("GET", f"{host}/inventories")) == LONG_AGO
    assert last_modified(client.call("GET", f"{host}/traits")) == LONG_AGO
    assert last_modified(client.call("GET", "/traits")) == LONG_AGO
    assert last_modified(client.call("GET", "/traits/HW_CPU_X86_AVX")) == LONG_AGO
    assert last_modified(client.call("GET", "/resource_classes")) == LONG_AGO
    assert last_modified(client.call("GET", "/resource_classes/VCPU")) == LONG_AGO
    assert is_recent(client.call("GET", "/traits?name=in:CUSTOM_NO"))
    client.call("PUT", f"/allocations/{OTHER}", bodies.entry({HOST: {"VCPU": 1}}))
    assert last_modified(client.call("GET", f"{host}/inventories")) == LONG_AGO
    one = {"total": 5, "resource_provider_generation": 3}
    assert is_recent(client.call("PUT", f"{host}/inventories/VCPU", one))
    assert is_recent(client.call("GET", f"{host}/inventories/VCPU"))
    assert last_modified(client.call("GET", f"{host}/inventories/DISK_GB")) == LONG_AGO
    assert is_recent(client.call("GET", f"{host}/inventories"))
    assert is_recent(client.call("PUT", "/traits/CUSTOM_A"))
    assert is_recent(client.call("GET", "/traits"))


ODD_NAMES = {
    "/resource_providers/%00": 404,
    "/resource_providers/%F0%9F%90%8D/inventories": 404,
    f"/resource_providers/{HOST}/inventories/%00": 404,
    f"/resource_providers/{HOST}/inventories/{'A' * 1000}": 404,
    "/traits/%00": 404,
    "/resource_classes/%00": 404,
    "/resource_providers?name=%00": 400,
    "/resource_providers?name=" + "x" * 300: 200,
    "/resource_providers?required=%00": 400,
    "/resource_providers?required=%F0%9F%90%8D": 400,
    "/resource_providers?resources=%F0%9F%90%8D:1": 400,
    "/resource_providers?resources=VCPU:" + "9" * 5000: 200,
    f"/resource_providers?member_of=urn:uuid:{HOST}": 200,
    "/traits?name=in:%F0%9F%90%8D": 200,
    "/traits?name=startswith:%F0%9F%90%8D": 200,
    "/traits?name=in:%00": 400,
    "/usages?project_id=%F0%9F%90%8D": 200,
    "/usages?project_id=%00": 400,
}


def test_odd_names_in_paths_and_queries(client: Client) -> None:
    """They name nothing; no database is asked what it cannot understand."""
    client.provider(HOST, key=HOST)

    assert {path: client.service.send("GET", path).status for path in ODD_NAMES} == ODD_NAMES


def test_long_lists_of_traits_and_aggregates(client: Client) -> None:
    """Longer than the number of parameters that SQLite takes by default."""
    client.provider(HOST, key=HOST)
    host = f"/resource_providers/{HOST}"
    many = [f"{n:032x}" for n in range(40_000)]

    answer = client.service.send("PUT", f"{host}/aggregates", aggregates(0, *many[:3000]))
    assert answer.status == 200, answer.text
    answer = client.service.send("PUT", f"{host}/aggregates", aggregates(1, *many))
    assert answer.status in (200, 400, 413), answer.text
    answer = client.service.send("PUT", f"{host}/traits", traits(client.generation(HOST), *many))
    assert answer.status in (400, 413), answer.text


CONSUMER = "22220000-0000-4000-8000-000000000001"
TIMED_READS = (
    "/resource_providers",
    "/resource_providers?resources=VCPU:1",
    f"/resource_providers/{HOST}",
    f"/resource_providers/{HOST}/inventories",
    f"/resource_providers/{HOST}/inventories/VCPU",
    f"/resource_providers/{HOST}/traits",
    f"/resource_providers/{HOST}/allocations",
    f"/allocations/{CONSUMER}",
    "/traits",
    "/traits/HW_CPU_X86_AVX",
    "/resource_classes",
    "/resource_classes/VCPU",
)


def test_rows_without_times_are_of_now(client: Client) -> None:
    """The columns may be empty in a database that is taken over (specification 01 section 10)."""
    client.provider(HOST, None, STOCK, ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"], key=HOST)
    client.provider(OTHER, key=OTHER)
    held = bodies.entry_1_12({HOST: {"VCPU": 1, "DISK_GB": 1}})
    client.call("PUT", f"/allocations/{CONSUMER}", held, "1.12")
    for table in models.whole_metadata().tables.values():
        if "updated_at" in table.c:
            never = update(table).values(created_at=None, updated_at=None)
            client.db.write(lambda tx, never=never: tx.connection.execute(never))

    before = models.now().replace(microsecond=0)
    for path in TIMED_READS:
        answer = client.call("GET", path)
        assert answer.headers["cache-control"] == "no-cache"
        assert last_modified(answer) >= before, path
