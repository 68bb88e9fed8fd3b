"""Shapes: how many more of each named request fit, and how it went (07 sections 3.1 and 3.2)."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import insert, select, update

from placement.extensions.questions import commands
from placement.extensions.questions import tables as questions_tables
from placement.extensions.questions.capacity_records import draw_forecast
from placement.extensions.questions.capacity_rows import DAY_MS, CapacityRecord
from tests.search import worlds
from tests.support import databases
from tests.support.service import Service, running
from tests.support.world import World, new_uuid

SMALL, LARGE = "resources=VCPU:1,MEMORY_MB:2", "resources=VCPU:4,MEMORY_MB:3"
DISABLED = "COMPUTE_STATUS_DISABLED"
RACKS = [new_uuid() for _ in range(2)]


BOTH = f"small: {SMALL}\nlarge: {LARGE}\n"


def knowing(
    folder: Path, shapes: str, kind: str = "sqlite", **more: Any
) -> AbstractContextManager[Service]:
    """Return the service with a file of shapes."""
    path = folder / "shapes.yaml"
    path.write_text(shapes)
    return running(kind, insight__enabled=True, insight__shapes_file=str(path), **more)


def test_capacity_of_shapes_is_that_of_claims_until_one_is_refused(tmp_path: Path) -> None:
    """In all and in each aggregate, on hosts with units, ratios and what is used already."""

    @worlds.seeds(10)
    def compare(random: Random) -> None:
        with knowing(tmp_path, BOTH) as service:
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
        traits = [DISABLED] if random.random() < 0.25 else []
        world.provider(None, None, stock, traits, racks)


def claimed(service: Service, query: str) -> int:
    """Return how many claims of the first candidate there are until there is none, and release them."""
    world, made = World(service), []
    query += f"&root_required=!{DISABLED}&limit=1"
    while found := world.get(f"/allocation_candidates?{query}")["allocation_requests"]:
        sets = {uuid: each["resources"] for uuid, each in found[0]["allocations"].items()}
        made.append(world.claim(sets))
    for consumer in made:
        world.release(consumer)
    return len(made)


def test_one_shape_is_answered_as_its_query(tmp_path: Path) -> None:
    with knowing(tmp_path, f"small: {SMALL}") as service:
        World(service).host(VCPU=4, MEMORY_MB=4)
        one = service.request("GET", "/-/capacity?shape=small")
        assert one.json == service.request("GET", f"/-/capacity?{SMALL}").json
        assert one.json["count"] == 2
        assert service.request("GET", "/-/capacity?shape=huge").status_int == 404
        assert service.request("GET", f"/-/capacity?shape=small&{SMALL}").status_int == 400


def test_a_name_that_does_not_exist_yet_has_no_room(tmp_path: Path) -> None:
    """The others are counted."""
    text = f"later: resources=CUSTOM_LATER:1\nnow: {SMALL}&required=!CUSTOM_NONE\n"
    with knowing(tmp_path, text) as service:
        World(service).host(VCPU=4, MEMORY_MB=4)
        shapes = service.request("GET", "/-/capacity?shape=*").json["shapes"]
        assert {name: each["count"] for name, each in shapes.items()} == {"later": 0, "now": 2}


def test_what_fits_is_shown_by_shape_and_aggregate(tmp_path: Path) -> None:
    """A zero too; other processes, and later claims, see the same until the interval is over."""
    with knowing(tmp_path, BOTH, insight__metrics_directory=str(tmp_path / "metrics")) as service:
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


def test_only_shapes_of_the_file_as_it_is_now_are_shown(tmp_path: Path) -> None:
    """After a reload the figures of the processes before are still there, with a shape that has gone."""
    directory = str(tmp_path / "metrics")
    for text, names in ((f"a: {SMALL}\nb: {LARGE}\n", {"a", "b"}), (f"b: {LARGE}\n", {"b"})):
        with knowing(tmp_path, text, insight__metrics_directory=directory) as service:
            assert {shape for shape, _ in shown(service)} == names
            assert {shape for (shape,) in samples(service, "placement_capacity_complete")} == names


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


# -- what was recorded ------------------------------------------------------------------------------

DAY_S = 86_400


@pytest.fixture(params=databases.KINDS)
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    """A host with room for ten small ones."""
    with knowing(tmp_path, BOTH, request.param) as service:
        World(service).host(VCPU=10, MEMORY_MB=20)
        yield service


def move_back(service: Service, seconds: int) -> None:
    """Let all records be so much older."""
    table = questions_tables.capacity_records
    older = update(table).values(recorded_at=table.c.recorded_at - 1000 * seconds)
    with service.db.engine.begin() as connection:
        connection.execute(older)


def history_of(service: Service, shape: str) -> Any:
    answer = service.request("GET", f"/-/capacity/history?shape={shape}")
    assert answer.status_int == 200, answer.text
    return answer.json


def test_what_is_recorded_is_told_with_a_straight_line(
    recorded: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two fewer each day: the last eight are gone four days after the last record."""
    assert history_of(recorded, "small") == {"shape": "small", "records": [], "forecast": None}
    for left in (10, 8):
        as_json = left == 8
        assert commands.record(recorded.conf, recorded.db, as_json=as_json) == 0
        printed = capsys.readouterr().out
        if as_json:
            assert json.loads(printed)["recorded"]["small"] == left
        else:
            assert f"small: {left}\n" in printed
        if left == 10:
            move_back(recorded, DAY_S)
            host = recorded.request("GET", "/resource_providers").json["resource_providers"][0]
            World(recorded).claim({host["uuid"]: {"VCPU": 2, "MEMORY_MB": 4}})

    told = history_of(recorded, "small")
    first, last = (datetime.fromisoformat(each["at"]) for each in told["records"])
    assert [each["count"] for each in told["records"]] == [10, 8]
    assert abs(last - datetime.now(UTC)) < timedelta(minutes=5)
    assert abs(last - first - timedelta(days=1)) < timedelta(minutes=5)
    line = told["forecast"]
    assert line["records"] == 2
    assert line["per_day"] == pytest.approx(-2, rel=0.01)
    end = datetime.fromisoformat(line["runs_out_at"])
    assert abs(end - last - timedelta(days=4)) < timedelta(hours=1)
    assert recorded.request("GET", "/-/capacity/history?shape=huge").status_int == 404


