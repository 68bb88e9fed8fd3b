"""Servers that Nova moves: which can, how, by which requests, and when nothing is planned at all."""

from collections.abc import Iterator

import pytest
from keystoneauth1 import adapter, session

from placement.client import nova_moves
from placement.client.moving import MoveRefused, PlanAround, PlanRun, RunAbandoned, RunStopped
from placement.client.nova import Nova, NovaNotAnswered, PlaceHidden
from placement.client.nova_moves import OBSTACLES, MoveKind, NovaMover, WrongNova
from placement.client.osc.nova_steps import word_commands
from placement.client.plans import NoPlanFound, PlansClient, consumer_of
from tests.client.test_plans import Rack
from tests.client.world import World
from tests.support.nova import StandIn, nova
from tests.support.world import new_uuid


class Cloud:
    """A rack whose two consumers on the first host are servers of a Nova, and its mover."""

    def __init__(self, stand_in: StandIn, world: World, http: adapter.Adapter) -> None:
        self.nova, self.world, self.http = stand_in, world, http
        self.rack = Rack(world)
        for number, host in enumerate(self.rack.hosts, 1):
            stand_in.hosts[host] = f"svc-{number}"
            stand_in.nodes[host] = f"provider-{host}"
        stand_in.when_moved = self.move
        for server in self.rack.servers:
            self.add(server)
        self.plans = PlansClient(http)
        self.mover = self.make_mover()

    def make_mover(self) -> NovaMover:
        """Return one that has asked nothing yet."""
        compute = adapter.Adapter(
            session.Session(), service_type="compute", endpoint_override=self.nova.url
        )
        return NovaMover(Nova(compute), self.http)

    def add(self, uuid: str, status: str = "ACTIVE") -> None:
        self.nova.servers.append(
            {
                "id": uuid,
                "status": status,
                "OS-EXT-STS:task_state": None,
                "OS-EXT-SRV-ATTR:instance_name": "i",
                "OS-EXT-SRV-ATTR:host": "svc-1",
                "OS-EXT-SRV-ATTR:hypervisor_hostname": f"provider-{self.rack.hosts[0]}",
            }
        )

    def move(self, server: str, node: str | None) -> None:
        """Do with the ledger what Nova does."""
        shown = self.world.get(f"/allocations/{server}")
        amounts = {self.rack.resource_class: 2}
        if node is None:
            self.world.release(server)
        else:
            self.world.claim({node: amounts}, server, generation=shown["consumer_generation"])

    def run(self, **may: object) -> list[str]:
        """Let the first host be empty; return who has moved."""
        run = PlanRun(self.plans, self.mover, self.mover.names.root_of)
        return [consumer_of(step) for step in run.carry_out(self.rack.goal, may)]

    def bring_back(self) -> None:
        """Let both servers be on the first host again."""
        host = self.rack.hosts[0]
        for server in self.nova.servers:
            self.move(server["id"], host)
            server["OS-EXT-SRV-ATTR:host"] = self.nova.hosts[host]
            server["OS-EXT-SRV-ATTR:hypervisor_hostname"] = self.nova.nodes[host]

    def actions(self, server: str) -> list[str]:
        return [action for uuid, action, _ in self.nova.actions if uuid == server]


@pytest.fixture
def cloud(world: World, http: adapter.Adapter) -> Iterator[Cloud]:
    with nova() as stand_in:
        yield Cloud(stand_in, world, http)


def test_servers_move_as_their_state_lets_them(cloud: Cloud) -> None:
    """To the host as Nova names it; one that is shelved is shelved again."""
    running, stopped = cloud.rack.servers
    cloud.nova.servers[1]["status"] = "SHUTOFF"

    assert set(cloud.run()) == {running, stopped}

    assert cloud.actions(running) == ["os-migrateLive"]
    assert cloud.actions(stopped) == ["migrate", "confirmResize"]
    assert all(a["host"].startswith("svc-") for _, _, a in cloud.nova.actions if a)
    assert cloud.rack.hosts[0] not in cloud.rack.where()
    cloud.nova.actions.clear()
    cloud.nova.servers[0]["status"] = "SHELVED"
    goal = {"empty": {"trees": [cloud.rack.where()[0]]}}
    PlanRun(cloud.plans, cloud.mover, cloud.mover.names.root_of).carry_out(goal)
    assert cloud.actions(running) == ["unshelve", "os-migrateLive", "shelve"]


