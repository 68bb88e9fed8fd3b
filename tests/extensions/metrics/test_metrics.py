"""What /-/metrics counts (specification 07 section 6)."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import exc, text

from docs._tools.url_page import INSIGHT, ROUTES
from placement import errors, telemetry
from placement.db import consumer_rows, schema
from placement.db.database import Database, StaleRead, Transaction
from placement.db.engine import make_engine
from placement.extensions.metrics.kept_figures import KeptFigures
from tests.extensions.claims import test_claims as gangs
from tests.support import bodies, databases
from tests.support.clock import let_holds_end
from tests.support.processes import ran
from tests.support.recorder import recorded
from tests.support.service import Service, configure, database, running
from tests.support.world import World

HOST = "1f000000-0000-4000-8000-000000000001"
CONSUMER = "ca000000-0000-4000-8000-00000000000{}"


@pytest.fixture(params=databases.KINDS[:1])
def place(request: pytest.FixtureRequest) -> Iterator[Service]:
    """A host of eight VCPU, on SQLite: most figures are of requests, or of the picture."""
    with running(request.param, insight__enabled=True) as service:
        record = {"total": 8, "reserved": 1, "allocation_ratio": 2.0}
        World(service).provider("host", key=HOST, inventory={"VCPU": record})
        yield service


def claim(service: Service, number: int, amount: int) -> int:
    body = bodies.entry({HOST: {"VCPU": amount}})
    return service.send("PUT", f"/allocations/{CONSUMER.format(number)}", body).status


def search(service: Service, query: str) -> None:
    path = f"/allocation_candidates?{query}"
    assert service.request("GET", path, version="1.39").status_int == 200


def read(service: Service) -> dict[tuple[str, ...], float]:
    """Return the numbers by name and values of labels, in the order of the names of the labels."""
    answer = service.request("GET", "/-/metrics")
    assert answer.status_int == 200, answer.text
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_the_first_requests_of_a_process_may_end_at_once() -> None:
    """Each gauge is made by the first request that sets it, and by no other."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            with running(insight__enabled=True) as service, ThreadPoolExecutor(8) as clients:
                asked = (clients.submit(service.send, "GET", "/traits") for _ in range(8))
                assert [each.result().status for each in list(asked)] == [200] * 8
    finally:
        sys.setswitchinterval(interval)


def test_requests_are_counted_by_route_and_status(place: Service) -> None:
    """Never by the path: labels stay few whatever clients ask for."""
    for number in range(3):
        place.request("GET", f"/resource_providers/{HOST}", version="1.39")
        place.request("GET", f"/no/such/path/{number}")
    place.request("GET", "/")
    place.request("BREW", "/")

    seen = read(place)

    count = "placement_request_seconds_count"
    assert seen[count, "GET", "/resource_providers/{uuid}", "200"] == 3
    assert seen[count, "GET", "none", "404"] == 3
    assert seen[count, "GET", "/", "200"] == 1
    assert seen[count, "other", "/", "405"] == 1
    assert seen["placement_request_seconds_bucket", "+Inf", "GET", "none", "404"] == 3
    routes = {labels[1] for name, *labels in seen if name == count}
    assert routes <= {*ROUTES, *INSIGHT, "none"}


def test_searches_are_counted_by_stage_and_by_what_stopped_them(place: Service) -> None:
    """Candidates found, nothing found, cut short."""
    search(place, "resources=VCPU:1")
    search(place, "resources=VCPU:1&limit=1")
    search(place, "resources=VCPU:99")
    search(place, "resources=VCPU:1&required=HW_CPU_X86_VMX")

    seen = read(place)

    for stage, times in (("freshness", 4), ("filter", 4), ("combine", 2), ("render", 4)):
        assert seen["placement_search_stage_seconds_count", stage] == times
    assert seen["placement_search_candidates_count",] == 4
    assert seen["placement_search_candidates_sum",] == 2
    assert seen["placement_searches_empty_total", "NO_CAPACITY"] == 1
    assert seen["placement_searches_empty_total", "NO_CHOICE"] == 1
    assert seen["placement_searches_cut_total", "work"] == 0


