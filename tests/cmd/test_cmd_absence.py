"""The table of specification 06 section 14: what commands do with nothing, a part and a refusal."""

import argparse
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from keystoneauth1 import adapter, session, token_endpoint
from keystoneauth1 import exceptions as keystone_exceptions
from osc_lib import exceptions as osc_exceptions
from osc_placement import http as osc_http
from sqlalchemy import delete

from placement.client.exceptions import PlacementClientError
from placement.client.mirror import Mirror, MirrorFailed
from placement.client.osc.providers import CheckResourceProviderDrain
from placement.client.report import ReportClient
from placement.cmd import audit
from placement.db import models, schema
from placement.db.database import Database
from placement.extensions.questions import tables as questions_tables
from tests.client.conftest import serving
from tests.client.proxy import FaultyProxy
from tests.support.databases import opened, scratch_database
from tests.support.nova import nova, variables
from tests.support.programs import Command
from tests.support.service import Service, configure
from tests.support.world import World, new_uuid

SPECIFICATION = Path(__file__).parents[2] / "docs/specification/06-operations.md"
SIDES = ("nothing", "a part", "a refusal")
SERVERS = [new_uuid() for _ in range(20)]
REMOVE = ("--remove", "--yes", "--older-than", "0s")
NOBODY = "nobody"
"""A token without a role."""


class Place:
    """A served cloud, and a second one that is empty.

    ``url``, ``empty_url``: of the services; ``database_url``, ``empty_database_url``: of their databases.
    """

    def __init__(self, folder: Path, command: Command) -> None:
        self.folder, self._command = folder, command
        self.url = self.empty_url = self.database_url = self.empty_database_url = ""
        self.database: Database
        self.host = self.device = ""

    def run(self, program: str, *words: str, on: str = "", **more: str) -> str:
        """Run a command on a database, this cloud's unless told otherwise; return how it ended."""
        done = self._command(program, *words, url=on or self.database_url, **more)
        assert "Traceback" not in done.stderr
        return f"exit {done.returncode}"

    def tree(self, *words: str, url: str = "", token: str = "admin") -> str:
        url = url or self.url
        auth = ("--os-auth-type", "admin_token", "--os-token", token, "--os-endpoint", url)
        return self.run("placement-tree", *words, *auth)

    def compare(self, url: str, *words: str, token: str = "admin") -> str:
        auth = ("--os-auth-type", "admin_token", "--os-token", token, "--os-endpoint", url)
        return self.run("placement-compare", url, url, "--searches", "0", *words, *auth)

    def file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def adapter(self, url: str = "", token: str = "admin") -> adapter.Adapter:
        auth = token_endpoint.Token(url or self.url, token)
        return adapter.Adapter(session.Session(auth), service_type="placement")


@pytest.fixture
def place(tmp_path: Path, command: Command) -> Iterator[Place]:
    made = Place(tmp_path, command)
    with (
        scratch_database("sqlite", schema.HEAD, named=True) as made.database_url,
        scratch_database("sqlite", schema.HEAD, named=True) as made.empty_database_url,
        opened(made.database_url) as made.database,
        opened(made.empty_database_url) as empty_database,
    ):
        # So little work that no count comes to its end.
        conf = configure(insight__enabled=True, insight__work_factor=1)
        service = Service(conf, made.database)
        world = World(service)
        made.host = world.provider("cmp1", inventory={"VCPU": 1000, "MEMORY_MB": 1000})
        made.device = world.provider("device", parent=made.host, inventory={"VGPU": 8})
        for number in range(40):
            world.provider(f"cell-{number}", parent=made.host, inventory={"VCPU": 10})
        for server in SERVERS:
            world.claim({made.host: {"VCPU": 1}}, server, consumer_type="INSTANCE")
        with (
            serving(service.application) as made.url,
            serving(Service(conf, empty_database).application) as made.empty_url,
        ):
            yield made
            assert {holder.uuid for holder in audit.holders(made.database)} == set(SERVERS)
            assert len(world.get("/resource_providers")["resource_providers"]) == 42


# The audit


def audit_list(place: Place, listed: list[str] | None) -> str:
    file = str(place.folder / "absent")
    if listed is not None:
        file = place.file("consumers", "\n".join(listed))
    return place.run("placement-manage", "audit", "--consumers", file, *REMOVE)


def audit_nova(place: Place, servers: list[str], refused: tuple[str, ...] = ()) -> str:
    with nova() as stand_in:
        stand_in.refused = refused
        for server in servers:
            shown = {"id": server, "status": "ACTIVE", "OS-EXT-STS:task_state": None}
            place_of = "OS-EXT-SRV-ATTR"
            shown |= {
                f"{place_of}:{name}": "cmp1" for name in ("hypervisor_hostname", "instance_name")
            }
            stand_in.servers.append(shown)
        words = ("placement-manage", "audit", "--from-nova", *REMOVE)
        return place.run(*words, **variables(stand_in.url))


