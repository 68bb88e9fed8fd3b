"""placement-manage audit against Nova: who holds something where it is not (specification 07 section 8)."""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import update

from placement.cmd import audit, nova_audit
from placement.db import models, standard_names
from placement.db.database import Database
from tests.operations.cloud import leaks
from tests.support.nova import StandIn, clouds, nova, variables
from tests.support.programs import Command
from tests.support.revisions import AT_HEAD, on
from tests.support.service import Service, configure
from tests.support.world import World, new_uuid

pytestmark = AT_HEAD

NODE = "a1a1a1a1-0000-4000-8000-000000000001"
OTHER_NODE = "a1a1a1a1-0000-4000-8000-000000000002"
"""Of ironic, where a provider has the uuid of its node as its name."""


class Situation(NamedTuple):
    """A server, its migrations and what it holds, all in words; and what the audit makes of it.

    :param server: its status, host and task; none at all if there is no such server.
    :param move: type, status, source and destination of its only migration, and what that holds.
    :param found: the part of the result that has it.
    :param elsewhere: what of its allocations is told there.
    """

    name: str
    server: str
    move: str
    held: str
    found: str = ""
    elsewhere: str = ""


SITUATIONS = (
    Situation("on its host", "ACTIVE cmp1", "", "cmp1"),
    Situation("with a device and a shared pool", "SHUTOFF cmp1", "", "cmp1 gpu1 pool"),
    Situation("and on a second one", "ACTIVE cmp1", "", "cmp1 cmp2", "misplaced", "cmp2"),
    Situation(
        "with devices and a pool that both share",
        "ACTIVE cmp1",
        "",
        "cmp1 gpu1 pool cmp2 gpu2",
        "misplaced",
        "cmp2 gpu2",
    ),
    Situation("a pool of others", "ACTIVE cmp1", "", "cmp1 pool2", "misplaced", "pool2"),
    Situation("a device of another", "ACTIVE cmp1", "", "cmp1 gpu2", "misplaced", "gpu2"),
    Situation("since a moment", "ACTIVE cmp1", "", "cmp1 cmp2", "misplaced", "cmp2"),
    Situation("failed at once", "ERROR -", "", "cmp1 gpu1 pool", "misplaced", "cmp1 gpu1 pool"),
    Situation("failed on its host", "ERROR cmp1", "", "cmp1"),
    Situation("failed on two", "ERROR cmp1", "", "cmp1 cmp2", "misplaced", "cmp2"),
    Situation("shelved", "SHELVED cmp1", "", "cmp1"),
    Situation("offloaded", "SHELVED_OFFLOADED -", "", "cmp2 pool", "misplaced", "cmp2 pool"),
    Situation("comes back", "SHELVED_OFFLOADED - spawning", "", "cmp2", "under_way"),
    Situation("can be restored", "SOFT_DELETED cmp1", "", "cmp1 cmp2", "misplaced", "cmp2"),
    Situation("gets a host", "BUILD - scheduling", "", "cmp1", "under_way"),
    Situation("has claimed", "BUILD -", "", "cmp1", "under_way"),
    Situation("is being deleted", "ERROR - deleting", "", "cmp1", "under_way"),
    Situation("of a cell that is down", "UNKNOWN -", "", "cmp1", "under_way"),
    Situation(
        "live", "MIGRATING cmp1 migrating", "live-migration running cmp1 cmp2 cmp1", "cmp2", "under_way"
    ),
    Situation(
        "to be confirmed", "VERIFY_RESIZE cmp2", "resize finished cmp1 cmp2 cmp1", "cmp2", "under_way"
    ),
    Situation("accepted", "ACTIVE cmp1", "migration accepted cmp1 - -", "cmp1 cmp2", "under_way"),
    Situation("confirmed", "ACTIVE cmp2", "resize confirmed cmp1 cmp2 -", "cmp2"),
    Situation(
        "left", "ACTIVE cmp2", "resize confirmed cmp1 cmp2 -", "cmp1 cmp2", "misplaced", "cmp1"
    ),
    Situation(
        "gave up", "ACTIVE cmp1", "live-migration error cmp1 cmp2 -", "cmp1 cmp2", "misplaced", "cmp2"
    ),
    Situation("broke off", "ERROR cmp1", "resize error cmp1 cmp2 -", "cmp1 cmp2"),
    Situation(
        "broke off, and a third",
        "ERROR cmp1",
        "resize error cmp1 cmp2 -",
        "cmp1 cmp2 cmp3",
        "misplaced",
        "cmp3",
    ),
    Situation(
        "leaves", "REBUILD cmp1 rebuilding", "evacuation accepted cmp1 cmp2 -", "cmp1 cmp2", "under_way"
    ),
    Situation("evacuated", "ACTIVE cmp2", "evacuation done cmp1 cmp2 -", "cmp1 gpu1 cmp2 pool"),
    Situation(
        "evacuated, and a third",
        "ACTIVE cmp2",
        "evacuation done cmp1 cmp2 -",
        "cmp1 cmp2 cmp3",
        "misplaced",
        "cmp3",
    ),
    Situation(
        "and back", "ACTIVE cmp2", "evacuation completed cmp1 cmp2 -", "cmp1 cmp2", "misplaced", "cmp1"
    ),
    Situation("of ironic", f"ACTIVE {NODE}", "", NODE),
    Situation(
        "on two nodes", f"ACTIVE {NODE}", "", f"{NODE} {OTHER_NODE}", "misplaced", OTHER_NODE
    ),
    Situation("of no provider", "ACTIVE cmp9", "", "cmp1 pool", "unplaced", "cmp1 pool"),
    Situation("elsewhere only", "ACTIVE cmp2", "", "cmp1", "unplaced", "cmp1"),
    Situation("shared, and elsewhere", "ACTIVE cmp1", "", "pool cmp3", "unplaced", "cmp3"),
    Situation("nowhere", "ACTIVE cmp1", "", "", "missing"),
    Situation("unknown", "", "", "cmp1 pool", "leaks"),
    Situation("nothing of a move", "ACTIVE cmp1", "migration reverted cmp1 cmp2 cmp2", "cmp1"),
)
YOUNG = "since a moment"