def test_who_follows_the_changes_is_counted_by_outcome(place: Service) -> None:
    """Something, nothing, and a token that is too old."""
    ways = "placement_changes_total"
    before = read(place)
    token = place.send("GET", "/-/changes").json["next"]
    World(place).provider()
    for since in (token, "A" * 22):
        place.send("GET", f"/-/changes?since={since}")

    seen = read(place)

    outcomes = ("changed", "nothing", "too_old")
    assert [seen[ways, each] - before.get((ways, each), 0) for each in outcomes] == [1, 1, 1]


def test_plans_are_counted_by_outcome_and_their_steps_by_kind(place: Service) -> None:
    world = World(place)
    full = world.host(VCPU=2)
    world.claim({full: {"VCPU": 2}})
    goal = {"empty": {"trees": [full]}}
    go = {"move": {"consumer_types": []}, "remove": {"consumer_types": ["INSTANCE"]}}
    before = read(place)
    for body in (
        {"goal": goal},
        {"goal": goal, "may": go},
        {"goal": {"place": "resources=VCPU:99"}},
    ):
        place.send("POST", "/-/plans", body)

    seen = read(place)

    def counted(name: str, *labels: str) -> list[float]:
        return [seen[name, each] - before[name, each] for each in labels]

    outcomes = counted("placement_plans_total", "minimal", "bounded", "refused", "given_up")
    assert outcomes == [2, 0, 1, 0]
    assert counted("placement_plan_steps_total", "move", "remove") == [1, 1]


def test_claims_and_holds_are_counted_by_outcome(place: Service) -> None:
    """Consumers, not requests."""
    kept, over = gangs.claim(1), gangs.claim(1)
    gangs.place(place, kept, over, hold_s=900)
    gangs.place(place, gangs.claim(99))
    confirmed = {"consumer_uuid": kept["consumer_uuid"], "consumer_generation": 1}
    place.request("POST", "/-/claims/confirm", json={"consumers": [confirmed]}, version="1.39")
    let_holds_end(place.db)
    search(place, "resources=VCPU:1")

    seen = read(place)

    claims = {what: seen["placement_claims_total", what] for what in ("granted", "refused")}
    assert claims == {"granted": 2, "refused": 1}
    outcomes = ("held", "confirmed", "expired")
    holds = {what: seen["placement_holds_total", what] for what in outcomes}
    assert holds == {"held": 2, "confirmed": 1, "expired": 1}


def test_a_cut_answer_is_counted() -> None:
    """By the bound that cut it."""
    with running(insight__enabled=True, placement__max_answered_candidates=1) as service:
        for _ in range(2):
            World(service).host(VCPU=1)
        search(service, "resources=VCPU:1")
        assert read(service)["placement_searches_cut_total", "candidates"] == 1


on_each = pytest.mark.parametrize("place", databases.KINDS, indirect=True)
"""What is counted is what was done in the database."""


@on_each
def test_the_picture_says_how_it_was_brought_up_to_date(place: Service) -> None:
    """Whole at first, then what changed, then nothing."""
    search(place, "resources=VCPU:1")
    assert claim(place, 1, 1) == 204
    for _ in range(3):
        search(place, "resources=VCPU:1")

    seen = read(place)

    kinds = {kind: seen["placement_picture_refreshes_total", kind] for kind in ("whole", "part")}
    assert sum(kinds.values()) == 2, "reading so small a cloud again is reading it whole"
    # The reading of the metrics is one more, and counts itself afterwards.
    assert seen["placement_picture_refreshes_total", "nothing"] == 2
    assert seen["placement_picture_providers_read_total",] == 2
    assert seen["placement_picture_providers",] == 1
    assert seen["placement_picture_memory_bytes",] > 0


@on_each
def test_writes_count_attempts_and_conflicts(place: Service) -> None:
    """A claim that is refused for want of room is a conflict of its own, and no contention."""
    assert claim(place, 1, 10) == 204
    assert claim(place, 2, 10) == 409

    seen = read(place)

    operation = ("PUT", "/allocations/{consumer_uuid}")
    held = seen["placement_providers_held_seconds_count", *operation]
    assert seen["placement_write_attempts_total", *operation] == 2
    assert held == 2
    assert seen["placement_conflicts_total", "CapacityExceeded", *operation] == 1
    assert seen["placement_contention_refusals_total", *operation] == 0
    causes = {key[1] for key in seen if key[0] == "placement_repeats_total" and key[2:] == operation}
    assert causes == {"conflict", "disconnect", "stale"}, "before any was repeated"


