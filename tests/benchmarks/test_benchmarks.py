"""A smoke run of the benchmarks, so that the tool cannot rot."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import create_engine, func, select

from benchmarks import bulk, clients, floor, loading, reshape, runner, turns
from benchmarks.clients import percentile
from benchmarks.clouds import SHAPES, cloud_named
from benchmarks.command import main
from benchmarks.target import Target, negotiate
from placement.db import invariants, models
from tests.client.conftest import serving as served
from tests.support import service
from tests.support.world import World

CLOUD = "tiny-busy2"
HEADERS = {"X-Auth-Token": "admin"}


@contextmanager
def serving() -> Iterator[str]:
    """Yield the URL of the service, served from a thread of this process."""
    with service.running() as running, served(running.application) as url:
        yield url


def shown() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a client reads of providers and of consumers; their sums are those of the ledger."""
    assert invariants.violations(service.database()) == []
    world = World(service.Service(service.configure(), service.database()))
    found = world.get("/resource_providers")["resource_providers"]
    providers = world.state(*(each["uuid"] for each in found))
    for _, _, traits, aggregates, _ in providers.values():
        # They come in the order in which they were made.
        traits["traits"].sort()
        aggregates["aggregates"].sort()
    held = {uuid for *_, place in providers.values() for uuid in place["allocations"]}
    return providers, {uuid: world.get(f"/allocations/{uuid}") for uuid in held}


def target_at(url: str) -> Target:
    return negotiate("here", url, HEADERS, database=service.database_url("sqlite"))


def test_every_scenario_runs_without_a_failure(tmp_path: Path) -> None:
    """All scenarios work, the results are written, and the cloud is gone afterwards."""
    given = ["--cloud", CLOUD, "--seconds", "0.02", "--clients", "1,2", "--output", str(tmp_path)]
    groups = "load,candidates,reads,lists,usages,claims,swaps,deletes,boots"
    with serving() as url:
        status = main(["--url", url, "--only", groups, *given])

        assert status == 0
        assert not loading.is_loaded(target_at(url), cloud_named(CLOUD))
    results = orjson.loads((tmp_path / "results.json").read_bytes())
    assert {row["group"] for row in results["rows"]} == set(groups.split(","))
    for row in results["rows"]:
        (measured,) = row["by_target"].values()
        assert measured["operations"] > 0
        assert measured["failures"] == 0, (row["scenario"], measured["statuses"])


def test_server_of_our_own_is_started_loaded_and_floored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server on a scratch database runs, and the hand-written claim beside it."""
    monkeypatch.setattr(runner, "FRESH_STARTS", 1)
    given = ["--cloud", CLOUD, "--seconds", "0.02", "--clients", "1", "--output", str(tmp_path)]

    status = main(["--server", "sqlite", "--bulk", "--only", "fresh,claims,floor", *given])

    assert status == 0
    results = orjson.loads((tmp_path / "results.json").read_bytes())
    noted = {note["what"] for note in results["notes"]}
    assert {"loaded by bulk SQL", "fresh worker", "hand-written claim"} <= noted
    assert all(one["failures"] == 0 for row in results["rows"] for one in row["by_target"].values())


def test_the_hand_written_claim_writes_the_log_of_changes_too() -> None:
    """As a claim does: else the two could not be compared."""
    cloud, marks = cloud_named(CLOUD), select(func.sum(models.provider_changes.c.mark))
    with serving() as url:
        bulk.load(target_at(url), cloud)
        engine = create_engine(service.database_url("sqlite"))
        with engine.connect() as connection:
            before = connection.scalar(marks)
            floor.measure(service.database_url("sqlite"), cloud, 0)
            assert connection.scalar(marks) > before
        engine.dispose()


def test_bulk_loading_leaves_what_http_leaves() -> None:
    """Generations, counters, trees and ledger are the same however a cloud was loaded."""
    cloud = cloud_named(CLOUD)
    with serving() as url:
        loading.load_providers(target_at(url), cloud)
        loading.load_consumers(target_at(url), cloud)
        over_http = shown()
    with serving() as url:
        bulk.load(target_at(url), cloud)
        by_sql = shown()

    assert over_http == by_sql
    _, consumers = by_sql
    places = [place for one in consumers.values() for place in one["allocations"].values()]
    assert sum(len(place["resources"]) for place in places) == cloud.ledger


def test_a_busy_host_is_reshaped_and_nothing_is_lost() -> None:
    with serving() as url:
        options = reshape.parsed(["--consumers", "20", "--vgpu-every", "2"])
        _, fine = reshape.measure(url, options, "busy", busy=True)
    assert fine


def test_endpoint_that_is_no_placement_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--url", "http://127.0.0.1:9", "--cloud", "tiny", "--only", "reads"]) == 1
    assert "does not answer like a Placement service" in capsys.readouterr().err


def test_client_that_cannot_begin_says_why() -> None:
    """The others, which wait for it in vain, have nothing to say."""

    def make(_connection: Any, client: int) -> Any:
        if client == 2:
            raise ValueError("this one")
        return None

    with serving() as url, pytest.raises(ValueError, match="this one"):
        clients.run(target_at(url), make, clients=3)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_trees_have_their_parents_first_and_known_names(name: str) -> None:
    cloud = cloud_named(name)
    tree = cloud.tree(cloud.hosts - 1)
    traits, classes = cloud.names()

    assert tree[0].uuid == cloud.host_uuid(cloud.hosts - 1)
    seen: set[str] = set()
    for provider in tree:
        assert provider.parent is None or provider.parent in seen
        seen.add(provider.uuid)
        assert {one for one in provider.traits if one.startswith("CUSTOM_")} <= set(traits)
        assert {one for one in provider.inventories if one.startswith("CUSTOM_")} <= set(classes)


def test_percentile_is_the_value_below_which_the_part_lies() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert percentile([float(n) for n in range(1000)], 0.99) == 990.0
    assert percentile([7.0], 0.99) == 7.0


@pytest.mark.ci
def test_two_checkouts_take_turns(capsys: pytest.CaptureFixture[str]) -> None:
    """Here both are this one, on databases of their own."""
    checkout = Path(turns.__file__).parents[1]

    turns.compare(checkout, checkout, "sqlite", hosts=3, turns=2)

    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line[:28].strip() for line in lines] == [*turns.REQUESTS]
