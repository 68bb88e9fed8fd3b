"""The start-up and periodic flow, and offline: specification 05 sections C8, C9, C11 20 to 22."""

import errno
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


class Agent:
    """The agent of two nodes with VGPU in use on the root, its requests, and somebody else."""

    def __init__(self, recorder: Recorder, world: World) -> None:
        self.recorder, self.world = recorder, world
        self.nodes = dict(world.node(VCPU=8, VGPU=4) for _ in range(2))
        self.node = next(iter(self.nodes.items()))
        for root in self.nodes.values():
            world.claim({root: {"VCPU": 1, "VGPU": 2}})
        self.client, self.driver = ReportClient(recorder), GpuDriver(self.nodes)
        self.tracker = ResourceTracker(self.client, self.driver)

    def start(self) -> None:
        """Start up."""
        self.tracker.update_available_resource(None, startup=True)

    def work(self) -> None:
        """Do what is done in each period."""
        self.tracker.update_available_resource(None)

    def migrate(self, *names: str) -> dict[str, Any]:
        """Reshape offline, all nodes unless some are named."""
        return migrate_compute_inventory(None, self.client, self.driver, names or None)

    def is_reshaped(self, root: str) -> bool:
        """All VGPU of a node is on its one child."""
        on_children = [self.world.totals(child) for child in self.world.below(root).values()]
        return (self.world.totals(root), on_children) == ({"VCPU": 8}, [{"VGPU": 4}])


@pytest.fixture
def agent(recorder: Recorder, world: World) -> Agent:
    return Agent(recorder, world)


def test_reshaping_happens_at_start_up(agent: Agent) -> None:
    """C11 20."""
    agent.start()
    assert all(agent.is_reshaped(root) for root in agent.nodes.values())
    assert all(agent.world.traits(root) == {"CUSTOM_SEEN"} for root in agent.nodes.values())
    assert agent.driver.calls == [(name, late) for name in agent.nodes for late in (False, True)]
    agent.driver.calls.clear()
    agent.work()
    assert agent.driver.calls == [(name, False) for name in agent.nodes]


def test_a_reshape_needed_later_is_logged_and_left(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    """C11 20: in a period; the edits of the driver are discarded."""
    agent.work()
    assert agent.recorder.writes() == []
    assert [one.levelno for one in caplog.records if "left as it is" in one.message] == [
        logging.ERROR
    ] * 2
    assert "restart the agent" in caplog.text
    with pytest.raises(exc.ReshapeNeeded, match="VGPU"):
        agent.tracker.update_node(None, agent.node[0])


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
    agent: Agent, fault: Fault, words: str, cause: type[Exception]
) -> None:
    """C11 20: at start-up."""
    first, second = agent.nodes
    agent.driver.faults[first, True] = fault
    with pytest.raises(exc.ReshapeFailed, match=words) as caught:
        agent.start()
    assert isinstance(caught.value.__cause__, cause)
    assert agent.recorder.writes() == []
    assert (second, False) not in agent.driver.calls


@pytest.mark.parametrize("startup", [False, True])
def test_a_driver_that_breaks_otherwise_stops_nothing(
    agent: Agent, startup: bool, caplog: pytest.LogCaptureFixture
) -> None:
    (first, root), (fine, new) = agent.node, agent.world.node(VCPU=1)
    agent.driver.faults[first, False] = broken
    agent.driver.nodes = {first: root, fine: new}
    agent.tracker.update_available_resource(None, startup=startup)
    assert agent.world.traits(new) == {"CUSTOM_SEEN"}
    assert "ZeroDivisionError" in caplog.text


def unknown_class(tree: ProviderTree, allocations: dict[str, Any] | None) -> None:
    """Give the root a class that the service does not know."""
    root = tree.roots[0].uuid
    tree.update_inventory(root, {"VCPU": {"total": 8}, "BANANAS": {"total": 1}})