def test_the_cloud_is_shown_by_class(place: Service) -> None:
    """Amounts, and who has given out more than there is."""
    assert claim(place, 1, 10) == 204
    record = {"total": 4, "reserved": 1, "allocation_ratio": 2.0}
    World(place).set_inventory(HOST, {"VCPU": record})

    seen = read(place)

    shown = {
        field: seen[f"placement_inventory_{field}", "VCPU"]
        for field in ("amount", "reserved", "used", "capacity", "over_capacity")
    }
    assert shown == {"amount": 4, "reserved": 1, "used": 10, "capacity": 6, "over_capacity": 1}
    assert seen["placement_providers",] == seen["placement_trees",] == 1
    assert seen["placement_providers_over_capacity",] == 1


def test_the_cloud_is_added_up_once_in_fifteen_seconds(place: Service) -> None:
    """However often the metrics are read."""
    before = read(place)["placement_inventory_used", "VCPU"]
    assert claim(place, 1, 3) == 204
    assert read(place)["placement_inventory_used", "VCPU"] == before == 0


def test_connections_are_counted_where_there_is_a_pool() -> None:
    """None is in use between requests."""
    with running("postgresql", insight__enabled=True) as service:
        service.request("GET", "/traits", version="1.39")
        seen = read(service)
        assert seen["placement_pool_size",] == database("postgresql").engine.pool.size()
        assert seen["placement_pool_in_use",] == 0


def test_who_may_read(place: Service) -> None:
    """A token and the policy, unless the metrics are public; a query key is refused."""
    assert place.request("GET", "/-/metrics", x_auth_token=None).status_int == 401
    assert place.request("GET", "/-/metrics", x_auth_token="somebody").status_int == 403
    assert place.request("GET", "/-/metrics?match=x").status_int == 400
    answer = place.request("GET", "/-/metrics", accept="application/openmetrics-text")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    with running(insight__enabled=True, insight__public=["metrics"]) as service:
        assert service.request("GET", "/-/metrics", x_auth_token=None).status_int == 200


def test_switched_off_nothing_is_there() -> None:
    """No route, no layer, and the library is not even loaded."""
    with running() as service:
        assert service.request("GET", "/-/metrics").status_int == 404
    script = (
        "import sys; from tests.support.service import running\n"
        "with running() as s: s.request('GET', '/resource_providers')\n"
        "print([n for n in sys.modules if 'prometheus' in n or n == 'placement.extensions.metrics.metrics'])"
    )
    root = Path(__file__).resolve().parents[3]
    done = ran([sys.executable, "-c", script], cwd=root, check=True)
    assert done.stdout.strip() == "[]"


def test_what_a_transaction_went_through_is_noted() -> None:
    """Attempts, why they were repeated, errors by kind, and that it gave up."""
    db = database()
    lost = iter((StaleRead("once"), StaleRead("twice")))

    def work(tx: Transaction) -> int:
        for error in lost:
            raise error
        return 7

    trace = telemetry.begin()
    try:
        assert db.write(work) == 7
        with pytest.raises(exc.OperationalError):
            db.read(lambda reader: reader.connection.execute(text("SELECT no_such_column")))
    finally:
        telemetry.end()
    assert trace.counts_by_label(telemetry.WRITE_ATTEMPTS) == {"": 3}
    assert trace.counts_by_label(telemetry.REPEATS) == {"stale": 2}
    assert not trace.counts_by_label(telemetry.CONTENTION_REFUSALS)
    assert trace.counts_by_label(telemetry.DATABASE_ERRORS) == {"other": 1}


def test_giving_up_is_a_refusal_for_contention() -> None:
    """That is what the alert counts."""

    def never(tx: Transaction) -> None:
        raise StaleRead("always")

    trace = telemetry.begin()
    try:
        with pytest.raises(errors.ConcurrentUpdate):
            database().write(never)
    finally:
        telemetry.end()
    assert trace.counts_by_label(telemetry.CONTENTION_REFUSALS) == {"": 1}
    assert trace.counts_by_label(telemetry.WRITE_ATTEMPTS) == {"": 10}