DEVICE = {"VGPU": 100}
COMPUTE = {"VCPU": 1000, "MEMORY_MB": 1000}
POOL = {"DISK_GB": 1000}
AMOUNTS = {"cmp": {"VCPU": 2, "MEMORY_MB": 5}, "gpu": {"VGPU": 1}, "poo": {"DISK_GB": 7}}
SHARES = ("MISC_SHARES_VIA_AGGREGATE",)


class Cloud:
    """Placement and Nova, with servers in situations.

    ``uuids`` of consumers by the name of the situation; those of their migrations by ``move of <name>``.
    """

    def __init__(self, database: Database, stand_in: StandIn) -> None:
        standard_names.synchronise(database)
        self.database, self.nova = database, stand_in
        self.world = World(Service(configure(), database))
        self.uuids: dict[str, str] = {}
        both, one = new_uuid(), new_uuid()
        make = self.world.provider
        self.providers = {
            "cmp1": make("cmp1", inventory=COMPUTE, aggregates=[both]),
            "cmp2": make("cmp2", inventory=COMPUTE),
            "cmp3": make("cmp3", inventory=COMPUTE, aggregates=[one]),
            "pool": make("pool", inventory=POOL, traits=SHARES, aggregates=[both]),
            "pool2": make("pool2", inventory=POOL, traits=SHARES, aggregates=[one]),
            **{node: make(node, inventory=COMPUTE, key=node) for node in (NODE, OTHER_NODE)},
        }
        for number, aggregates in ("1", ()), ("2", [both]):
            parent = self.providers[f"cmp{number}"]
            device = make(f"gpu{number}", parent, DEVICE, aggregates=aggregates)
            self.providers[f"gpu{number}"] = device

    def add(self, situation: Situation) -> str:
        """Let there be this server; return its uuid."""
        name = situation.name
        server = self.uuids[name] = new_uuid()
        if situation.server:
            self.nova.servers.append(server_of(server, *situation.server.split()))
        if situation.move:
            kind, status, source, dest, held = (
                None if word == "-" else word for word in situation.move.split()
            )
            move = self.uuids[f"move of {name}"] = new_uuid()
            self.nova.migrations.append(
                {
                    "uuid": move,
                    "instance_uuid": server,
                    "migration_type": kind,
                    "status": status,
                    "source_node": source,
                    "source_compute": f"service of {source}",
                    "dest_node": dest,
                    "dest_compute": dest and f"service of {dest}",
                }
            )
            if held:
                self.world.claim(self.amounts(held), move, consumer_type="MIGRATION")
        if situation.held:
            self.world.claim(self.amounts(situation.held), server)
        return server

    def amounts(self, providers: str) -> dict[str, dict[str, int]]:
        """Return what is held of these providers."""
        return {
            self.providers[name]: AMOUNTS.get(name[:3], AMOUNTS["cmp"]) for name in providers.split()
        }

    def make_old(self, *but: str) -> None:
        """Let all allocations but those of these situations be old, and one tree of an old database."""
        consumers, providers = models.consumers, models.resource_providers
        young = [self.uuids[name] for name in but]
        past = models.now().replace(year=2020)
        for statement in (
            update(consumers)
            .where(consumers.c.uuid.not_in(young))
            .values(created_at=past, updated_at=past),
            update(providers).where(providers.c.name.in_(["cmp1", "gpu1"])).values(root_provider_id=None),
        ):
            self.database.write(lambda tx, todo=statement: tx.connection.execute(todo))

    def held(self) -> dict[str, Any]:
        """Return what each consumer holds, by uuid."""
        return {holder.uuid: holder.held for holder in audit.holders(self.database)}