def test_a_failed_update_is_fatal_at_start_up_only(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    """C11 21."""
    (name, first), (other, second) = agent.world.node(), agent.world.node()
    agent.driver.nodes = {name: first, other: second}
    agent.driver.faults[name, False] = unknown_class
    agent.work()
    assert agent.world.traits(second) == {"CUSTOM_SEEN"}
    assert "BANANAS" in caplog.text and "the next period tries again" in caplog.text
    agent.world.set_traits(second, [])
    with pytest.raises(exc.ResourceProviderSyncFailed):
        agent.start()
    assert agent.world.traits(second) == set()


def test_a_failed_reshape_of_the_driver_is_raised_in_a_period_too(agent: Agent) -> None:
    def cannot(tree: ProviderTree, allocations: dict[str, Any] | None) -> None:
        raise exc.ReshapeFailed("no")

    agent.driver.faults[agent.node[0], False] = cannot
    with pytest.raises(exc.ReshapeFailed):
        agent.work()


@pytest.mark.parametrize(("drops", "claims"), [(None, 1), ("Placement-Seen-Inventories", 3)])
def test_claims_of_what_stays_are_followed(agent: Agent, drops: str | None, claims: int) -> None:
    """A second writer claims between the reading and the reshape.

    To a service that knows the tag of the inventories that is no conflict. To another one the reshape is
    sent again.
    """
    name, root = agent.node
    agent.recorder.drops = drops
    agent.recorder.before(
        "post", "/reshaper", lambda: agent.world.claim({root: {"VCPU": 1}}), times=claims
    )
    agent.tracker.update_node(None, name, startup=True)
    assert agent.is_reshaped(root)
    assert agent.driver.calls.count((name, True)) == 1
    sent = [
        status
        for (_, url), status in zip(agent.recorder.requests, agent.recorder.statuses, strict=True)
        if url == "/reshaper"
    ]
    assert sent == [409] * (claims if drops else 0) + [204]


def test_an_inventory_that_changed_meanwhile_is_not_overwritten(agent: Agent) -> None:
    """Its generation is not followed: the driver sees what somebody else wrote."""
    name, root = agent.node
    agent.recorder.before(
        "post", "/reshaper", lambda: agent.world.set_inventory(root, {"VCPU": 16, "VGPU": 4})
    )
    agent.tracker.update_node(None, name, startup=True)
    assert agent.world.totals(root) == {"VCPU": 16}
    assert agent.driver.calls.count((name, True)) == 2


def test_endless_conflicts_on_one_provider_are_raised_as_they_are(agent: Agent) -> None:
    name, root = agent.world.node()
    agent.driver.nodes = {name: root}
    traits = iter(f"CUSTOM_{n}" for n in range(99))
    agent.recorder.before(
        "put", f"{root}/traits", lambda: agent.world.set_traits(root, [next(traits)]), times=EACH
    )
    with pytest.raises(exc.ResourceProviderUpdateConflict):
        ResourceTracker(agent.client, agent.driver, max_attempts=2).update_node(None, name)
    assert agent.driver.calls == [(name, False)] * 2


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
def test_nonsense_for_nodes_names_the_driver(agent: Agent, nonsense: Any) -> None:
    agent.driver.nodes = nonsense
    with pytest.raises(exc.PlacementClientError, match="correct the driver"):
        agent.work()


def test_a_node_the_driver_does_not_have(agent: Agent) -> None:
    with pytest.raises(ValueError, match="elsewhere"):
        agent.tracker.update_node(None, "elsewhere")
    with pytest.raises(ValueError, match="elsewhere"):
        agent.migrate("elsewhere")


def test_the_base_driver_does_nothing() -> None:
    for call in (
        Driver().get_available_nodes,
        lambda: Driver().update_provider_tree(ProviderTree(), ""),
    ):
        with pytest.raises(NotImplementedError):
            call()


# ---- offline


def test_offline(agent: Agent) -> None:
    """C11 22: needed, again, unknown to the service, one failing."""
    first, second = agent.nodes
    absent = f"absent-{new_uuid()}"
    agent.driver.nodes = {**agent.nodes, absent: new_uuid()}
    agent.driver.faults[second, True] = broken
    results = agent.migrate()
    assert list(results) == [first, second, absent]
    assert (results[first], results[absent]) == ("reshaped", "absent")
    assert isinstance(results[second], exc.ReshapeFailed)
    assert agent.is_reshaped(agent.nodes[first]) and not agent.is_reshaped(agent.nodes[second])
    assert not agent.world.exists(agent.driver.nodes[absent])

    agent.driver.faults.clear()
    agent.recorder.clear()
    assert agent.migrate(first) == {first: "unchanged"}
    assert agent.recorder.writes() == []
    assert agent.migrate(second, second) == {second: "reshaped"}


def test_offline_ordinary_changes_are_not_written(agent: Agent) -> None:
    name, root = agent.world.node()
    agent.driver.nodes = {name: root}
    assert agent.migrate() == {name: "unchanged"}
    assert agent.recorder.writes() == []
    assert agent.world.traits(root) == set()


def test_offline_conflicts_start_over_and_finish(agent: Agent) -> None:
    name, root = agent.node
    agent.recorder.before("post", "/reshaper", lambda: agent.world.claim({root: {"VCPU": 1}}))
    agent.recorder.before(
        "put", f"{root}/traits", lambda: agent.world.set_traits(root, ["CUSTOM_OTHER"])
    )
    assert agent.migrate(name) == {name: "reshaped"}
    assert agent.world.traits(root) == {"CUSTOM_OTHER", "CUSTOM_SEEN"}


# ---- the command

DRIVER: Driver | None = None


def make_driver(conf: cfg.ConfigOpts) -> Driver | None:
    return DRIVER


@pytest.fixture
def command(
    agent: Agent,
    conf: cfg.ConfigOpts,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """placement-migrate-compute-inventory with the driver of the test."""
    monkeypatch.setattr(sys.modules[__name__], "DRIVER", agent.driver)

    def run(*arguments: str) -> tuple[Any, Any]:
        name = f"{__name__}:make_driver"
        argv = ["--config-file", conf.config_file[0], "--driver", name, *arguments]
        try:
            status: Any = migrate_inventory.main(argv)
        except SystemExit as ended:
            status = ended.code
        return status, capsys.readouterr()

    return run


def test_the_command_reshapes_and_says_so(agent: Agent, command: Command) -> None:
    first, second = agent.nodes
    agent.driver.faults[second, True] = broken
    status, said = command()
    assert status == 1
    assert len(said.out.splitlines()) == 2
    assert said.out.splitlines()[0] == f"{first}: reshaped"
    assert said.out.splitlines()[1].startswith(f"{second}: failed: ")
    assert agent.is_reshaped(agent.nodes[first])
    agent.driver.faults.clear()
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


def test_a_closed_pipe_is_left_to_the_entry_point(
    agent: Agent, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_given: Any, file: Any = None) -> None:
        if file is None:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(migrate_inventory, "print", write, raising=False)
    with pytest.raises(BrokenPipeError):
        command("--node", agent.node[0])


def test_the_page_of_the_command_has_this_exit_code() -> None:
    page = Path(__file__).parents[2] / "docs" / "provider-trees.rst"
    said = " ".join(page.read_text().split())
    assert f"or with {migrate_inventory.BAD_USAGE} for bad arguments" in said


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


def test_a_failed_node_is_one_line_too(agent: Agent, command: Command) -> None:
    """The texts of the service are several lines."""
    name, _ = agent.node
    agent.driver.faults[name, True] = lambda tree, allocations: allocations.clear()
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
    # How names are printed is the same for both.
    assert done.stdout in ("[]\n", "['placement.printable']\n"), done.stderr