def test_a_brief_wait_that_loses_is_no_refusal() -> None:
    """The caller continues without the write, and no client hears of it."""

    def never(tx: Transaction) -> None:
        raise StaleRead("always")

    trace = telemetry.begin()
    try:
        with pytest.raises(errors.ConcurrentUpdate):
            database().write(never, wait_s=1.0)
    finally:
        telemetry.end()
    assert not trace.counts_by_label(telemetry.CONTENTION_REFUSALS)
    assert trace.counts_by_label(telemetry.WRITE_ATTEMPTS) == {"": 1}


def test_what_survives_is_shown_and_made_seldom() -> None:
    """The share of the trees; later claims are seen when the interval is over."""
    with running(insight__enabled=True, insight__survival_interval=3600) as service:
        world = World(service)
        full, _ = world.host(HOST, VCPU=8), world.host(VCPU=4)
        world.claim({full: {"VCPU": 5}})
        seen = read(service)
        assert seen["placement_survivable", "tree"] == 0.5
        assert seen["placement_survival_complete", "tree"] == 1
        assert seen["placement_survivable", "aggregate"] == 1
        world.host(VCPU=8)
        after = read(service)
        assert after["placement_survivable", "tree"] == 0.5
        assert 0 <= after["placement_survival_age_seconds",] < 3600


def test_processes_that_share_a_directory_make_costly_figures_once(tmp_path: Path) -> None:
    """While one makes them, the other gets the old ones."""
    one, other = (KeptFigures(tmp_path, "x", 60) for _ in range(2))
    inside = []
    shown = one.read_or_make(lambda: inside.append(other.read_or_make(lambda: "never")) or ["new"])
    assert (inside, shown and shown.figures) == ([None], ["new"])
    again = other.read_or_make(lambda: "never")
    assert again is not None and again.figures == ["new"]


def test_costly_figures_stay_while_the_database_cannot_be_reached(tmp_path: Path) -> None:
    """The other metrics are answered."""

    def make() -> object:
        raise errors.DatabaseUnavailable

    assert KeptFigures(tmp_path, "x", 0).read_or_make(make) is None
    KeptFigures(tmp_path, "x", 0).read_or_make(lambda: ["old"])
    late = KeptFigures(tmp_path, "x", 0).read_or_make(make)
    assert late is not None and late.figures == ["old"]


def test_each_provider_is_shown_if_asked_for() -> None:
    """Under the names of the exporter: of every inventory, at this moment, whatever the name of the host."""
    with running(insight__enabled=True, insight__metrics_per_provider=True) as service:
        world, odd = World(service), 'a "host" \\n\nü'
        record = {"total": 8, "reserved": 1, "allocation_ratio": 2.5}
        host = world.provider(odd, inventory={"VCPU": record, "DISK_GB": 5})
        world.provider("b", parent=host, inventory={"VCPU": 3})
        world.provider("empty")
        assert read(service)["openstack_placement_resource_usage", odd, "VCPU"] == 0
        world.claim({host: {"VCPU": 4}})
        world.replace(host, "traits", ["HW_NUMA_ROOT", "HW_CPU_X86_AVX2"])
        traits = {key for key in read(service) if key[0] == "placement_provider_trait_info"}
        assert {key[1:] for key in traits} == {(odd, "HW_NUMA_ROOT"), (odd, "HW_CPU_X86_AVX2")}
        seen = {key: value for key, value in read(service).items() if "openstack" in key[0]}
        expected = {
            (odd, "VCPU"): (8, 1, 4, 2.5),
            (odd, "DISK_GB"): (5, 0, 0, 1),
            ("b", "VCPU"): (3, 0, 0, 1),
        }
        names = ("total", "reserved", "usage", "allocation_ratio")
        shown = service.request("GET", "/resource_providers", version="1.39").json
        providers = {each["name"]: each for each in shown["resource_providers"]}
        assert seen == {("openstack_placement_up",): 1} | {
            (f"openstack_placement_resource_{name}", *labels): value
            for labels, figures in expected.items()
            for name, value in zip(names, figures, strict=True)
        } | {
            ("openstack_placement_resource_provider_allocations", name, kind, providers[name]["uuid"]): used
            for (name, kind), (_, _, used, _) in expected.items()
        } | {
            ("openstack_placement_resource_generation", name, provider["uuid"]): provider["generation"]
            for name, provider in providers.items()
        }  # fmt: skip
    with running(insight__enabled=True) as service:
        World(service).host(VCPU=1)
        assert "openstack" not in service.request("GET", "/-/metrics").text
        with recorded(service.db) as statements:
            assert "trait_info" not in service.request("GET", "/-/metrics").text
        assert statements == []