def test_commands_are_worded_by_state(cloud: Cloud) -> None:
    """Each line waits for its end, where no command of ``openstack`` does too."""
    lines = {}
    for status in ("ACTIVE", "PAUSED", "SHUTOFF", "SHELVED"):
        cloud.nova.servers[0]["status"] = status
        plan = PlanAround(cloud.plans, cloud.mover).make(cloud.rack.goal)
        (step,) = (s for s in plan.steps if consumer_of(s) == cloud.rack.servers[0])
        host = cloud.nova.hosts[step["root_provider_uuid"]]
        words = word_commands(cloud.mover, step).replace(cloud.rack.servers[0], "S")
        lines[status] = words.replace(f"--host={host}", "--host=H")
    at = "openstack --os-compute-api-version 2.56 server migrate"
    show = "openstack server show -f value -c status S"
    assert lines == {
        "ACTIVE": f"{at} --live-migration --wait --host=H S",
        "PAUSED": f"{at} --live-migration --host=H S && "
        f'while [ "$({show})" = MIGRATING ]; do sleep 1; done',
        "SHUTOFF": f"{at} --wait --host=H S && openstack server migration confirm S && "
        f'while [ "$({show})" = VERIFY_RESIZE ]; do sleep 1; done',
        "SHELVED": f"openstack server unshelve --wait S && {at} --live-migration --wait --host=H S && "
        "openstack server shelve --wait S",
    }


@pytest.mark.parametrize(
    "status", [*OBSTACLES, "BUILD", "MIGRATING", "REBUILD", "nobody", "elsewhere"]
)
def test_what_cannot_move_stays_and_is_named(cloud: Cloud, status: str) -> None:
    """Also a consumer that Nova does not know, and one that runs where it holds nothing."""
    server = cloud.rack.servers[0]
    if status == "nobody":
        del cloud.nova.servers[0]
    elif status == "elsewhere":
        cloud.nova.servers[0]["OS-EXT-SRV-ATTR:hypervisor_hostname"] = "other"
    else:
        cloud.nova.servers[0]["status"] = status
    around = PlanAround(cloud.plans, cloud.mover)

    with pytest.raises(NoPlanFound):
        around.make(cloud.rack.goal)

    assert around.stays.keys() == {server}
    expected = {
        "nobody": "it is no server and no migration of Nova",
        "elsewhere": "it holds something of",
        "MIGRATING": "it is in the state MIGRATING",
        "REBUILD": "it is in the state REBUILD",
        "BUILD": "something is under way",
    }
    why = OBSTACLES.get(status, "").format(server=server) or expected[status]
    assert around.stays[server].startswith(why)


def test_the_consumer_of_a_resize_that_is_open_stays(cloud: Cloud) -> None:
    """The ledger has no type for it, and the plan would move it: no command of Nova does."""
    move = cloud.world.claim({cloud.rack.hosts[1]: {cloud.rack.resource_class: 1}})
    cloud.nova.migrations.append(
        {
            "uuid": move,
            "instance_uuid": cloud.rack.servers[0],
            "migration_type": "resize",
            "status": "finished",
            "source_node": "a",
            "dest_node": "b",
        }
    )
    around = PlanAround(cloud.plans, cloud.mover)
    with pytest.raises(NoPlanFound):
        around.make({"empty": {"trees": [cloud.rack.hosts[1]]}})
    assert around.stays[move].startswith(
        f"it is a migration of server {cloud.rack.servers[0]}, finished and not confirmed: "
        f"openstack server resize confirm {cloud.rack.servers[0]}"
    )


def test_a_removal_is_a_deletion(cloud: Cloud) -> None:
    cloud.mover.read_states()
    plan = PlanAround(cloud.plans, cloud.mover).make(
        cloud.rack.goal, {"move": {"consumer_types": []}, "remove": {"projects": ["red"]}}
    )
    assert {cloud.mover.find_way(step) for step in plan.steps} == {MoveKind.DELETE}
    assert word_commands(cloud.mover, plan.steps[0]).startswith("openstack server delete --wait ")
    assert len(cloud.run(move={"consumer_types": []}, remove={"projects": ["red"]})) == 2
    assert (cloud.nova.servers, cloud.rack.where()) == ([], [])


def test_what_nova_refuses_is_told(cloud: Cloud) -> None:
    cloud.nova.refused_actions.add(cloud.rack.servers[0])
    with pytest.raises(RunStopped, match="No valid host was found") as stopped:
        cloud.run()
    assert cloud.rack.servers[0] in [consumer_of(step) for step in stopped.value.left]


def test_a_host_that_nova_does_not_know_is_left_out(cloud: Cloud) -> None:
    """The servers go to the other one, whichever the plan would have liked most."""
    hosts = dict(cloud.nova.hosts)
    for stale in cloud.rack.hosts[1:]:
        (other,) = set(cloud.rack.hosts[1:]) - {stale}
        cloud.nova.hosts = {host: name for host, name in hosts.items() if host != stale}
        around = PlanAround(cloud.plans, cloud.make_mover())
        plan = around.make(cloud.rack.goal)
        assert {step["root_provider_uuid"] for step in plan.steps} == {other}
        assert around.stays == {}
    cloud.nova.hosts = {}
    around = PlanAround(cloud.plans, cloud.make_mover())
    with pytest.raises(NoPlanFound):
        around.make(cloud.rack.goal)
    assert around.stays
    assert all("is not a hypervisor of Nova" in why for why in around.stays.values())