def server_of(key: str, status: str, node: str, task: str | None = None) -> dict[str, Any]:
    """Return what Nova shows of a server; of a cell that is down it shows the least."""
    shown: dict[str, Any] = {"id": key, "status": status, "tenant_id": "red", "links": []}
    if status == "UNKNOWN":
        return shown
    place = None if node == "-" else node
    return shown | {
        "OS-EXT-STS:task_state": task,
        "OS-EXT-SRV-ATTR:host": place and f"service of {place}",
        "OS-EXT-SRV-ATTR:hypervisor_hostname": place,
        "OS-EXT-SRV-ATTR:instance_name": f"instance-{key[:8]}",
    }


@pytest.fixture
def cloud(
    database: Database, tmp_path: Path, environment: dict[str, str]
) -> Iterator[Cloud]:
    """A cloud without servers, which ``--os-cloud mycloud`` finds."""
    with nova() as stand_in:
        file = tmp_path / "clouds.yaml"
        file.write_text(clouds(stand_in.url))
        environment["OS_CLIENT_CONFIG_FILE"] = str(file)
        yield Cloud(database, stand_in)


AUDIT = ("placement-manage", "audit", "--from-nova", "--os-cloud", "mycloud")


def test_what_each_holds_is_compared_with_where_it_is(
    command: Command, cloud: Cloud, url: str, tmp_path: Path
) -> None:
    """All situations at once: what is told of each, and what is left of it."""
    for situation in SITUATIONS:
        cloud.add(situation)
    cloud.make_old(YOUNG)
    before = cloud.held()

    metrics = tmp_path / "placement.prom"
    done = command(*AUDIT, "--json", "--metrics-file", str(metrics), url=url)

    assert done.returncode == 3, done.stderr
    report = json.loads(done.stdout)
    names = {key: name for name, key in cloud.uuids.items()}
    found = {
        names[each if isinstance(each, str) else each["uuid"]]: part
        for part, several in report.items()
        for each in several
    }
    expected = {each.name: each.found for each in SITUATIONS if each.found}
    expected |= {
        "move of live": "under_way",
        "move of to be confirmed": "under_way",
        "move of nothing of a move": "leaks",
    }
    assert found == expected
    elsewhere = {
        names[each["uuid"]]: each["elsewhere"] for each in report["misplaced"] + report["unplaced"]
    }
    told = [each for each in SITUATIONS if each.elsewhere]
    assert elsewhere == {each.name: cloud.amounts(each.elsewhere) for each in told}
    misplaced = sum(each.found == "misplaced" for each in SITUATIONS)
    assert f"placement_audit_misplaced {misplaced + 3}.0" in metrics.read_text()

    done = command(*AUDIT, "--remove", "--yes", "--at-most", "50", url=url)

    assert done.returncode == 3, done.stderr
    assert f"{misplaced + 1} of {misplaced + 2} are old enough to be removed." in done.stdout
    freed = {each.name for each in told if each.found == "misplaced" and each.name != YOUNG}
    left = {key: held for key, held in before.items() if found.get(names[key]) != "leaks"}
    for each in told:
        if each.name in freed:
            gone = cloud.amounts(each.elsewhere)
            key = cloud.uuids[each.name]
            left[key] = {uuid: r for uuid, r in left[key].items() if uuid not in gone}
    assert cloud.held() == {key: held for key, held in left.items() if held}
    again = json.loads(command(*AUDIT, "--json", url=url).stdout)
    assert {names[each["uuid"]] for each in again["misplaced"]} == {YOUNG}
    assert again["leaks"] == []


