"""``openstack placement plan run`` and ``plan create --nova``, on a stand-in for Nova."""

from collections.abc import Iterator

import pytest

from tests.operations.e2e.openstack_cli import Shell, admin_token_environment
from tests.support import deployment
from tests.support.deployment import Site
from tests.support.nova import StandIn, nova
from tests.support.processes import public_folder

pytestmark = pytest.mark.deploy

HOST, OTHER = (f"5b8784cc-000{n}-4ed4-ba61-1ee63950767e" for n in (1, 2))
SERVER, STOPPED, UNKNOWN = (f"7c34be36-000{n}-44d1-8a7c-39b7a1e6f7c5" for n in (1, 2, 3))

STORY = f"""
openstack resource provider create --uuid {HOST} host-1
openstack resource provider create --uuid {OTHER} host-2
openstack resource provider inventory set {HOST} --resource VCPU=8
openstack resource provider inventory set {OTHER} --resource VCPU=8
"""


class World:
    """Two hosts with a running and a stopped server on the first."""

    def __init__(self, shell: Shell, site: Site, stand_in: StandIn) -> None:
        self.shell, self.site, self.nova = shell, site, stand_in
        for line in STORY.strip().splitlines():
            shell.run(line)
        stand_in.hosts = {HOST: "svc-1", OTHER: "svc-2"}
        stand_in.nodes = {HOST: "host-1", OTHER: "host-2"}
        stand_in.when_moved = lambda server, node: self.claim(server, node or HOST)
        for server, status in ((SERVER, "ACTIVE"), (STOPPED, "SHUTOFF")):
            self.claim(server, HOST)
            stand_in.servers.append(
                {
                    "id": server,
                    "status": status,
                    "OS-EXT-STS:task_state": None,
                    "OS-EXT-SRV-ATTR:instance_name": "i",
                    "OS-EXT-SRV-ATTR:host": "svc-1",
                    "OS-EXT-SRV-ATTR:hypervisor_hostname": "host-1",
                }
            )

    def claim(self, server: str, host: str) -> None:
        """Let a consumer hold two processors of a host, and nothing else."""
        body = {
            "allocations": {host: {"resources": {"VCPU": 2}}},
            "project_id": "p",
            "user_id": "u",
        }
        answer = self.site.send("PUT", f"/allocations/{server}", body, "1.27")
        assert answer.status == 204, answer.text


@pytest.fixture
def world() -> Iterator[World]:
    with public_folder("placement-plan-run-") as folder, nova() as stand_in:
        environment = deployment.prepare(folder, f"sqlite:///{folder}/placement.sqlite")
        environment["OS_INSIGHT__ENABLED"] = "true"
        environment["OS_INSIGHT__HISTORY_DAYS"] = "30"
        with deployment.builtin(folder, environment) as site:
            named = {"OS_COMPUTE_ENDPOINT_OVERRIDE": stand_in.url}
            yield World(Shell(admin_token_environment(site.url) | named), site, stand_in)


def test_a_host_is_emptied_through_nova(world: World) -> None:
    """Said first, then done; then nothing is left to be done, and the history knows the migrations."""
    shell = world.shell
    run = "openstack placement plan run --empty host-1"
    assert f"{SERVER} from host-1 to host-2: live migration" in shell.run(f"{run} --dry-run")
    assert world.nova.actions == []
    rows = {
        row["consumer"]: row["how"]
        for row in shell.ask("openstack placement plan create --empty host-1 --nova")
    }
    assert rows == {SERVER: "live migration", STOPPED: "cold migration, confirmed"}
    commands = shell.run("openstack placement plan create --empty host-1 --commands").splitlines()
    assert len(commands) == 2
    assert all("--host=svc-2" in line for line in commands)

    assert "Done: 2 steps, and the goal holds." in shell.run(f"{run} --parallel 2")

    assert {action for _, action, _ in world.nova.actions} == {
        "os-migrateLive",
        "migrate",
        "confirmResize",
    }
    assert "Done: 0 steps" in shell.run(run)
    assert shell.run("openstack placement plan create --empty host-1").strip() == ""
    assert shell.ask("openstack placement plan create --empty host-1") == []
    world.claim(UNKNOWN, HOST)
    world.nova.migrations.append(
        {
            "uuid": UNKNOWN,
            "instance_uuid": SERVER,
            "migration_type": "resize",
            "status": "confirmed",
            "source_node": "host-1",
            "dest_node": "host-2",
        }
    )
    writes = shell.ask(f"openstack placement history show --server {SERVER}")["writes"]
    assert {write["consumer_uuid"] for write in writes} == {SERVER, UNKNOWN}
    assert writes == sorted(writes, key=lambda write: write["at"], reverse=True)
    assert "--server" in shell.fail(
        f"openstack placement history show --server {SERVER} --consumer {SERVER}"
    )


def test_a_host_that_nova_does_not_know_is_left_out_and_named(world: World) -> None:
    """The plan would like it most, since it is emptier: it is told that no step goes there."""
    shell, stale = world.shell, OTHER.replace("0002", "0003")
    run = "openstack placement plan run --empty host-1"
    shell.run(f"openstack resource provider create --uuid {stale} host-3")
    shell.run(f"openstack resource provider inventory set {stale} --resource VCPU=64")
    known = world.nova.hosts.pop(OTHER)
    said = shell.fail(run)
    for name in ("host-2", "host-3"):
        assert f"Left out: {name} is not a hypervisor of Nova" in said
    assert "it would move there: host-" in said
    assert world.nova.actions == []
    world.nova.hosts[OTHER] = known
    assert "Done: 2 steps, and the goal holds." in shell.run(run)
    usage = shell.ask(f"openstack resource provider usage show {OTHER}")
    assert {row["resource_class"]: row["usage"] for row in usage} == {"VCPU": 4}


def test_what_stays_is_named_and_what_is_refused_is_told(world: World) -> None:
    """With what is done and what is left; and an account that does not see hosts moves nothing."""
    shell = world.shell
    run = "openstack placement plan run --empty host-1"
    world.claim(UNKNOWN, HOST)
    said = shell.fail(run)
    assert f"Stays: {UNKNOWN}: it is no server and no migration of Nova" in said
    assert "No plan was found" in said
    assert "host-1 cannot be empty while what stays is there, and nothing was moved" in said
    shell.run(f"openstack resource provider allocation delete {UNKNOWN}")
    world.nova.refused_actions.add(STOPPED)
    said = shell.fail(run)
    assert "No valid host was found" in said
    assert f"Left: {STOPPED}" in said
    assert "Done: 1 step. " in said
    assert said.count("No valid host was found") == 1
    assert f"Refused, see above: {STOPPED}" in said
    world.nova.actions.clear()
    for server in world.nova.servers:
        del server["OS-EXT-SRV-ATTR:instance_name"]
    assert "an administrator's" in shell.fail(run)
    world.nova.refused = ("/servers/detail",)
    assert "HTTP 403" in shell.fail(f"{run} --dry-run")
    assert world.nova.actions == []
    assert "--hold" in shell.fail("openstack placement plan create --empty host-1 --nova --hold 60")
