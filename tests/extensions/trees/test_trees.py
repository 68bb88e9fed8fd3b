"""Tags of whole trees: they move with everything that is shown, and cost one statement (07 section 5)."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from placement.db import models, online_migrations
from placement.db.online_migrations import IncompleteIds
from tests.support import databases, recorder
from tests.support.service import Service, running
from tests.support.world import World

HOST, CELL, OTHER = (f"1f000000-0000-4000-8000-00000000000{n}" for n in (1, 2, 3))
SERVER, VOLUME = (f"ca000000-0000-4000-8000-00000000000{n}" for n in (1, 2))
AGGREGATE = "a0000000-0000-4000-8000-000000000001"


@pytest.fixture(params=databases.KINDS)
def place(request: pytest.FixtureRequest) -> Iterator[Service]:
    """A host with a cell, another tree beside it, and a consumer on the cell."""
    with running(request.param, insight__enabled=True) as service:
        for uuid, name, parent in ((HOST, "host", None), (CELL, "cell", HOST), (OTHER, "o", None)):
            World(service).provider(name, parent, key=uuid)
        for uuid in (CELL, OTHER):
            stock(service, uuid, total=8)
        claim(service, SERVER, generation=None)
        yield service


def stock(service: Service, uuid: str, **record: Any) -> None:
    World(service).replace(uuid, "inventories", {"VCPU": record})


def claim(
    service: Service, consumer: str, generation: int | None = 1, amount: int = 2, **more: str
) -> None:
    World(service).claim({CELL: {"VCPU": amount}}, consumer, generation, **more)


def links(service: Service, relation: str, values: list[str]) -> None:
    World(service).replace(CELL, relation, values)


def forget_consumer(service: Service) -> None:
    """Leave the allocations without a record of their consumer, as old releases did."""
    service.db.write(lambda tx: tx.connection.execute(models.consumers.delete()))


def backfill(service: Service) -> None:
    forget_consumer(service)
    moved = online_migrations.create_incomplete_consumers(
        service.db, IncompleteIds("nobody", "nobody"), 10
    )
    assert moved == (1, 1)


CHANGES: dict[str, Callable[[Service], object]] = {
    "name": lambda s: World(s).call("PUT", f"/resource_providers/{CELL}", {"name": "renamed"}),
    "new child": lambda s: World(s).provider("child", CELL),
    "parent": lambda s: World(s).call(
        "PUT", f"/resource_providers/{CELL}", {"name": "cell", "parent_provider_uuid": None}
    ),
    "inventory": lambda s: stock(s, CELL, total=9),
    "unit": lambda s: stock(s, CELL, total=8, max_unit=4),
    "traits": lambda s: links(s, "traits", ["HW_CPU_X86_VMX"]),
    "aggregates": lambda s: links(s, "aggregates", [AGGREGATE]),
    "another consumer": lambda s: claim(s, VOLUME, generation=None),
    "amount": lambda s: claim(s, SERVER, amount=3),
    "consumer generation": lambda s: claim(s, SERVER),
    "project": lambda s: claim(s, SERVER, project_id="p2"),
    "user": lambda s: claim(s, SERVER, user_id="u2"),
    "type": lambda s: claim(s, SERVER, consumer_type="MIGRATION"),
    "consumer gone": lambda s: World(s).release(SERVER),
    "backfilled consumer": backfill,
}


def asked(service: Service, path: str, tag: str | None = None) -> Any:
    return service.request("GET", path, if_none_match=tag)


@pytest.mark.parametrize("change", CHANGES)
def test_the_tag_moves_with_whatever_is_shown(place: Service, change: str) -> None:
    """And that of a tree that did not change stays."""
    mine, others = (f"/-/trees/{uuid}?allocations=true" for uuid in (HOST, OTHER))
    pages = (mine, "/-/trees?allocations=true")
    before = {path: asked(place, path) for path in (*pages, others)}

    CHANGES[change](place)

    for path in pages:
        after = asked(place, path, before[path].headers["ETag"])
        assert after.status_int == 200
        assert after.headers["ETag"] != before[path].headers["ETag"]
        assert after.json["trees"] != before[path].json["trees"]
        again = asked(place, path, after.headers["ETag"])
        assert (again.status_int, again.body) == (304, b"")
    assert asked(place, others, before[others].headers["ETag"]).status_int == 304


def test_each_tree_of_a_list_has_the_tag_that_it_has_alone(place: Service) -> None:
    for form in ("", "allocations=true"):
        for tree in asked(place, f"/-/trees?{form}").json["trees"]:
            alone = asked(place, f"/-/trees/{tree['root']}?{form}", f'"{tree["etag"]}"')
            assert alone.status_int == 304


def test_what_a_tree_costs(place: Service) -> None:
    """One statement where nothing changed; a whole tree costs the same whatever its size."""
    counts = {}
    for path in (f"/-/trees/{CELL}?allocations=true", "/-/trees?allocations=true"):
        tag = asked(place, path).headers["ETag"]
        asked(place, path, tag)
        for name, known in (("known", tag), ("changed", '"another"'), ("new", None)):
            with recorder.recorded(place.db) as statements:
                asked(place, path, known)
            counts[path, name] = len(statements)
    assert list(counts.values()) == [1, 8, 7, 1, 8, 8]
