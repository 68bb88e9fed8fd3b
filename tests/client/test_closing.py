"""Claims that never end: inventories that move are closed to them (specification 05 sections C6, C8)."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from placement.client import exceptions as exc
from placement.client.closing import WRITES_AT_MOST
from placement.client.drivers.split import Node, NodePart, VgpuDriver
from placement.client.provider_tree import ProviderTree
from placement.client.report import ReportClient
from placement.client.tracker import Driver, ResourceTracker
from tests.client.world import EACH, Recorder, World
from tests.support import bodies
from tests.support.client import Answer
from tests.support.world import new_uuid

ATTEMPTS_UNTIL_CLOSED = 2


@dataclass
class Host(Driver):
    """A host whose VGPU, on the root, are in use; the driver wants all but some of them on a child.

    ``seen``: the inventory of the root in each call with allocations. ``faults``: what happens in the call of
    this number.
    """

    recorder: Recorder
    world: World
    root: str = field(default_factory=new_uuid)
    keeps: int = 0
    adds: dict[str, Any] = field(default_factory=dict)
    seen: list[Any] = field(default_factory=list)
    faults: dict[int, Callable[[], object]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the root."""
        return f"host-{self.root}"

    def get_available_nodes(self) -> dict[str, str]:
        return {self.name: self.root}

    def update_provider_tree(
        self, provider_tree: ProviderTree, nodename: str, allocations: dict[str, Any] | None = None
    ) -> None:
        """Copy the record of the root, ``reserved`` included."""
        inventory = provider_tree.data(self.root).inventory
        total = inventory.get("VGPU", {"total": 0})["total"]
        if total == self.keeps:
            return
        if allocations is None:
            raise exc.ReshapeNeeded("VGPU")
        self.seen.append(dict(inventory))
        self.faults.get(len(self.seen), lambda: None)()
        name = f"{nodename}_gpu"
        if not provider_tree.exists(name):
            provider_tree.new_child(name, nodename)
        child = provider_tree.data(name).uuid
        record = inventory.pop("VGPU")
        provider_tree.update_inventory(child, {"VGPU": {**record, "total": total - self.keeps}})
        if self.keeps:
            inventory["VGPU"] = {**record, "total": self.keeps}
        provider_tree.update_inventory(nodename, {**inventory, **self.adds})
        for shown in allocations.values():
            place = shown["allocations"].get(self.root, {"resources": {}})["resources"]
            if "VGPU" in place:
                shown["allocations"][child] = {"resources": {"VGPU": place.pop("VGPU")}}

    def start(self) -> None:
        """Start up an agent that does not go on for a minute."""
        tracker = ResourceTracker(ReportClient(self.recorder), self, reshape_timeout_s=0)
        tracker.update_node(None, self.name, startup=True)

    def claim(self, **amounts: int) -> Answer:
        """Claim for a new consumer, which may be refused."""
        body = bodies.entry({self.root: amounts}, None)
        del body["consumer_type"]
        path = f"/allocations/{new_uuid()}"
        return self.world.call("PUT", path, body, expect=(204, 409))

    def inventory(self, key: str | None = None) -> dict[str, tuple[int, int]]:
        """Return total and reserved by class, of the root or of another provider."""
        path = f"/resource_providers/{key or self.root}/inventories"
        shown = self.world.get(path)["inventories"]
        return {name: (record["total"], record["reserved"]) for name, record in shown.items()}

    def child(self) -> str:
        """Return the UUID of the one child."""
        (found,) = self.world.below(self.root).values()
        return found


@pytest.fixture
def host(recorder: Recorder, world: World) -> Host:
    host = Host(recorder, world)
    world.provider(host.name, None, {"VCPU": 100, "VGPU": 40}, key=host.root)
    world.claim({host.root: {"VCPU": 1, "VGPU": 2}})
    return host


