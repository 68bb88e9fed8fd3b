"""The start-up and periodic flow, and offline: specification 05 sections C8, C9, C11 20 to 22."""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from placement.client import exceptions as exc
from placement.client.migrate import migrate_compute_inventory
from placement.client.provider_tree import ProviderTree
from placement.client.report import ReportClient
from placement.client.tracker import Driver, ResourceTracker
from placement.cmd import migrate_inventory
from tests.client.world import EACH, Recorder, World
from tests.support.commands import Forked
from tests.support.processes import ran
from tests.support.world import new_uuid

Fault = Callable[[ProviderTree, Any], object]
"""What a driver does to the tree and the allocations instead of its work."""

Command = Callable[..., tuple[Any, Any]]
"""Takes the arguments; returns the exit status, and what was said on both outputs."""


class GpuDriver(Driver):
    """Wants VGPU on a child.

    ``faults`` for the tests: by node name, and by whether allocations were given.
    """

    def __init__(self, nodes: dict[str, str]) -> None:
        self.nodes = nodes
        self.calls: list[tuple[str, bool]] = []
        self.faults: dict[tuple[str, bool], Fault] = {}

    def get_available_nodes(self) -> dict[str, str]:
        return self.nodes

    def update_provider_tree(
        self, provider_tree: ProviderTree, nodename: str, allocations: dict[str, Any] | None = None
    ) -> None:
        self.calls.append((nodename, allocations is not None))
        provider_tree.add_traits(nodename, "CUSTOM_SEEN")
        fault = self.faults.get((nodename, allocations is not None))
        if fault:
            fault(provider_tree, allocations)
        root = provider_tree.data(nodename)
        if "VGPU" not in root.inventory:
            return
        if allocations is None:
            raise exc.ReshapeNeeded("VGPU")
        name = f"{nodename}_gpu"
        if not provider_tree.exists(name):  # an attempt that met a conflict created it
            provider_tree.new_child(name, nodename)
        child = provider_tree.data(name).uuid
        inventory = root.inventory
        provider_tree.update_inventory(child, {"VGPU": inventory.pop("VGPU")})
        provider_tree.update_inventory(nodename, inventory)
        for record in allocations.values():
            place = record["allocations"].get(root.uuid, {"resources": {}})["resources"]
            if "VGPU" in place:
                record["allocations"][child] = {"resources": {"VGPU": place.pop("VGPU")}}


@pytest.fixture
def nodes(world: World) -> dict[str, str]:
    """Two nodes with VGPU in use on the root: name to root UUID."""
    found = dict(world.node(VCPU=8, VGPU=4) for _ in range(2))
    for root in found.values():
        world.claim({root: {"VCPU": 1, "VGPU": 2}})
    return found


@pytest.fixture
def node(nodes: dict[str, str]) -> tuple[str, str]:
    """Name and root of the first node."""
    return next(iter(nodes.items()))


@pytest.fixture
def driver(nodes: dict[str, str]) -> GpuDriver:
    return GpuDriver(nodes)


@pytest.fixture
def tracker(client: ReportClient, driver: GpuDriver) -> ResourceTracker:
    return ResourceTracker(client, driver)


def is_reshaped(world: World, root: str) -> bool:
    """All VGPU of a node is on its one child."""
    on_children = [world.totals(child) for child in world.below(root).values()]
    return (world.totals(root), on_children) == ({"VCPU": 8}, [{"VGPU": 4}])


def test_reshaping_happens_at_start_up(
    tracker: ResourceTracker, driver: GpuDriver, world: World, nodes: dict[str, str]
) -> None:
    """C11 20."""
    tracker.update_available_resource(None, startup=True)
    assert all(is_reshaped(world, root) for root in nodes.values())
    assert all(world.traits(root) == {"CUSTOM_SEEN"} for root in nodes.values())
    assert driver.calls == [(name, late) for name in nodes for late in (False, True)]
    driver.calls.clear()
    tracker.update_available_resource(None)
    assert driver.calls == [(name, False) for name in nodes]