def test_records_of_the_future_do_not_count_and_go(recorded: Service) -> None:
    """A clock was wrong: the line ends at the last record that is past."""
    assert commands.record(recorded.conf, recorded.db, as_json=False) == 0
    move_back(recorded, -400 * DAY_S)
    assert history_of(recorded, "small")["records"] == []

    assert commands.record(recorded.conf, recorded.db, as_json=False) == 0

    assert len(history_of(recorded, "small")["records"]) == 1
    with recorded.db.engine.connect() as connection:
        rows = connection.execute(select(questions_tables.capacity_records.c.shape)).scalars().all()
    assert sorted(rows).count("small") == 1


@pytest.mark.parametrize("at", [-(2**63), -(10**15), -1, 10**15, 2**63 - 1])
def test_records_of_times_that_nobody_lived_do_not_count_and_go(recorded: Service, at: int) -> None:
    """Somebody has written them by SQL."""
    records = questions_tables.capacity_records
    with recorded.db.engine.begin() as connection:
        connection.execute(insert(records).values(shape="small", recorded_at=at, placements=1))
    assert history_of(recorded, "small")["records"] == []

    assert commands.record(recorded.conf, recorded.db, as_json=False) == 0

    with recorded.db.engine.connect() as connection:
        assert at not in connection.execute(select(records.c.recorded_at)).scalars().all()


def test_records_are_kept_for_a_year(recorded: Service) -> None:
    for days in (200, 166, 0):
        assert commands.record(recorded.conf, recorded.db) == 0
        move_back(recorded, days * DAY_S)
    assert len(history_of(recorded, "large")["records"]) == 2


def test_what_is_not_counted_to_the_end_is_not_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lower bound among counts would bend the line."""
    text = "two: resources_A=VCPU:1&resources_B=VCPU:1&group_policy=isolate\nsmall: resources=DISK_GB:1\n"
    with knowing(tmp_path, text, insight__work_factor=1) as service:
        world = World(service)
        for _ in range(12):
            host = world.host(VCPU=4, DISK_GB=8)
            world.provider(None, host, {"VCPU": 4})
        assert commands.record(service.conf, service.db) == 1
        assert "two: not counted to the end" in capsys.readouterr().err
        assert history_of(service, "two")["records"] == []
        assert [each["count"] for each in history_of(service, "small")["records"]] == [96]


def test_nothing_runs_out_before_it_was_counted_last() -> None:
    """It fell fast, and has stayed at two since: the line is below zero already."""
    counts = [100, 2, 2, 2, 2, 2, 2, 2]
    line = draw_forecast([CapacityRecord(day * DAY_MS, count) for day, count in enumerate(counts)])
    assert line is not None and line.per_day < 0
    assert line.runs_out_at == 7 * DAY_MS


@given(
    st.lists(
        st.tuples(st.integers(0, 60 * DAY_MS), st.integers(0, 10**6)),
        min_size=1,
        max_size=40,
        unique_by=lambda pair: pair[0],
    )
)
def test_the_line_is_that_of_least_squares(pairs: list[tuple[int, int]]) -> None:
    """Through the last 30 days; nothing runs out of what does not fall."""
    records = [CapacityRecord(*pair) for pair in sorted(pairs)]
    line = draw_forecast(records)
    last = [each for each in records if each.recorded_at >= records[-1].recorded_at - 30 * DAY_MS]
    if len(last) < 2:
        assert line is None
        return
    assert line is not None and line.records == len(last)
    days = np.array([each.recorded_at - last[-1].recorded_at for each in last]) / DAY_MS
    matrix = np.stack([days - days.mean(), np.ones(len(days))], axis=1)
    counts = np.array([each.placements for each in last], float)
    slope, height = np.linalg.lstsq(matrix, counts, rcond=None)[0]
    assert line.per_day == pytest.approx(slope, rel=1e-6, abs=1e-6)
    if line.runs_out_at is not None:
        at = (line.runs_out_at - last[-1].recorded_at) / DAY_MS
        assert line.per_day < 0
        until = -height / slope
        # A moment has whole milliseconds; on a steep line one of them is many placements.
        tolerance = 2 / DAY_MS + 1e-6 * (abs(days.mean()) + abs(until))
        assert at == pytest.approx(max(days.mean() + until, 0), abs=tolerance)
    else:
        assert line.per_day >= 0 or -height / line.per_day > 36_000