def test_claims_of_what_moves_are_kept_out_after_two_lost_attempts(host: Host) -> None:
    """However many come: the third attempt meets none, and the driver sees what it saw before."""
    answers: list[Answer] = []
    host.recorder.before("post", "/reshaper", lambda: answers.append(host.claim(VGPU=1)), EACH)

    host.start()

    assert [answer.status for answer in answers] == [204] * ATTEMPTS_UNTIL_CLOSED + [409]
    assert host.inventory() == {"VCPU": (100, 0)}
    assert host.inventory(host.child()) == {"VGPU": (40, 0)}
    assert host.world.usages(host.child()) == {"VGPU": 2 + ATTEMPTS_UNTIL_CLOSED}
    assert host.seen[0]["VGPU"]["reserved"] == 0
    assert host.seen[1:] == host.seen[:1] * ATTEMPTS_UNTIL_CLOSED
    assert host.claim(VCPU=1).status == 204


def test_after_the_first_attempt_only_what_changed_is_read(host: Host) -> None:
    """The tree with all its allocations once, or each record once; the tree once an attempt."""
    host.recorder.before("post", "/reshaper", lambda: host.claim(VGPU=1), EACH)
    host.start()
    reads = [url for method, url in host.recorder.requests if method == "get"]
    records = [url for url in reads if url.startswith("/allocations/")]
    lists = [url for url in reads if url == f"/resource_providers/{host.root}/allocations"]
    if f"/-/trees/{host.root}?allocations=true" in reads:
        assert reads.count(f"/-/trees/{host.root}?allocations=true") == 1
        assert len(records) == ATTEMPTS_UNTIL_CLOSED
        assert len(lists) == ATTEMPTS_UNTIL_CLOSED
    else:
        assert len(records) == 1 + ATTEMPTS_UNTIL_CLOSED
        assert len(lists) == 2 + ATTEMPTS_UNTIL_CLOSED
        # The first attempt reads it before and after the records.
        trees = [url for url in reads if url == f"/resource_providers?in_tree={host.root}"]
        assert len(trees) == 2 + ATTEMPTS_UNTIL_CLOSED
    assert len(records) == len(set(records))


def test_claims_of_the_rest_do_not_disturb_a_class_that_shrinks(host: Host) -> None:
    """Before it is closed, each claim on the root is a conflict; after, only one of VGPU would be."""
    host.keeps = 10
    host.recorder.before("post", "/reshaper", lambda: host.claim(VCPU=1), EACH)
    host.start()
    assert host.inventory() == {"VCPU": (100, 0), "VGPU": (10, 0)}
    assert host.inventory(host.child()) == {"VGPU": (30, 0)}
    assert len(host.seen) == ATTEMPTS_UNTIL_CLOSED + 1


@pytest.mark.parametrize("claims", [2, WRITES_AT_MOST])
def test_closing_is_repeated_while_claims_move_the_generation(host: Host, claims: int) -> None:
    """So often; then it is left to the next attempt, which loses too, and closes."""
    host.recorder.before("post", "/reshaper", lambda: host.claim(VGPU=1), EACH)
    host.recorder.before("put", f"{host.root}/inventories", lambda: host.claim(VCPU=1), claims)
    host.start()
    assert host.inventory() == {"VCPU": (100, 0)}
    more = claims == WRITES_AT_MOST
    assert len(host.seen) == ATTEMPTS_UNTIL_CLOSED + 1 + more


def test_an_inventory_that_changes_while_it_is_closed_is_not_overwritten(host: Host) -> None:
    """Neither before the closing, which leaves it open, nor after it."""
    totals = iter([50, 60])

    def change() -> None:
        host.world.set_inventory(host.root, {"VCPU": 100, "VGPU": next(totals)})

    def change_twice() -> None:
        change()
        host.recorder.before("get", f"{host.root}/allocations", change)

    host.recorder.before("post", "/reshaper", lambda: host.claim(VGPU=1), 2)
    host.recorder.before("put", f"{host.root}/inventories", change_twice)
    host.start()
    assert host.inventory(host.child()) == {"VGPU": (60, 0)}


def failing() -> None:
    raise exc.ReshapeFailed("no room")