# Trees


def export(place: Place, **more: str) -> str:
    ended = place.tree("export", "--all", "-o", str(place.folder / "trees.yaml"), **more)
    return ended if (place.folder / "trees.yaml").exists() else f"{ended}, no file is written"


def export_a_part(place: Place) -> str:
    with FaultyProxy(place.url) as proxy:
        proxy.fail("GET", "inventories", "status", status=500, after=3, times=99)
        return export(place, url=proxy.url)


def apply(place: Place, providers: str, token: str = "admin") -> str:
    file = place.file("tree.yaml", f"placement_tree: 1\nproviders: {providers}\n")
    return place.tree("apply", file, token=token)


def migrate(place: Place, on: str = "", policy: str = "{}") -> str:
    node = f"{{name: node, uuid: {new_uuid()}}}"
    file = place.file("node.yaml", f"placement_tree: 1\nproviders: [{node}]\n")
    return place.run(
        *("placement-migrate-compute-inventory", "--driver", "file"),
        on=on,
        OS_TREE_DRIVER__TREE_FILE=file,
        OS_OSLO_POLICY__POLICY_FILE=place.file("policy.yaml", policy),
    )


def reshape_nothing(place: Place) -> str:
    class Unasked:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    client = ReportClient(Unasked())
    client.update_from_provider_tree(None, client.cached_tree, {})
    return "no request"


def reshape(place: Place, service: Any) -> str:
    client = ReportClient(service)
    try:
        client.get_provider_tree_and_ensure_root(None, place.host)
        if isinstance(service, Lost):
            service.left = 9
        tree, records = client.get_tree_and_allocations(None, place.host)
    except PlacementClientError:
        return "raises `PlacementClientError`"
    # Whatever was read half would be the whole of what the reshape writes.
    return f"{len(tree.get_provider_uuids())} providers, {len(records)} consumers"


