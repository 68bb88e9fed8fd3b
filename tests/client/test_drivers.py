"""The drivers that ship: the cases of the reshape specification, with consumers in place."""

import configparser
from pathlib import Path

import pytest
from oslo_config import cfg

from placement.client import drivers
from placement.client import exceptions as exc
from placement.client.drivers.file import FileDriver
from placement.client.drivers.split import Node, NodePart, NumaDriver, VgpuDriver, read_layout
from placement.client.report import ReportClient
from placement.client.tracker import Driver, ResourceTracker
from placement.client.tree_file import TreeFileError
from tests.client.world import Recorder, World
from tests.support.world import new_uuid

ROOT = Path(__file__).parents[2]

Filed = tuple[FileDriver, str, str, str]
"""Driver, name, root, consumer."""


def test_vgpus_move_to_their_physical_gpus(
    client: ReportClient, recorder: Recorder, world: World
) -> None:
    """VGPU on the host, in use; one child per physical GPU afterwards."""
    name, root = world.node(VCPU=16, VGPU=8)
    known = world.claim({root: {"VCPU": 2, "VGPU": 1}})
    large = world.claim({root: {"VCPU": 2, "VGPU": 4}})
    small = world.claim({root: {"VCPU": 2, "VGPU": 2}})
    without = world.claim({root: {"VCPU": 1}})
    gpu = {"VGPU": {"total": 4, "max_unit": 4, "reserved": 0, "allocation_ratio": 1.0}}
    parts = {
        "gpu0": NodePart(gpu, frozenset(["CUSTOM_NVIDIA_11"]), frozenset([known])),
        "gpu1": NodePart(gpu),
    }
    driver = VgpuDriver({name: Node(root, parts)})

    ResourceTracker(client, driver).update_available_resource(None)
    assert world.totals(root) == {"VCPU": 16, "VGPU": 8}, "not in a period"
    ResourceTracker(client, driver).update_available_resource(None, startup=True)

    found = world.below(root)
    gpu0, gpu1 = found[f"{name}_gpu0"], found[f"{name}_gpu1"]
    assert world.totals(root) == {"VCPU": 16}
    assert world.totals(gpu0) == world.totals(gpu1) == {"VGPU": 4}
    assert world.traits(gpu0) == {"CUSTOM_NVIDIA_11"}
    assert world.used(known) == {root: {"VCPU": 2}, gpu0: {"VGPU": 1}}
    assert world.used(large) == {root: {"VCPU": 2}, gpu1: {"VGPU": 4}}
    assert world.used(small) == {root: {"VCPU": 2}, gpu0: {"VGPU": 2}}
    assert world.used(without) == {root: {"VCPU": 1}}

    recorder.clear()
    ResourceTracker(client, driver).update_available_resource(None, startup=True)
    assert recorder.writes() == []
    world.claim({root: {"VCPU": 1}, gpu0: {"VGPU": 1}})


def test_vgpus_that_fit_nowhere_leave_everything_as_it_is(
    client: ReportClient, recorder: Recorder, world: World
) -> None:
    name, root = world.node(VGPU=8)
    consumer = world.claim({root: {"VGPU": 5}})
    gpu = NodePart({"VGPU": {"total": 4}})
    driver = VgpuDriver({name: Node(root, {"gpu0": gpu, "gpu1": gpu})})
    with pytest.raises(exc.ReshapeFailed, match=consumer):
        ResourceTracker(client, driver).update_node(None, name, startup=True)
    assert recorder.writes() == []


def test_numa_cells_get_processors_memory_and_virtual_functions(
    client: ReportClient, world: World
) -> None:
    """Several classes move together; a consumer too large for a cell is divided."""
    name, root = world.node(VCPU=16, MEMORY_MB=2048, SRIOV_NET_VF=4, DISK_GB=100)
    wide = world.claim({root: {"VCPU": 6, "MEMORY_MB": 1100, "DISK_GB": 10}})
    normal = world.claim({root: {"VCPU": 4, "MEMORY_MB": 512, "SRIOV_NET_VF": 2}})
    small = world.claim({root: {"VCPU": 1, "MEMORY_MB": 64}})
    cell = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 1024}}
    parts = {"cell0": NodePart({**cell, "SRIOV_NET_VF": {"total": 4}}), "cell1": NodePart(cell)}
    driver = NumaDriver({name: Node(root, parts, {"DISK_GB": {"total": 100}})})

    ResourceTracker(client, driver).update_available_resource(None, startup=True)

    found = world.below(root)
    cell0, cell1 = found[f"{name}_cell0"], found[f"{name}_cell1"]
    assert world.totals(root) == {"DISK_GB": 100}
    held = {consumer: world.used(consumer) for consumer in (wide, normal, small)}
    assert held[wide].pop(root) == {"DISK_GB": 10}
    assert sum(place.get("MEMORY_MB", 0) for place in held[wide].values()) == 1100
    assert held[normal][cell0]["SRIOV_NET_VF"] == 2
    for consumer, amounts in ((wide, (6, 1100)), (normal, (4, 512)), (small, (1, 64))):
        assert set(held[consumer]) <= {cell0, cell1}
        for resource_class, amount in zip(("VCPU", "MEMORY_MB"), amounts, strict=True):
            places = held[consumer].values()
            assert sum(place.get(resource_class, 0) for place in places) == amount


def test_a_fresh_node_gets_its_parts_without_a_reshape(
    client: ReportClient, recorder: Recorder, world: World
) -> None:
    root = new_uuid()
    driver = VgpuDriver({f"host-{root}": Node(root, {"gpu0": NodePart({"VGPU": {"total": 4}})})})
    ResourceTracker(client, driver).update_available_resource(None)
    assert ("post", "/reshaper") not in recorder.writes()
    assert [world.totals(key) for key in world.below(root).values()] == [{"VGPU": 4}]


# ---- the file driver

RENAMED = """placement_tree: 1
unlisted: remove
providers:
  - name: {name}
    uuid: {root}
    inventories:
      VCPU: {{total: 8}}
      PGPU: {{total: 4}}
    traits: [CUSTOM_FROM_FILE]
    takes_over:
      - {{from: {name}, class: CUSTOM_GPU, as: PGPU}}
    children:
      - name: {name}_disk
        inventories:
          DISK_GB: {{total: 50}}
        takes_over:
          - {{from: {name}, class: DISK_GB}}
"""


@pytest.fixture
def filed(client: ReportClient, world: World, tmp_path: Path) -> Filed:
    """A node whose file renames a class and moves another: driver, name, root, consumer."""
    name, root = world.node(VCPU=8, CUSTOM_GPU=4, DISK_GB=50)
    consumer = world.claim({root: {"VCPU": 1, "CUSTOM_GPU": 2, "DISK_GB": 9}})
    path = tmp_path / "tree.yaml"
    path.write_text(RENAMED.format(name=name, root=root))
    return FileDriver(path), name, root, consumer


def test_the_file_says_what_a_node_looks_like(
    client: ReportClient, recorder: Recorder, world: World, filed: Filed
) -> None:
    """The third case of the specification: a custom class becomes a standard one."""
    driver, name, root, consumer = filed
    tracker = ResourceTracker(client, driver)
    with pytest.raises(exc.ReshapeNeeded):
        tracker.update_node(None, name)
    assert recorder.writes() == []
    tracker.update_node(None, name, startup=True)
    disk = world.below(root)[f"{name}_disk"]
    assert world.totals(root) == {"VCPU": 8, "PGPU": 4}
    assert world.used(consumer) == {root: {"VCPU": 1, "PGPU": 2}, disk: {"DISK_GB": 9}}
    assert world.traits(root) == {"CUSTOM_FROM_FILE"}
    recorder.clear()
    tracker.update_node(None, name, startup=True)
    tracker.update_node(None, name)
    assert recorder.writes() == []


def test_a_file_that_breaks_later_changes_nothing(
    client: ReportClient,
    recorder: Recorder,
    filed: Filed,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, *_ = filed
    nodes = driver.get_available_nodes()
    monkeypatch.setattr(driver, "get_available_nodes", lambda: nodes)
    driver._path.write_text("placement_tree: 1\nproviders: [{}]\n")
    ResourceTracker(client, driver).update_available_resource(None)
    assert recorder.writes() == []
    assert "tree.yaml:2: " in caplog.text


def test_roots_in_the_file_need_their_uuid(tmp_path: Path) -> None:
    path = tmp_path / "tree.yaml"
    path.write_text("placement_tree: 1\nproviders:\n  - name: a\n")
    with pytest.raises(TreeFileError, match=r"tree.yaml:3: root 'a' needs its `uuid`"):
        FileDriver(path).get_available_nodes()


# ---- finding drivers


def declared() -> dict[str, str]:
    """The drivers that setup.cfg declares: name to target."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["options.entry_points"]["placement.tree_drivers"].strip().splitlines()
    return {name.strip(): target.strip() for name, target in (one.split("=") for one in lines)}


LAYOUT = """host1:
  uuid: 6f7a0c54-1111-4222-8333-944445555666
  inventory: {DISK_GB: {total: 100}}
  parts:
    gpu0:
      inventory: {VGPU: {total: 8}}
      traits: [CUSTOM_NVIDIA_11]
"""


@pytest.mark.parametrize("name", ["file", "vgpu", "numa"])
def test_declared_drivers_are_made_from_the_configuration(
    name: str, conf: cfg.ConfigOpts, tmp_path: Path
) -> None:
    layout, tree = tmp_path / "layout.yaml", tmp_path / "tree.yaml"
    layout.write_text(LAYOUT)
    host = "6f7a0c54-1111-4222-8333-944445555666"
    tree.write_text(f"placement_tree: 1\nproviders: [{{name: host1, uuid: {host}}}]\n")
    conf.set_override("layout_file", str(layout), group="tree_driver")
    conf.set_override("tree_file", str(tree), group="tree_driver")
    try:
        driver = drivers.load(declared()[name], conf)
        assert isinstance(driver, Driver)
        assert dict(driver.get_available_nodes()) == {"host1": host}
    finally:
        conf.clear_override("layout_file", group="tree_driver")
        conf.clear_override("tree_file", group="tree_driver")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nosuchdriver", "no driver 'nosuchdriver'; installed are"),
        ("no.such.module:factory", "cannot be imported"),
        ("placement.client.drivers.file:nothing", "cannot be imported"),
        ("placement.client.drivers.file:from_conf", r"set \[tree_driver\]/tree_file"),
        ("builtins:len", "which is not a driver"),
        ("builtins:ord", "cannot be made"),
    ],
)
def test_drivers_that_cannot_be_loaded(name: str, words: str, conf: cfg.ConfigOpts) -> None:
    with pytest.raises(drivers.DriverNotLoaded, match=words):
        drivers.load(name, conf)


@pytest.mark.parametrize(
    "text", ["", "host: 5", "host: {uuid: x, parts: {}}", "host: {parts: {}}", "a: ["]
)
def test_layouts_that_are_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "layout.yaml"
    path.write_text(text)
    with pytest.raises(exc.PlacementClientError, match=r"layout\.yaml"):
        read_layout(path)