@on("sqlite")
def test_the_page_shows_what_the_command_prints(
    command: Command, cloud: Cloud, url: str
) -> None:
    """Of the leaks that are made in a cloud with a real Nova, letter for letter but for uuids and ages."""
    server = new_uuid()
    stock = {"VCPU": 8, "MEMORY_MB": 2048}
    first, second = (
        cloud.world.provider(f"host{number}.node.example", inventory=stock) for number in (1, 2)
    )
    owner = {"tenant_id": new_uuid().replace("-", ""), "user_id": "u"}
    shown = server_of(server, "ACTIVE", "host1.node.example") | owner
    cloud.nova.servers.append(shown)
    cloud.world.claim({first: AMOUNTS["cmp"]}, server, version=leaks.WRITES)
    leaks.make_leaks(cloud.world, shown, second)
    past = models.now() - timedelta(hours=21, minutes=4)
    old = update(models.consumers).values(created_at=past, updated_at=past)
    cloud.database.write(lambda tx: tx.connection.execute(old))

    done = command(*AUDIT, url=url)

    assert done.returncode == 3, done.stderr
    assert leaks.mask_names(done.stdout) == leaks.mask_names(leaks.read_sample()), done.stdout


def test_what_changes_while_nova_is_asked_is_not_told(
    command: Command, cloud: Cloud, url: str
) -> None:
    """One server begins to move before it is asked for alone, another one claims, a third is gone."""
    moves, claims, leaves = (
        cloud.add(Situation(name, "ACTIVE cmp1", "", "cmp1 cmp2")) for name in ("moves", "claims", "leaves")
    )
    cloud.make_old()

    def change(path: str, query: dict[str, str]) -> None:
        asked = query.get("uuid")
        if asked == moves:
            cloud.nova.servers[0]["OS-EXT-STS:task_state"] = "migrating"
        elif asked == claims:
            cloud.world.release(claims)
            cloud.world.claim(cloud.amounts("cmp1 cmp2"), claims)
        elif asked == leaves:
            cloud.nova.servers[2:] = []

    cloud.nova.when_asked = change
    done = command(*AUDIT, "--remove", "--yes", "--older-than", "0s", "--json", url=url)

    assert (done.returncode, json.loads(done.stdout)["misplaced"]) == (0, []), done.stderr
    assert set(cloud.held()) == {moves, claims, leaves}