def test_a_reshape_needed_later_is_logged_and_left(
    tracker: ResourceTracker,
    node: tuple[str, str],
    recorder: Recorder,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C11 20: in a period; the edits of the driver are discarded."""
    tracker.update_available_resource(None)
    assert recorder.writes() == []
    assert [one.levelno for one in caplog.records if "left as it is" in one.message] == [
        logging.ERROR
    ] * 2
    assert "restart the agent" in caplog.text
    with pytest.raises(exc.ReshapeNeeded, match="VGPU"):
        tracker.update_node(None, node[0])


def again(tree: ProviderTree, allocations: dict[str, Any] | None) -> None:
    raise exc.ReshapeNeeded


def broken(tree: ProviderTree, allocations: dict[str, Any] | None) -> None:
    raise ZeroDivisionError("driver fault")


@pytest.mark.parametrize(
    ("fault", "words", "cause"),
    [
        (again, "fault of the driver", exc.ReshapeNeeded),
        (broken, "driver fault", ZeroDivisionError),
    ],
)
def test_a_driver_that_asks_twice_or_breaks_during_a_reshape_stops_the_agent(
    tracker: ResourceTracker,
    driver: GpuDriver,
    nodes: dict[str, str],
    recorder: Recorder,
    fault: Fault,
    words: str,
    cause: type[Exception],
) -> None:
    """C11 20: at start-up."""
    first, second = nodes
    driver.faults[first, True] = fault
    with pytest.raises(exc.ReshapeFailed, match=words) as caught:
        tracker.update_available_resource(None, startup=True)
    assert isinstance(caught.value.__cause__, cause)
    assert recorder.writes() == []
    assert (second, False) not in driver.calls


@pytest.mark.parametrize("startup", [False, True])
def test_a_driver_that_breaks_otherwise_stops_nothing(
    tracker: ResourceTracker,
    driver: GpuDriver,
    world: World,
    node: tuple[str, str],
    startup: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (first, root), (fine, new) = node, world.node(VCPU=1)
    driver.faults[first, False] = broken
    driver.nodes = {first: root, fine: new}
    tracker.update_available_resource(None, startup=startup)
    assert world.traits(new) == {"CUSTOM_SEEN"}
    assert "ZeroDivisionError" in caplog.text


def unknown_class(tree: ProviderTree, allocations: dict[str, Any] | None) -> None:
    """Give the root a class that the service does not know."""
    root = tree.roots[0].uuid
    tree.update_inventory(root, {"VCPU": {"total": 8}, "BANANAS": {"total": 1}})


def test_a_failed_update_is_fatal_at_start_up_only(
    tracker: ResourceTracker, driver: GpuDriver, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """C11 21."""
    driver.nodes = dict([world.node(), world.node()])
    name, second = next(iter(driver.nodes)), list(driver.nodes.values())[1]
    driver.faults[name, False] = unknown_class
    tracker.update_available_resource(None)
    assert world.traits(second) == {"CUSTOM_SEEN"}
    assert "BANANAS" in caplog.text and "the next period tries again" in caplog.text
    world.set_traits(second, [])
    with pytest.raises(exc.ResourceProviderSyncFailed):
        tracker.update_available_resource(None, startup=True)
    assert world.traits(second) == set()


def test_a_failed_reshape_of_the_driver_is_raised_in_a_period_too(
    tracker: ResourceTracker, driver: GpuDriver, node: tuple[str, str]
) -> None:
    def cannot(tree: ProviderTree, allocations: dict[str, Any] | None) -> None:
        raise exc.ReshapeFailed("no")

    driver.faults[node[0], False] = cannot
    with pytest.raises(exc.ReshapeFailed):
        tracker.update_available_resource(None)


@pytest.mark.parametrize(("drops", "claims"), [(None, 1), ("Placement-Seen-Inventories", 3)])
def test_claims_of_what_stays_are_followed(
    tracker: ResourceTracker,
    driver: GpuDriver,
    recorder: Recorder,
    world: World,
    node: tuple[str, str],
    drops: str | None,
    claims: int,
) -> None:
    """A second writer claims between the reading and the reshape.

    To a service that knows the tag of the inventories that is no conflict. To another one the reshape is
    sent again.
    """
    name, root = node
    recorder.drops = drops
    recorder.before("post", "/reshaper", lambda: world.claim({root: {"VCPU": 1}}), times=claims)
    tracker.update_node(None, name, startup=True)
    assert is_reshaped(world, root)
    assert driver.calls.count((name, True)) == 1
    sent = [
        status
        for (_, url), status in zip(recorder.requests, recorder.statuses, strict=True)
        if url == "/reshaper"
    ]
    assert sent == [409] * (claims if drops else 0) + [204]


def test_an_inventory_that_changed_meanwhile_is_not_overwritten(
    tracker: ResourceTracker,
    driver: GpuDriver,
    recorder: Recorder,
    world: World,
    node: tuple[str, str],
) -> None:
    """Its generation is not followed: the driver sees what somebody else wrote."""
    name, root = node
    recorder.before("post", "/reshaper", lambda: world.set_inventory(root, {"VCPU": 16, "VGPU": 4}))
    tracker.update_node(None, name, startup=True)
    assert world.totals(root) == {"VCPU": 16}
    assert driver.calls.count((name, True)) == 2


def test_endless_conflicts_on_one_provider_are_raised_as_they_are(
    client: ReportClient, driver: GpuDriver, recorder: Recorder, world: World
) -> None:
    name, root = world.node()
    driver.nodes = {name: root}
    traits = iter(f"CUSTOM_{n}" for n in range(99))
    recorder.before(
        "put", f"{root}/traits", lambda: world.set_traits(root, [next(traits)]), times=EACH
    )
    with pytest.raises(exc.ResourceProviderUpdateConflict):
        ResourceTracker(client, driver, max_attempts=2).update_node(None, name)
    assert driver.calls == [(name, False)] * 2


@pytest.mark.parametrize("startup", [True, False])
def test_nodes_are_updated_by_the_method_for_one(startup: bool) -> None:
    """C8: whoever overrides update_node is asked for every node."""
    asked = []

    class Tracker(ResourceTracker):
        def update_node(self, context: object, nodename: str, startup: bool = False) -> None:
            asked.append((context, nodename, startup))

    nobody: Any = None
    Tracker(nobody, GpuDriver({"a": new_uuid(), "b": new_uuid()})).update_available_resource(
        "context", startup=startup
    )
    assert asked == [("context", "a", startup), ("context", "b", startup)]


@pytest.mark.parametrize("nonsense", [None, ["node"], {"node": 5}, {3: "x"}])
def test_nonsense_for_nodes_names_the_driver(
    tracker: ResourceTracker, driver: GpuDriver, nonsense: Any
) -> None:
    driver.nodes = nonsense
    with pytest.raises(exc.PlacementClientError, match="correct the driver"):
        tracker.update_available_resource(None)


def test_a_node_the_driver_does_not_have(
    tracker: ResourceTracker, client: ReportClient, driver: GpuDriver
) -> None:
    with pytest.raises(ValueError, match="elsewhere"):
        tracker.update_node(None, "elsewhere")
    with pytest.raises(ValueError, match="elsewhere"):
        migrate_compute_inventory(None, client, driver, ["elsewhere"])


def test_the_base_driver_does_nothing() -> None:
    for call in (
        Driver().get_available_nodes,
        lambda: Driver().update_provider_tree(ProviderTree(), ""),
    ):
        with pytest.raises(NotImplementedError):
            call()


# ---- offline


def test_offline(
    client: ReportClient, driver: GpuDriver, recorder: Recorder, world: World, nodes: dict[str, str]
) -> None:
    """C11 22: needed, again, unknown to the service, one failing."""
    first, second = nodes
    absent = f"absent-{new_uuid()}"
    driver.nodes = {**nodes, absent: new_uuid()}
    driver.faults[second, True] = broken
    results = migrate_compute_inventory(None, client, driver)
    assert list(results) == [first, second, absent]
    assert (results[first], results[absent]) == ("reshaped", "absent")
    assert isinstance(results[second], exc.ReshapeFailed)
    assert is_reshaped(world, nodes[first]) and not is_reshaped(world, nodes[second])
    assert not world.exists(driver.nodes[absent])

    driver.faults.clear()
    recorder.clear()
    assert migrate_compute_inventory(None, client, driver, [first]) == {first: "unchanged"}
    assert recorder.writes() == []
    assert migrate_compute_inventory(None, client, driver, [second, second]) == {second: "reshaped"}


def test_offline_ordinary_changes_are_not_written(
    client: ReportClient, driver: GpuDriver, recorder: Recorder, world: World
) -> None:
    name, root = world.node()
    driver.nodes = {name: root}
    assert migrate_compute_inventory(None, client, driver) == {name: "unchanged"}
    assert recorder.writes() == []
    assert world.traits(root) == set()


def test_offline_conflicts_start_over_and_finish(
    client: ReportClient,
    driver: GpuDriver,
    recorder: Recorder,
    world: World,
    node: tuple[str, str],
) -> None:
    name, root = node
    recorder.before("post", "/reshaper", lambda: world.claim({root: {"VCPU": 1}}))
    recorder.before("put", f"{root}/traits", lambda: world.set_traits(root, ["CUSTOM_OTHER"]))
    assert migrate_compute_inventory(None, client, driver, [name]) == {name: "reshaped"}
    assert world.traits(root) == {"CUSTOM_OTHER", "CUSTOM_SEEN"}


# ---- the command

DRIVER: Driver | None = None


def make_driver(conf: cfg.ConfigOpts) -> Driver | None:
    return DRIVER


@pytest.fixture
def command(
    conf: cfg.ConfigOpts,
    driver: GpuDriver,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """placement-migrate-compute-inventory with the driver of the test."""
    monkeypatch.setattr(sys.modules[__name__], "DRIVER", driver)

    def run(*arguments: str) -> tuple[Any, Any]:
        name = f"{__name__}:make_driver"
        argv = ["--config-file", conf.config_file[0], "--driver", name, *arguments]
        try:
            status: Any = migrate_inventory.main(argv)
        except SystemExit as ended:
            status = ended.code
        return status, capsys.readouterr()

    return run


def test_the_command_reshapes_and_says_so(
    command: Command, driver: GpuDriver, world: World, nodes: dict[str, str]
) -> None:
    first, second = nodes
    driver.faults[second, True] = broken
    status, said = command()
    assert status == 1
    assert len(said.out.splitlines()) == 2
    assert said.out.splitlines()[0] == f"{first}: reshaped"
    assert said.out.splitlines()[1].startswith(f"{second}: failed: ")
    assert is_reshaped(world, nodes[first])
    driver.faults.clear()
    assert command("--node", second)[0] == 0
    assert command("--node", first, "--node", second)[1].out == (
        f"{first}: unchanged\n{second}: unchanged\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("--node", "nowhere"),
        ("--driver", "no.such.module:x"),
        ("--driver", "nosuchdriver"),
        ("--driver", "vgpu"),
        ("--nonsense",),
        ("--config-file", "/nonexistent/placement.conf"),
    ],
)
def test_bad_arguments_end_with_2(command: Command, arguments: tuple[str, ...]) -> None:
    status, said = command(*arguments)
    assert status == 2
    assert "placement-migrate-compute-inventory: " in said.err


def test_a_database_that_is_not_there_is_said_in_words(tmp_path: Path) -> None:
    path, tree = tmp_path / "placement.conf", tmp_path / "tree.yaml"
    tree.write_text(f"placement_tree: 1\nproviders:\n  - name: a\n    uuid: {new_uuid()}\n")
    path.write_text(
        "[placement_database]\nconnection = sqlite:////nowhere/x\n"
        f"[tree_driver]\ntree_file = {tree}\n"
    )
    arguments = ["--driver", "file", "--config-file", str(path)]
    # This process has its database already.
    done = Forked("placement-migrate-compute-inventory", *arguments, environment=os.environ).wait()
    assert done.returncode == 1
    assert "Check the path of the file" in done.stderr
    assert "Error" not in done.stderr


def test_a_failed_node_is_one_line_too(
    command: Command, driver: GpuDriver, node: tuple[str, str]
) -> None:
    """The texts of the service are several lines."""
    name, _ = node
    driver.faults[name, True] = lambda tree, allocations: allocations.clear()
    status, said = command("--node", name)
    assert (status, len(said.out.splitlines())) == (1, 1)
    assert said.out.startswith(f"{name}: failed: ")
    assert "placement.inventory.inuse" in said.out


@pytest.mark.parametrize("named", ["directory", "file"])
def test_the_command_reads_what_it_is_told_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    """As the service does: another database in a forgotten placement.conf.d is not reshaped."""
    path = tmp_path / "placement.conf"
    path.write_text("[placement_database]\nconnection = sqlite:///meant\n")
    forgotten = tmp_path / ".placement" / "placement.conf.d"
    forgotten.mkdir(parents=True)
    (forgotten / "old.conf").write_text("[placement_database]\nconnection = sqlite:///old\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    if named == "directory":
        monkeypatch.setenv("OS_PLACEMENT_CONFIG_DIR", str(tmp_path))
    loaded = migrate_inventory.load_configuration([str(path)] if named == "file" else None)
    assert loaded.placement_database.connection == "sqlite:///meant"


def test_the_client_imports_nothing_of_the_server() -> None:
    program = (
        "import sys, placement.client.migrate, placement.client.drivers.file,"
        " placement.client.drivers.split, placement.client.tree_diff\n"
        "print([n for n in sys.modules if n.startswith('placement.')"
        " and not n.startswith('placement.client')])"
    )
    done = ran([sys.executable, "-c", program])
    assert done.stdout == "[]\n", done.stderr