def test_what_nova_refuses_for_one_host_goes_to_another(cloud: Cloud) -> None:
    """A plan made again would name the same host."""
    cloud.nova.servers[1]["status"] = "SHUTOFF"
    for host in cloud.rack.hosts[1:]:
        cloud.nova.refused_hosts = {cloud.nova.hosts[host]}
        (other,) = set(cloud.rack.hosts[1:]) - {host}
        done = cloud.run()
        assert set(done) == set(cloud.rack.servers)
        assert cloud.rack.where() == [other, other]
        cloud.bring_back()


def test_a_host_where_a_migration_fails_is_left_out(cloud: Cloud) -> None:
    """Nova takes the request, and the server is where it was."""
    for host in cloud.rack.hosts[1:]:
        cloud.nova.failing_hosts = {cloud.nova.hosts[host]}
        assert set(cloud.run()) == set(cloud.rack.servers)
        assert host not in cloud.rack.where()
        cloud.bring_back()


class Shelved:
    """One server is shelved and the other is gone; what becomes of its migration is up to the test."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.server = cloud, cloud.rack.servers[0]
        cloud.world.release(cloud.rack.servers[1])
        del cloud.nova.servers[1]
        cloud.nova.servers[0]["status"] = "SHELVED"

    @property
    def status(self) -> str:
        return str(self.cloud.nova.servers[0]["status"])


@pytest.fixture
def shelved(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Shelved:
    monkeypatch.setattr(nova_moves, "POLL_S", 0.01)
    return Shelved(cloud)


def test_a_shelved_server_is_shelved_again_where_its_migration_is_refused(
    shelved: Shelved,
) -> None:
    """Each time, so that the next attempt unshelves it again."""
    cloud = shelved.cloud
    cloud.nova.refused_hosts = set(cloud.nova.hosts.values())
    with pytest.raises(RunStopped, match="No valid host"):
        cloud.run()
    assert shelved.status == "SHELVED"
    assert cloud.actions(shelved.server) == ["unshelve", "os-migrateLive", "shelve"] * 2
    assert not cloud.mover.unshelved


@pytest.mark.parametrize("ends", [True, False])
def test_a_shelved_server_is_shelved_again_where_its_migration_takes_too_long(
    shelved: Shelved, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """As soon as that is over; if that is too late too, the next move does it, or it is named."""
    cloud = shelved.cloud
    asked = 0

    def begin(server: dict[str, object]) -> None:
        if cloud.nova.actions[-1][1] == "os-migrateLive":
            server["status"] = "MIGRATING"

    def end(path: str, _: object) -> None:
        nonlocal asked
        server = cloud.nova.servers[0]
        if server["status"] == "MIGRATING" and path.endswith(shelved.server):
            asked += 1
            if ends and asked == 3:
                server["status"] = "ACTIVE"

    cloud.nova.when_acted, cloud.nova.when_asked = begin, end
    monkeypatch.setattr(nova_moves, "SHELVE_S", 60.0 if ends else 0.05)
    monkeypatch.setattr(cloud.mover, "_step_s", 0.0)
    step = PlanAround(cloud.plans, cloud.mover).make(cloud.rack.goal).steps[0]
    words = "it took too long" if ends else "It was unshelved, and could not be shelved again"
    with pytest.raises(MoveRefused, match=words):
        cloud.mover.carry_out(step, lambda seconds: None)
    assert (shelved.status == "SHELVED") is ends
    assert cloud.mover.unshelved == (set() if ends else {shelved.server})
    if not ends:
        # It has arrived meanwhile, and must go on.
        cloud.nova.servers[0]["status"] = "ACTIVE"
        cloud.nova.when_acted = lambda server: None
        monkeypatch.setattr(nova_moves, "SHELVE_S", 60.0)
        goal = {"empty": {"trees": cloud.rack.where()}}
        PlanRun(cloud.plans, cloud.mover, cloud.mover.names.root_of).carry_out(goal)
        assert cloud.actions(shelved.server)[-2:] == ["os-migrateLive", "shelve"]
        assert (shelved.status, cloud.mover.unshelved) == ("SHELVED", set())


def test_a_run_that_is_left_names_the_server_that_it_unshelved(shelved: Shelved) -> None:
    """Nobody waits for it any more: a request now would be refused, or lost."""
    cloud = shelved.cloud

    def leave(seconds: float) -> None:
        raise RunAbandoned

    cloud.nova.when_acted = lambda server: server.update(status="MIGRATING")
    step = PlanAround(cloud.plans, cloud.mover).make(cloud.rack.goal).steps[0]
    with pytest.raises(RunAbandoned):
        cloud.mover.carry_out(step, leave)
    assert cloud.mover.unshelved == {shelved.server}
    assert cloud.actions(shelved.server) == ["unshelve"]


MIGRATION = {"migration_type": "migration", "source_node": "a", "dest_node": "b"}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("running", "its migration {0} is running: openstack server migration list --server {1}"),
        ("finished", "its migration {0} is finished and not confirmed: openstack server resize"),
    ],
)
def test_a_server_with_an_open_migration_stays_with_its_status(
    cloud: Cloud, status: str, words: str
) -> None:
    """Where Nova says of the server itself that it is well."""
    server, move = cloud.rack.servers[0], new_uuid()
    cloud.nova.migrations.append(
        {**MIGRATION, "uuid": move, "instance_uuid": server, "status": status}
    )
    around = PlanAround(cloud.plans, cloud.mover)
    with pytest.raises(NoPlanFound):
        around.make(cloud.rack.goal)
    assert around.stays[server].startswith(words.format(move, server))


def test_a_migration_that_failed_is_named_with_what_frees_it(cloud: Cloud) -> None:
    """It does not end by itself."""
    server = cloud.rack.servers[0]
    move = cloud.world.claim({cloud.rack.hosts[1]: {cloud.rack.resource_class: 1}})
    cloud.nova.migrations.append(
        {**MIGRATION, "uuid": move, "instance_uuid": server, "status": "error"}
    )
    around = PlanAround(cloud.plans, cloud.mover)
    with pytest.raises(NoPlanFound):
        around.make({"empty": {"trees": [cloud.rack.hosts[1]]}})
    assert f"openstack resource provider allocation delete {move}" in around.stays[move]


def test_an_evacuated_server_is_not_called_misplaced(cloud: Cloud) -> None:
    """The host that it left keeps its part until it is back (07 section 8.1)."""
    server, source = cloud.nova.servers[0], cloud.nova.nodes[cloud.rack.hosts[0]]
    server["OS-EXT-SRV-ATTR:hypervisor_hostname"] = cloud.nova.nodes[cloud.rack.hosts[1]]
    cloud.nova.migrations.append(
        {
            "uuid": new_uuid(),
            "instance_uuid": server["id"],
            "migration_type": "evacuation",
            "status": "done",
            "source_node": source,
            "dest_node": cloud.nova.nodes[cloud.rack.hosts[1]],
        }
    )
    around = PlanAround(cloud.plans, cloud.mover)
    with pytest.raises(NoPlanFound):
        around.make(cloud.rack.goal)
    assert around.stays[server["id"]].startswith(f"it was evacuated from {source}, which keeps")


def test_words_of_a_step_ask_nobody(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that takes signals has them, also while the service is silent."""
    plan = PlanAround(cloud.plans, cloud.mover).make(cloud.rack.goal)
    monkeypatch.setattr(cloud.mover.names, "_get", lambda *_: pytest.fail("asked"))
    for step in plan.steps:
        names = cloud.mover.names
        assert names.name_of(step["root_provider_uuid"]) != names.name_of(
            names.root_of(next(iter(step["from"])))
        )