def test_what_is_written_after_it_was_read_stays(cloud: Cloud) -> None:
    """Also if the consumer was made anew and has the same generation; owner and type stay as they are."""
    server = cloud.add(Situation("two hosts", "ACTIVE cmp1", "", "cmp1 cmp2"))
    own = cloud.amounts("cmp1")
    (read,) = audit.holders(cloud.database)
    cloud.world.claim(cloud.amounts("cmp1 cmp2"), server, generation=read.generation)
    assert not audit.release(cloud.database, read, own)
    cloud.world.release(server)
    cloud.world.claim(cloud.amounts("cmp1 cmp3"), server)
    (now,) = audit.holders(cloud.database)
    assert now.generation == read.generation
    assert not audit.release(cloud.database, read, own)
    assert not audit.release(cloud.database, read)
    (read,) = audit.holders(cloud.database)
    assert read == now
    assert audit.release(cloud.database, read, own)
    (left,) = audit.holders(cloud.database)
    assert left.held == own
    assert (left.type, left.project, left.user) == (read.type, read.project, read.user)


def test_what_could_not_be_written_again_stays(command: Command, cloud: Cloud, url: str) -> None:
    """What it keeps is a claim like any other: inventory that was cut since refuses it, and others go on."""
    cut = cloud.add(Situation("cut", "ACTIVE cmp3", "", "cmp3 cmp2"))
    cloud.add(Situation("failed", "ERROR -", "", "cmp1"))
    cloud.make_old()
    cloud.world.set_inventory(
        cloud.providers["cmp3"], {"VCPU": {"total": 9, "max_unit": 1}, "MEMORY_MB": 9}
    )
    done = command(*AUDIT, "--remove", "--yes", "--at-most", "2", url=url)
    assert done.returncode == 3, done.stderr
    assert f"{cut} stays as it is: Unable to allocate inventory" in done.stdout
    assert "1 removed." in done.stdout
    assert set(cloud.held()) == {cut}



@on("sqlite")
def test_people_see_server_host_and_what_is_elsewhere(
    command: Command, cloud: Cloud, url: str
) -> None:
    cloud.add(Situation("two hosts", "ACTIVE cmp1", "", "cmp1 cmp2 gpu2"))
    cloud.add(Situation("elsewhere only", "ACTIVE cmp2", "", "cmp1"))
    cloud.add(Situation("to be confirmed", "VERIFY_RESIZE cmp2", "", "cmp2"))
    done = command(*AUDIT, url=url)
    lines = done.stdout.splitlines()
    assert "1 hold resources where they are not." in lines
    assert "1 have a host and hold resources, but none there." in lines
    assert "1 are being built or moved and were not compared." in lines
    rows = [[cell.strip() for cell in line.split("|")[5:-1]] for line in lines if "|" in line]
    assert rows[0] == ["State", "Host", "Holds elsewhere"]
    assert ["ACTIVE", "cmp1", "cmp2 MEMORY_MB:5, VCPU:2"] in rows
    assert ["", "", "gpu2 VGPU:1"] in rows
    assert ["ACTIVE", "cmp2", "cmp1 MEMORY_MB:5, VCPU:2"] in rows


@on("sqlite")
def test_an_account_that_does_not_see_hosts_is_no_reason_to_free_anything(
    command: Command, cloud: Cloud, url: str
) -> None:
    cloud.add(Situation("failed", "ERROR cmp1", "", "cmp1"))
    cloud.make_old()
    (server,) = cloud.nova.servers
    for name in [name for name in server if name.startswith("OS-EXT-SRV-ATTR")]:
        del server[name]
    done = command(*AUDIT, "--remove", "--yes", url=url)
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not show on which host" in done.stderr
    assert "an administrator's" in done.stderr
    assert len(cloud.held()) == 1


def lose_the_servers(cloud: Cloud) -> None:
    """Nova has none: another region that is new, or a project."""
    cloud.nova.servers.clear()