class Lost:
    """An adapter of the compatible API, whose connection breaks after so many more requests."""

    def __init__(self, real: Any) -> None:
        self.real, self.left = real, 1000

    def get(self, url: str, **more: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise keystone_exceptions.ConnectFailure("lost")
        return self.real.get(url.replace("/-/trees", "/-/nothing"), **more)


# What asks, counts and migrates


def migrate_online(place: Place, *words: str, on: str = "") -> str:
    return place.run("placement-manage", "db", "online_data_migrations", *words, on=on)


def migrate_a_part(place: Place) -> str:
    """Two consumers have lost their records, as old releases left them; the command makes them anew."""
    for server in SERVERS[:2]:
        statement = delete(models.consumers).where(models.consumers.c.uuid == server)
        place.database.write(lambda tx, todo=statement: tx.connection.execute(todo))
    ended = migrate_online(place, "--max-count", "1")
    migrate_online(place)
    return ended


def record(place: Place, on: str = "") -> str:
    shapes = place.file("shapes.yaml", "small: resources=VCPU:1\n")
    more = {"OS_INSIGHT__ENABLED": "true", "OS_INSIGHT__WORK_FACTOR": "1"}
    ended = place.run(
        *("placement-manage", "capacity", "record"), on=on, OS_INSIGHT__SHAPES_FILE=shapes, **more
    )
    rows = place.database.read(lambda access: access.column(questions_tables.capacity_records.select()))
    return ended if rows else f"{ended}, not recorded"


def drain(place: Place, host: str = "cmp1", token: str = "admin") -> str:
    auth = token_endpoint.Token(place.url, token)
    client = osc_http.SessionClient(session.Session(auth), {"service_type": "placement"}, "1.39")
    command = CheckResourceProviderDrain(
        SimpleNamespace(client_manager=SimpleNamespace(placement=client)), argparse.Namespace()
    )
    words = command.get_parser("drain").parse_args([host, "--resource", "VCPU=1"])
    try:
        names, values = command.take_action(words)
    except (osc_exceptions.ClientException, osc_exceptions.CommandError):
        return "exit 1"
    return f"`complete` is {dict(zip(names, values, strict=True))['complete']}"


def mirror(place: Place, spoil: Callable[[Any], None]) -> str:
    class Spoilt:
        def __init__(self) -> None:
            self.real, self.asked = place.adapter(), 0
            self.is_spoilt = False

        def get(self, *given: Any, **more: Any) -> Any:
            if self.is_spoilt:
                spoil(self)
            return self.real.get(*given, **more)

    service = Spoilt()
    made = Mirror(service, wait=lambda _s: None)
    made.update(0)
    before = json.dumps(made.trees)
    assert place.host in made.trees
    World(Service(configure(insight__enabled=True), place.database)).set_inventory(
        place.device, {"VGPU": 9}
    )
    service.is_spoilt = True
    with pytest.raises(MirrorFailed):
        made.update(0)
    assert json.dumps(made.trees) == before
    return "raises `MirrorFailed`, trees as before"


def lose_the_second(service: Any) -> None:
    """What has changed is told; the trees that are named cannot be read."""
    service.asked += 1
    if service.asked > 1:
        raise keystone_exceptions.ConnectFailure("lost")


def mirror_nothing(place: Place) -> str:
    made = Mirror(place.adapter(place.empty_url), wait=lambda _s: None)
    update = made.update(0)
    return "`whole`, and no trees" if update.whole and not made.trees else "something"


def set_token_of_nobody(place: Place) -> Callable[[Any], None]:
    def spoil(service: Any) -> None:
        service.real = place.adapter(token=NOBODY)

    return spoil


GONE = "sqlite:////nowhere/placement.sqlite"
UNREADABLE = '"placement:resource_providers:list": "!"\n'

SCENES: dict[str, tuple[Callable[[Place], str], ...]] = {
    "`placement-manage audit --consumers`": (
        lambda it: audit_list(it, []),
        lambda it: audit_list(it, SERVERS[:5]),
        lambda it: audit_list(it, None),
    ),
    "`placement-manage audit --from-nova`": (
        lambda it: audit_nova(it, []),
        lambda it: audit_nova(it, SERVERS[:10]),
        lambda it: audit_nova(it, SERVERS, ("/servers/detail",)),
    ),
    "`placement-compare --queries FILE`": (
        lambda it: it.compare(it.url, "--queries", it.file("log", "")),
        lambda it: it.compare(
            it.url, "--queries", it.file("log", "a\n/allocation_candidates?resources=VCPU:1")
        ),
        lambda it: it.compare(it.url, "--queries", str(it.folder / "absent")),
    ),
    "`placement-compare`": (
        lambda it: it.compare(it.empty_url),
        lambda it: it.compare(
            it.url, "--queries", it.file("log", "/allocation_candidates?resources=NO:1")
        ),
        lambda it: it.compare(it.url, token=NOBODY),
    ),
    "`placement-tree export --all`": (
        lambda it: export(it, url=it.empty_url),
        export_a_part,
        lambda it: export(it, token=NOBODY),
    ),
    "`placement-tree apply`": (
        lambda it: apply(it, "[]"),
        lambda it: apply(it, "[{name: cmp1}]"),
        lambda it: apply(it, "[{name: cmp1}]", token=NOBODY),
    ),
    "`placement-migrate-compute-inventory`": (
        lambda it: migrate(it, on=it.empty_database_url),
        migrate,
        lambda it: migrate(it, policy=UNREADABLE),
    ),
    "`placement-manage db online_data_migrations`": (
        migrate_online,
        migrate_a_part,
        lambda it: migrate_online(it, on=GONE),
    ),
    "`placement-manage capacity record`": (
        lambda it: record(it, on=it.empty_database_url),
        record,
        lambda it: record(it, on=GONE),
    ),
    "`openstack resource provider drain check`": (
        lambda it: drain(it, "nowhere"),
        drain,
        lambda it: drain(it, token=NOBODY),
    ),
    "`update_from_provider_tree`, with a reshape": (
        reshape_nothing,
        lambda it: reshape(it, Lost(it.adapter())),
        lambda it: reshape(it, it.adapter(token=NOBODY)),
    ),
    "`Mirror.update`": (
        mirror_nothing,
        lambda it: mirror(it, lose_the_second),
        lambda it: mirror(it, set_token_of_nobody(it)),
    ),
}


def rows() -> dict[str, list[str]]:
    """Return the table of the specification: what it says by the first cell."""
    text = SPECIFICATION.read_text().partition("## 14. ")[2]
    cells = [re.split(r" *\| *", line.strip("| ")) for line in text.splitlines() if line[:1] == "|"]
    return {first: rest for first, *rest in cells[2:]}


def test_the_table_and_the_scenes_have_the_same_rows() -> None:
    assert rows().keys() == SCENES.keys()
    assert {len(said) for said in rows().values()} == {len(SIDES)}


@pytest.mark.parametrize("number", range(len(SIDES)), ids=SIDES)
@pytest.mark.parametrize("what", SCENES)
def test_what_the_table_says_is_so(place: Place, what: str, number: int) -> None:
    """And all that the cloud has is there afterwards."""
    said = rows()[what][number]
    done = SCENES[what][number](place)
    assert re.match(rf"{re.escape(done)}\b|{re.escape(done)}[,:]|{re.escape(done)}$", said), (
        done,
        said,
    )