def interrupting() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("fault", [failing, interrupting])
def test_a_reshape_that_is_given_up_opens_what_was_closed(
    host: Host, fault: Callable[[], None]
) -> None:
    """Whatever ends it, and although claims move the generation."""
    states = []

    def end() -> None:
        states.append(host.inventory()["VGPU"])
        host.recorder.before("put", f"{host.root}/inventories", lambda: host.claim(VCPU=1))
        fault()

    host.recorder.before("post", "/reshaper", lambda: host.claim(VGPU=1), ATTEMPTS_UNTIL_CLOSED)
    host.faults[ATTEMPTS_UNTIL_CLOSED + 1] = end
    with pytest.raises((exc.ReshapeFailed, KeyboardInterrupt)):
        host.start()
    assert states == [(40, 40)]
    assert host.inventory() == {"VCPU": (100, 0), "VGPU": (40, 0)}


def test_a_refused_reshape_opens_what_was_closed(host: Host) -> None:
    """The service says no: what the driver wants does not fit."""
    host.recorder.before("post", "/reshaper", lambda: host.claim(VGPU=1), ATTEMPTS_UNTIL_CLOSED)

    def spoil() -> None:
        host.adds = {"BANANAS": {"total": 1}}

    host.faults[ATTEMPTS_UNTIL_CLOSED + 1] = spoil
    with pytest.raises(exc.ReshapeFailed, match="BANANAS"):
        host.start()
    assert host.inventory() == {"VCPU": (100, 0), "VGPU": (40, 0)}


def test_a_driver_that_needs_no_reshape_any_more_opens_what_was_closed(host: Host) -> None:
    def content() -> None:
        host.claim(VGPU=1)
        if len(host.seen) == ATTEMPTS_UNTIL_CLOSED:
            host.keeps = 40

    host.recorder.before("post", "/reshaper", content, ATTEMPTS_UNTIL_CLOSED)
    host.start()
    assert host.inventory()["VGPU"] == (40, 0)


@pytest.mark.parametrize("reshaping", [True, False])
def test_a_client_that_dies_in_between_is_finished_by_the_next_start(
    host: Host, caplog: pytest.LogCaptureFixture, reshaping: bool
) -> None:
    """Nothing that it sends arrives any more. A driver that states ``reserved`` opens what it left closed."""
    host.recorder.before("post", "/reshaper", lambda: host.claim(VGPU=1), ATTEMPTS_UNTIL_CLOSED)

    def die() -> None:
        for method in ("get", "put", "post", "delete"):
            host.recorder.before(method, "", failing, EACH)

    host.faults[ATTEMPTS_UNTIL_CLOSED + 1] = die
    with pytest.raises(exc.ReshapeFailed):
        host.start()
    assert host.inventory()["VGPU"] == (40, 40)
    (left,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert host.root in left.message and "reserved to {'VGPU': 0}" in left.message

    host.recorder.interruptions.clear()
    record = {"VGPU": {"total": 40, "reserved": 0}}
    node = Node(host.root, {"gpu": NodePart(record)}) if reshaping else Node(host.root, {}, record)
    successor = ResourceTracker(ReportClient(host.recorder), VgpuDriver({host.name: node}))
    successor.update_available_resource(None, startup=True)
    where = host.child() if reshaping else host.root
    assert host.inventory(where)["VGPU"] == (40, 0)
    assert host.world.usages(where)["VGPU"] == 2 + ATTEMPTS_UNTIL_CLOSED


def test_conflicts_that_closing_cannot_end_open_it_again(host: Host) -> None:
    """A consumer that changes each time; what is closed stays the same in all attempts."""
    consumer = host.world.claim({host.root: {"VCPU": 1}})
    generations = iter(range(1, 99))
    host.recorder.before(
        "post",
        "/reshaper",
        lambda: host.world.claim({host.root: {"VCPU": 1}}, consumer, next(generations)),
        EACH,
    )
    with pytest.raises(exc.ReshapeFailed, match="4 attempts") as caught:
        host.start()
    assert isinstance(caught.value.__cause__, exc.ReshapeConflict)
    assert host.seen == [host.seen[0]] * 4
    assert host.inventory() == {"VCPU": (100, 0), "VGPU": (40, 0)}