def have_other_servers(cloud: Cloud) -> None:
    """Nova is that of another region, whose hosts are named alike."""
    cloud.nova.servers[:] = [server_of(new_uuid(), "ACTIVE", "cmp1") for _ in range(5)]


def have_other_hosts(cloud: Cloud) -> None:
    """Nova calls all its hosts by names that no provider has."""
    for server in cloud.nova.servers:
        server["OS-EXT-SRV-ATTR:hypervisor_hostname"] = "elsewhere"


def lose_a_part(cloud: Cloud) -> None:
    """Of twelve servers Nova knows four."""
    del cloud.nova.servers[4:]


def refuse_the_servers(cloud: Cloud) -> None:
    """The account may not list the servers of others."""
    cloud.nova.refused = ("/servers/detail",)


def refuse_the_migrations(cloud: Cloud) -> None:
    """The account may list servers, but no migrations."""
    cloud.nova.refused = ("/os-migrations",)


WRONG_NOVAS = {
    lose_the_servers: "Nova knows none of the 12 consumers",
    have_other_servers: "Nova knows none of the 12 consumers",
    have_other_hosts: "None of the 1 hosts on which Nova has servers is a resource provider",
    lose_a_part: "8 of 12 consumers",
    refuse_the_servers: "GET /servers/detail: HTTP 403",
    refuse_the_migrations: "GET /os-migrations: HTTP 403",
}


@on("sqlite")
@pytest.mark.parametrize("happen", WRONG_NOVAS)
def test_a_nova_that_knows_less_than_all_removes_nothing(
    command: Command, cloud: Cloud, url: str, happen: Callable[[Cloud], None]
) -> None:
    for number in range(12):
        cloud.add(Situation(f"server {number}", "ACTIVE cmp1", "", "cmp1"))
    cloud.make_old()
    assert command(*AUDIT, url=url).returncode == 0
    happen(cloud)

    done = command(*AUDIT, "--remove", "--yes", url=url)

    assert done.returncode == 1
    assert WRONG_NOVAS[happen] in done.stderr
    assert len(cloud.held()) == 12


@on("sqlite")
def test_a_cloud_in_which_nothing_is_held_yet_is_clean(
    command: Command, cloud: Cloud, url: str
) -> None:
    assert command(*AUDIT, url=url).returncode == 0


@on("sqlite")
def test_the_environment_names_nova_without_openstacksdk(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the Debian package and the container, which have keystoneauth1 alone."""
    leak = cloud.add(Situation("unknown", "", "", "cmp1"))
    cloud.add(Situation("on its host", "ACTIVE cmp1", "", "cmp1"))
    monkeypatch.setitem(sys.modules, "openstack", None)
    for name, value in variables(cloud.nova.url).items():
        monkeypatch.setenv(name, value)
    assert [found.uuid for found in nova_audit.ask(cloud.database, None).leaks] == [leak]
    with pytest.raises(audit.AuditError, match="pip install openstacksdk"):
        nova_audit.ask(cloud.database, "mycloud")


@on("sqlite")
def test_pages_without_an_end_are_refused(command: Command, cloud: Cloud, url: str) -> None:
    for number in range(4):
        cloud.add(Situation(f"server {number}", "ACTIVE cmp1", "", "cmp1"))
    cloud.nova.when_asked = lambda path, query: query.pop("marker", None) and None
    done = command(*AUDIT, url=url)
    assert done.returncode == 1
    assert "have no end" in done.stderr


@on("sqlite")
@pytest.mark.parametrize("cloud_name", ["mycloud", "nobodys"])
def test_a_nova_that_cannot_be_asked_is_named(
    command: Command, cloud: Cloud, url: str, cloud_name: str, tmp_path: Path
) -> None:
    """It does not answer, or no cloud has that name."""
    (tmp_path / "clouds.yaml").write_text(clouds("http://127.0.0.1:1/v2.1"))
    done = command(*AUDIT[:-1], cloud_name, url=url)
    assert done.returncode == 1
    assert "Nova cannot be asked: " in done.stderr
    assert "Traceback" not in done.stderr