@pytest.mark.parametrize("kind", databases.KINDS)
def test_each_consumer_is_shown_if_asked_for(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it holds of a class on all providers together, whatever its project is called."""
    monkeypatch.setattr(consumer_rows, "BATCH", 2)
    odd = 'a "project" \\n\nü'
    with running(kind, insight__enabled=True, insight__metrics_per_consumer=True) as service:
        world = World(service)
        one, other = (world.provider(name, inventory={"VCPU": 8, "DISK_GB": 50}) for name in "ab")
        assert shown_consumers(service) == {}
        first = world.claim({one: {"VCPU": 4, "DISK_GB": 1}, other: {"VCPU": 2}}, project_id=odd)
        rest = [world.claim({other: {"DISK_GB": 5}}, consumer_type="MIGRATION") for _ in range(4)]
        assert shown_consumers(service) == {
            ("VCPU", first, odd, "INSTANCE"): 6,
            ("DISK_GB", first, odd, "INSTANCE"): 1,
        } | {("DISK_GB", each, "red", "MIGRATION"): 5 for each in rest}
        assert read(service)["placement_consumer_usage_complete",] == 1


def shown_consumers(service: Service) -> dict[tuple[str, ...], float]:
    """Return the amounts by class, consumer, project and type."""
    shown = read(service)
    return {key[1:]: shown[key] for key in shown if key[0] == "openstack_placement_consumer_usage"}


@pytest.fixture
def breakable(tmp_path: Path) -> Iterator[tuple[Service, Callable[[], None]]]:
    """A service that shows each provider and consumer, and a function that takes its database away."""
    file = tmp_path / "placement.db"
    url = f"sqlite:///{file}"
    shown = {f"insight__metrics_per_{each}": True for each in ("provider", "consumer")}
    conf = configure(placement_database__connection=url, insight__enabled=True, **shown)
    db = Database(make_engine(url), attempts=lambda: 1)
    schema.sync(db)

    def destroy() -> None:
        db.dispose()
        file.unlink()
        file.mkdir()

    yield Service(conf, db), destroy
    db.dispose()


def test_a_cloud_that_cannot_be_read_is_not_up(
    breakable: tuple[Service, Callable[[], None]],
) -> None:
    """The exporter's alert is about 0, not about a metric that is missing; the other numbers are there."""
    service, destroy = breakable
    World(service).host(VCPU=1)
    assert read(service)["openstack_placement_up",] == 1
    destroy()
    seen = read(service)
    assert {name: seen[name, *rest] for name, *rest in seen if "openstack" in name} == {
        "openstack_placement_up": 0
    }
    assert seen["placement_search_candidates_count",] == 0
    assert seen["placement_consumer_usage_complete",] == 0


def test_a_list_of_consumers_that_was_cut_says_so(
    breakable: tuple[Service, Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is lost between two parts; what was read before is shown."""
    monkeypatch.setattr(consumer_rows, "BATCH", 1)
    service, destroy = breakable
    world = World(service)
    host = world.host(VCPU=8)
    first, _ = (world.claim({host: {"VCPU": 1}}) for _ in range(2))
    parts = []
    for part in service.request("GET", "/-/metrics").app_iter:
        parts.append(part)
        if b"openstack_placement_consumer_usage{" in part:
            destroy()
    shown = [line for line in b"".join(parts).decode().splitlines() if "consumer_usage" in line]
    owner = 'project="red",type="INSTANCE",class="VCPU"'
    assert [line for line in shown if not line.startswith("#")] == [
        f'openstack_placement_consumer_usage{{consumer="{first}",{owner}}} 1',
        "placement_consumer_usage_complete 0",
    ]
