"""Shapes: how many more of each named request fit (07 section 3.1)."""

from pathlib import Path
from random import Random
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.search import worlds
from tests.support.service import Service, running
from tests.support.world import World, new_uuid

SMALL, LARGE = "resources=VCPU:1,MEMORY_MB:2", "resources=VCPU:4,MEMORY_MB:3"
RACKS = [new_uuid() for _ in range(2)]


def shapes_in(folder: Path, text: str) -> str:
    path = folder / "shapes.yaml"
    path.write_text(text)
    return str(path)


def test_capacity_of_shapes_is_that_of_claims_until_one_is_refused(tmp_path: Path) -> None:
    """In all and in each aggregate, on hosts with units, ratios and what is used already."""
    file = shapes_in(tmp_path, f"small: {SMALL}\nlarge: {LARGE}\n")

    @worlds.seeds(10)
    def compare(random: Random) -> None:
        with running(insight__enabled=True, insight__shapes_file=file) as service:
            build(World(service), random)
            told = service.request("GET", "/-/capacity?by=aggregate&shape=*").json
            assert told["complete"] is True
            for name, query in (("small", SMALL), ("large", LARGE)):
                shape = told["shapes"][name]
                by_rack = {each["uuid"]: each["count"] for each in shape["places"]}
                assert shape["exact"] is True
                assert shape["count"] == claimed(service, query)
                for rack in RACKS:
                    assert by_rack.get(rack, 0) == claimed(service, f"{query}&member_of={rack}")

    compare()


def build(world: World, random: Random) -> None:
    for _ in range(random.randrange(1, 5)):
        stock: Any = {
            "VCPU": {
                "total": random.randrange(1, 6),
                "allocation_ratio": random.choice([1.0, 2.0]),
                "max_unit": random.randrange(1, 9),
            },
            "MEMORY_MB": {
                "total": random.randrange(1, 12),
                "reserved": random.randrange(2),
                "step_size": random.choice([1, 1, 2]),
            },
        }
        racks = [rack for rack in RACKS if random.random() < 0.6]
        world.provider(None, None, stock, aggregates=racks)


def claimed(service: Service, query: str) -> int:
    """Return how many claims of the first candidate there are until there is none, and release them."""
    world, made = World(service), []
    while found := world.get(f"/allocation_candidates?{query}&limit=1")["allocation_requests"]:
        sets = {uuid: each["resources"] for uuid, each in found[0]["allocations"].items()}
        made.append(world.claim(sets))
    for consumer in made:
        world.release(consumer)
    return len(made)


def test_one_shape_is_answered_as_its_query(tmp_path: Path) -> None:
    with running(
        insight__enabled=True, insight__shapes_file=shapes_in(tmp_path, f"small: {SMALL}")
    ) as service:
        World(service).host(VCPU=4, MEMORY_MB=4)
        one = service.request("GET", "/-/capacity?shape=small")
        assert one.json == service.request("GET", f"/-/capacity?{SMALL}").json
        assert one.json["count"] == 2
        assert service.request("GET", "/-/capacity?shape=huge").status_int == 404
        assert service.request("GET", f"/-/capacity?shape=small&{SMALL}").status_int == 400


def test_a_name_that_does_not_exist_yet_has_no_room(tmp_path: Path) -> None:
    """The others are counted."""
    text = f"later: resources=CUSTOM_LATER:1\nnow: {SMALL}&required=!CUSTOM_NONE\n"
    with running(insight__enabled=True, insight__shapes_file=shapes_in(tmp_path, text)) as service:
        World(service).host(VCPU=4, MEMORY_MB=4)
        shapes = service.request("GET", "/-/capacity?shape=*").json["shapes"]
        assert {name: each["count"] for name, each in shapes.items()} == {"later": 0, "now": 2}


def test_what_fits_is_shown_by_shape_and_aggregate(tmp_path: Path) -> None:
    """A zero too; other processes, and later claims, see the same until the interval is over."""
    settings = {
        "insight__enabled": True,
        "insight__shapes_file": shapes_in(tmp_path, f"small: {SMALL}\nlarge: {LARGE}\n"),
        "insight__metrics_directory": str(tmp_path / "metrics"),
    }
    with running(**settings) as service:
        world = World(service)
        host = world.provider(None, None, {"VCPU": 4, "MEMORY_MB": 9}, aggregates=RACKS[:1])
        world.provider(None, None, {"VCPU": 3}, aggregates=RACKS[1:])
        expected = {
            ("small", ""): 4,
            ("small", RACKS[0]): 4,
            ("small", RACKS[1]): 0,
            ("large", ""): 1,
            ("large", RACKS[0]): 1,
            ("large", RACKS[1]): 0,
        }
        assert shown(service) == expected
        world.claim({host: {"VCPU": 4}})
        assert shown(service) == expected
        assert 0 <= samples(service, "placement_capacity_age_seconds")[()] < 60
        assert set(samples(service, "placement_capacity_complete").values()) == {1}


def shown(service: Service) -> dict[tuple[str, ...], float]:
    return samples(service, "placement_capacity")


def samples(service: Service, name: str) -> dict[tuple[str, ...], float]:
    text = service.request("GET", "/-/metrics").text
    return {
        tuple(sample.labels[label] for label in ("shape", "aggregate") if label in sample.labels): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }
