"""What happens in a cloud, played on a real Nova; what is told meanwhile, and what is known at its end."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from keystoneauth1 import exceptions

from placement.client.exceptions import PlacementClientError
from placement.client.history import HistoryClient
from placement.client.mirror import Mirror
from tests.client.world import World
from tests.operations.cloud import leaks
from tests.operations.cloud.services import Running
from tests.support.deployment import PROGRAMS
from tests.support.processes import ENDS_S, ran, wait_until
from tests.support.world import new_uuid

COMPUTE = "2.80"
PLACES = 4
"""Servers of the small flavor that fill a host."""


class Story:
    """The administrator of the cloud, with a mirror beside all that happens.

    :param tell: called with a sentence for each chapter.
    """

    def __init__(self, cloud: Running, tell: Callable[[str], object] = print) -> None:
        self.cloud, self.tell = cloud, tell
        self.nova, self.placement = cloud.of("compute"), cloud.of("placement")
        self.mirror = Mirror(self.placement)
        self._over = threading.Event()
        self.flavors: dict[str, str] = {}
        self.image = ""

    def play(self) -> None:
        """Let everything happen, one chapter after the other."""
        follower = threading.Thread(target=self._follow)
        follower.start()
        try:
            self.make_images_and_flavors()
            self.fill_to_the_last_place()
            self.keep_groups_apart()
            self.leave_a_resize_open()
            self.drain_a_host()
            self.make_room_for_a_large_server()
            self.evacuate_a_host()
            self.find_leaks()
            self.ask_for_each_request()
        finally:
            self._over.set()
            follower.join(ENDS_S)
        self.compare_all()

    def make_images_and_flavors(self) -> None:
        """An image of a few bytes, and two flavors: a quarter of a host, and all of it."""
        self.tell("image and flavors")
        images = self.cloud.of("image")
        wanted = {"name": "tiny", "disk_format": "raw", "container_format": "bare"}
        self.image = images.post("/v2/images", json=wanted).json()["id"]
        kind = {"Content-Type": "application/octet-stream"}
        images.put(f"/v2/images/{self.image}/file", data=b"tiny" * 256, headers=kind)
        for name, vcpus, ram in (("small", 2, 512), ("tall", 2, 1024), ("large", 8, 512)):
            flavor = {"name": name, "vcpus": vcpus, "ram": ram, "disk": 1}
            self.flavors[name] = self._post("/flavors", {"flavor": flavor})["flavor"]["id"]

    def fill_to_the_last_place(self) -> None:
        """Boot as many as there are places, while a worker of this service is killed; one more finds none."""
        self.tell("boots to the last place, and a worker is killed")
        places = PLACES * len(self.cloud.computes)
        # Each by itself: of several in one request Nova places all or none.
        first = [uuid for _ in range(places) for uuid in self.boot("full", "small")]
        os.kill(min(self.cloud.placement.workers()), signal.SIGKILL)
        servers = self.wait_for(first)
        broken = [each for each in servers if each["status"] == "ERROR"]
        # Those whose requests the killed worker was answering.
        assert len(broken) < places / 2, [each["fault"]["message"] for each in broken]
        for server in broken:
            self.remove(server["id"])
            self.wait_for(self.boot("again", "small"), "ACTIVE")
        (late,) = self.wait_for(self.boot("late", "small"))
        assert late["status"] == "ERROR", late
        self.remove(late["id"])
        by_host: dict[str, list[str]] = {}
        for server in self.servers().values():
            by_host.setdefault(server["OS-EXT-SRV-ATTR:host"], []).append(server["id"])
        assert {len(each) for each in by_host.values()} == {PLACES}
        for host, uuids in by_host.items():
            for uuid in uuids[: PLACES if host == "host4" else PLACES - 1]:
                self.remove(uuid)

    def keep_groups_apart(self) -> None:
        """Two servers of a group with anti-affinity are on two hosts."""
        self.tell("groups")
        group = {"name": "apart", "policy": "anti-affinity"}
        uuid = self._post("/os-server-groups", {"server_group": group})["server_group"]["id"]
        pair = [
            self.wait_for(self.boot("apart", "small", group=uuid), "ACTIVE")[0] for _ in range(2)
        ]
        assert len({each["OS-EXT-SRV-ATTR:host"] for each in pair}) == 2

    def leave_a_resize_open(self) -> None:
        """While it is open its migration holds the source, and a plan leaves that; then it is confirmed."""
        self.tell("an open resize")
        server = next(iter(self.servers()))
        node = self.node_of(server)
        self.act(server, "resize", {"flavorRef": self.flavors["tall"]})
        self.wait_for([server], "VERIFY_RESIZE")
        done = self.openstack("placement plan create --nova --empty", node, fails=True)
        assert f"it is a migration of server {server}" in done, done
        self.act(server, "confirmResize")
        self.wait_for([server], "ACTIVE")
        migration = self.migrations(server)[0]["uuid"]
        shown = json.loads(self.openstack("placement history show -f json --server", server))
        assert migration in {write["consumer_uuid"] for write in shown["writes"]}

    def drain_a_host(self) -> None:
        """By ``plan run``: a server that runs, one that is stopped, one that is shelved."""
        self.tell("drain by plan run")
        node = self.fullest()
        here = [uuid for uuid in self.servers() if self.node_of(uuid) == node]
        while len(here) < 3:
            here += [
                each["id"]
                for each in self.wait_for(
                    self.boot("more", "small", host=node.partition(".")[0]), "ACTIVE"
                )
            ]
        stopped, shelved, suspended = here[0], here[1], here[2]
        self.act(stopped, "os-stop")
        self.wait_for([stopped], "SHUTOFF")
        self.act(shelved, "shelve")
        self.wait_for([shelved], "SHELVED")
        self.act(suspended, "suspend")
        self.wait_for([suspended], "SUSPENDED")
        said = self.openstack("placement plan run --empty", node, fails=True)
        assert f"Stays: {suspended}: it is suspended" in said, said
        self.act(suspended, "resume")
        self.wait_for([suspended], "ACTIVE")
        commands = self.openstack("placement plan create --commands --empty", node)
        assert f"migration confirm {stopped}" in commands
        said = self.openstack("placement plan run --parallel 2 --empty", node)
        assert "the goal holds" in said, said
        servers = self.servers()
        assert [servers[each]["status"] for each in (stopped, shelved, suspended)] == [
            "SHUTOFF",
            "SHELVED",
            "ACTIVE",
        ]
        assert node not in {self.node_of(uuid) for uuid in servers}
        self.act(stopped, "os-start")
        self.remove(shelved)
        self.wait_for([stopped], "ACTIVE")

    def make_room_for_a_large_server(self) -> None:
        """No host is empty; ``plan run`` empties one, and Nova boots the large server."""
        self.tell("room for a large flavor by plan run")
        used = {self.node_of(uuid) for uuid in self.servers()}
        for host in self.cloud.computes:
            if f"{host}.node.example" not in used:
                self.wait_for(self.boot("spread", "small", host=host), "ACTIVE")
        query = "resources=VCPU:8,MEMORY_MB:512,DISK_GB:1"
        said = self.openstack("placement plan run --place", query)
        assert "the goal holds" in said, said
        assert "The goal holds already" in self.openstack("placement plan create --place", query)
        (large,) = self.wait_for(self.boot("large", "large"), "ACTIVE")
        self.remove(large["id"])

    def evacuate_a_host(self) -> None:
        """Its service is killed; its servers are built elsewhere, and it frees their places later."""
        self.tell("evacuation")
        node = self.fullest()
        host = node.partition(".")[0]
        here = [uuid for uuid in self.servers() if self.node_of(uuid) == node]
        self.cloud.computes[host].kill()
        listed = self.nova.get(
            f"/os-services?binary=nova-compute&host={host}", microversion=COMPUTE
        )
        service = listed.json()["services"][0]["id"]
        self.nova.put(f"/os-services/{service}", json={"forced_down": True}, microversion=COMPUTE)
        for uuid in here:
            self.act(uuid, "evacuate", {})
        self.wait_for(here, "ACTIVE")
        wait_until("they are elsewhere", lambda: node not in map(self.node_of, here), 120)
        self.cloud.computes[host] = self.cloud.start_compute(host)
        wait_until(
            "the host has freed them",
            lambda: all(
                each["status"] == "completed"
                for uuid in here
                for each in self.migrations(uuid, "evacuation")
            ),
            180,
        )
        # Nova refuses this as long as the host has not freed them.
        self.nova.put(f"/os-services/{service}", json={"forced_down": False}, microversion=COMPUTE)

    def find_leaks(self) -> None:
        """The audit finds nothing; then it finds what is made on purpose, and removes it."""
        self.tell("audit")
        audit = [
            PROGRAMS / "placement-manage",
            "--config-dir",
            self.cloud.folder / "placement",
            "audit",
        ]
        audit += ["--from-nova", "--json"]
        assert self._audit(audit) == []
        servers = self.servers()
        nodes = [self.node_of(uuid) for uuid in servers]
        providers = self.placement.get("/resource_providers").json()["resource_providers"]
        emptiest = min(providers, key=lambda each: nodes.count(each["name"]))
        server = next(
            uuid
            for uuid, shown in servers.items()
            if shown["status"] == "ACTIVE" and self.node_of(uuid) != emptiest["name"]
        )
        nobody = leaks.make_leaks(World(self.placement), servers[server], emptiest["uuid"])
        assert self._audit(audit) == [nobody, server]
        printed = ran(audit[:-1], env=os.environ | self.cloud.environment).stdout
        assert leaks.mask_widths(printed) == leaks.mask_widths(leaks.read_sample()), printed
        self._audit([*audit, "--remove", "--yes", "--older-than", "0m", "--at-most", "2"])
        assert self._audit(audit) == []

    def ask_for_each_request(self) -> None:
        """The history knows by its request id each action that has moved a server or made it."""
        self.tell("history of each action")
        history = HistoryClient(self.placement)
        asked = 0
        for uuid in self.servers():
            shown = self.nova.get(
                f"/servers/{uuid}/os-instance-actions", microversion=COMPUTE
            ).json()
            for action in shown["instanceActions"]:
                if action["action"] in (
                    "create",
                    "migrate",
                    "live-migration",
                    "evacuate",
                    "resize",
                ):
                    found = list(history.writes(request_id=action["request_id"]))
                    assert found, (uuid, action)
                    asked += 1
        assert asked

    def compare_all(self) -> None:
        """The ledger has what Nova's servers need, where they are, and nothing else; so has the mirror."""
        self.tell("ledger, Nova and mirror are compared")
        wanted: dict[str, dict[str, Any]] = {}
        providers = self.placement.get("/resource_providers").json()["resource_providers"]
        uuids = {each["name"]: each["uuid"] for each in providers}
        for uuid, server in self.servers().items():
            flavor = server["flavor"]
            amounts = {
                "VCPU": flavor["vcpus"],
                "MEMORY_MB": flavor["ram"],
                "DISK_GB": flavor["disk"],
            }
            wanted[uuid] = {uuids[self.node_of(uuid)]: amounts}
        held: dict[str, dict[str, Any]] = {}
        for provider in uuids.values():
            shown = self.placement.get(f"/resource_providers/{provider}/allocations").json()
            for uuid, each in shown["allocations"].items():
                held.setdefault(uuid, {})[provider] = each["resources"]
        assert held == wanted, (held, wanted)
        while not self.mirror.update().complete:
            pass
        again = Mirror(self.placement)
        while not again.update().complete:
            pass
        assert self.mirror.trees == again.trees

    def _follow(self) -> None:
        while not self._over.is_set():
            try:
                self.mirror.update(wait_s=5)
            except (PlacementClientError, exceptions.ClientException):
                # A worker was killed.
                time.sleep(1)

    def _audit(self, command: list[Any]) -> list[str]:
        done = ran(command, env=os.environ | self.cloud.environment)
        assert done.returncode in (0, 3), done.stdout + done.stderr
        report = json.loads(done.stdout)
        assert not report["unplaced"], report
        return [each["uuid"] for each in report["leaks"] + report["misplaced"]]

    def openstack(self, words: str, *more: str, fails: bool = False) -> str:
        """Run a command of its own process; return all that it prints."""
        done = ran(
            [PROGRAMS / "openstack", *words.split(), *more], env=os.environ | self.cloud.environment
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def boot(
        self,
        name: str,
        flavor: str,
        max_count: int = 1,
        group: str | None = None,
        host: str | None = None,
    ) -> list[str]:
        """Ask for servers; return their uuids."""
        server: dict[str, Any] = {
            "name": f"{name}-{new_uuid()[:8]}",
            "imageRef": self.image,
            "flavorRef": self.flavors[flavor],
            "networks": "none",
            "max_count": max_count,
        }
        if host:
            server["host"] = host
        body = {"server": server, "os:scheduler_hints": {"group": group} if group else {}}
        self._post("/servers", body)
        return [
            uuid for uuid, each in self.servers().items() if each["name"].startswith(server["name"])
        ]

    def servers(self) -> dict[str, dict[str, Any]]:
        """Return all servers by uuid."""
        shown = self.nova.get("/servers/detail?all_tenants=True", microversion=COMPUTE).json()
        return {each["id"]: each for each in shown["servers"]}

    def migrations(self, server: str, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the migrations of a server, of one kind if it is given."""
        url = f"/os-migrations?instance_uuid={server}"
        shown = self.nova.get(url, microversion=COMPUTE).json()["migrations"]
        return [each for each in shown if kind in (None, each["migration_type"])]

    def node_of(self, server: str) -> str:
        """Return the name of the hypervisor of a server."""
        shown = self.nova.get(f"/servers/{server}", microversion=COMPUTE).json()["server"]
        return str(shown["OS-EXT-SRV-ATTR:hypervisor_hostname"])

    def fullest(self) -> str:
        """Return the hypervisor that has most servers."""
        nodes = [self.node_of(uuid) for uuid in self.servers()]
        return max(sorted(nodes), key=nodes.count)

    def act(self, server: str, action: str, argument: Any = None) -> None:
        """Ask for an action of a server."""
        self._post(f"/servers/{server}/action", {action: argument})

    def remove(self, server: str) -> None:
        """Delete a server, and wait until it is gone."""
        self.nova.delete(f"/servers/{server}", microversion=COMPUTE)
        wait_until("it is gone", lambda: server not in self.servers(), 120)

    def wait_for(self, servers: list[str], status: str | None = None) -> list[dict[str, Any]]:
        """Wait until servers have a status, or until they are built; return them."""
        assert servers

        def shown() -> list[dict[str, Any]]:
            known = self.servers()
            return [known[uuid] for uuid in servers]

        def so() -> bool:
            now = shown()
            failed = [
                each.get("fault", {}).get("message") for each in now if each["status"] == "ERROR"
            ]
            assert status in (None, "ERROR") or not failed, failed
            return all(
                each["OS-EXT-STS:task_state"] is None
                and (each["status"] == status if status else each["status"] != "BUILD")
                for each in now
            )

        wait_until(f"{len(servers)} servers are {status or 'built'}", so, 180)
        return shown()

    def _post(self, url: str, body: Any) -> Any:
        answer = self.nova.post(url, json=body, microversion=COMPUTE)
        return answer.json() if answer.content else None