def lose_the_servers(cloud: Cloud) -> None:
    cloud.nova.servers.clear()


def have_other_servers(cloud: Cloud) -> None:
    for server in cloud.nova.servers:
        server["id"] = new_uuid()


def hide_the_hosts(cloud: Cloud) -> None:
    for name in [name for name in cloud.nova.servers[0] if name.startswith("OS-EXT-SRV-ATTR")]:
        del cloud.nova.servers[0][name]


def refuse_the_servers(cloud: Cloud) -> None:
    cloud.nova.refused = ("/servers/detail",)


def refuse_the_migrations(cloud: Cloud) -> None:
    cloud.nova.refused = ("/os-migrations",)


@pytest.mark.parametrize(
    ("happen", "raised"),
    [
        (lose_the_servers, WrongNova),
        (have_other_servers, WrongNova),
        (hide_the_hosts, PlaceHidden),
        (refuse_the_servers, NovaNotAnswered),
        (refuse_the_migrations, NovaNotAnswered),
    ],
)
def test_a_nova_that_shows_less_than_all_moves_nothing(
    cloud: Cloud, happen: object, raised: type[Exception]
) -> None:
    happen(cloud)  # type: ignore[operator]
    with pytest.raises(raised):
        cloud.run()
    assert cloud.nova.actions == []
