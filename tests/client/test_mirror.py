"""The mirror of all trees, on a real service over HTTP (specification 07 section 10)."""

import json
import re
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from keystoneauth1 import adapter

from placement.client.mirror import Mirror, MirrorFailed
from tests.client.world import World
from tests.support import world as worlds
from tests.support.client import Client
from tests.support.forks import placement_api
from tests.support.processes import Process, free_port, listens, wait_until
from tests.support.world import new_uuid

PAGE = Path(__file__).parents[2] / "docs/howto/follow.rst"


@pytest.fixture
def connection(http: adapter.Adapter) -> adapter.Adapter:
    """An adapter of the service that shows changes."""
    return http


@pytest.fixture
def mirror(connection: adapter.Adapter) -> Mirror:
    """A mirror that has read everything."""
    made = Mirror(connection, wait=lambda _seconds: None)
    assert made.update(0).whole
    return made


def test_a_mirror_reads_what_has_changed_and_nothing_else(mirror: Mirror, world: World) -> None:
    """A new host, a claim, a child that becomes a tree, and the end of both."""
    host = world.provider(inventory={"VCPU": 8})
    assert mirror.update(0) == ({host}, False, True)
    (shown,) = mirror.trees[host]["providers"]
    assert shown["inventories"]["VCPU"]["used"] == 0

    consumer = new_uuid()
    world.claim({host: {"VCPU": 3}}, consumer)
    assert mirror.update(0).roots == {host}
    (shown,) = mirror.trees[host]["providers"]
    assert shown["allocations"][consumer]["resources"] == {"VCPU": 3}
    assert mirror.update(0).roots == set()

    world.release(consumer)
    world.call("DELETE", f"/resource_providers/{host}/inventories")
    world.call("DELETE", f"/resource_providers/{host}")
    assert mirror.update(0).roots == {host}
    assert host not in mirror.trees


def test_a_mirror_without_allocations_has_none(connection: adapter.Adapter, world: World) -> None:
    host = world.provider(inventory={"VCPU": 8})
    mirror = Mirror(connection, allocations=False, wait=lambda _seconds: None)
    mirror.update(0)
    assert "allocations" not in mirror.trees[host]["providers"][0]


def test_a_token_that_is_too_old_reads_everything_and_not_all_the_time(
    connection: adapter.Adapter, world: World
) -> None:
    """After a second time within ``wait_s`` the mirror pauses first."""
    pauses: list[float] = []
    mirror = Mirror(connection, wait=pauses.append)
    mirror.update(30)
    host = world.provider()
    mirror._token = "A" * 22
    assert mirror.update(30).whole
    assert host in mirror.trees
    assert len(pauses) == 1
    assert 0 < pauses[0] <= 30


class Failing:
    """An adapter of which one request is refused."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.refused = ""

    def get(self, url: str, **more: Any) -> Any:
        if self.refused and url.startswith(self.refused):
            return self.real.get("/-/nothing", **more)
        return self.real.get(url, **more)


@pytest.mark.parametrize("refused", ["/-/changes", "/-/trees"])
def test_what_could_not_be_read_is_read_the_next_time(
    connection: adapter.Adapter, world: World, refused: str
) -> None:
    """The mirror stays as it was, and loses nothing."""
    failing = Failing(connection)
    mirror = Mirror(failing, wait=lambda _seconds: None)
    mirror.update(0)
    before = dict(mirror.trees)
    host = world.provider()

    failing.refused = refused
    with pytest.raises(MirrorFailed):
        mirror.update(0)
    assert mirror.trees == before

    failing.refused = ""
    assert mirror.update(0).roots == {host}
    assert host in mirror.trees


def test_a_mirror_waits_a_little_where_the_service_does_not(
    connection: adapter.Adapter, mirror: Mirror
) -> None:
    """Else it would ask without pause."""
    pauses: list[float] = []
    mirror._wait = pauses.append
    real = connection.get

    def answered_at_once(url: str, **more: Any) -> Any:
        return real(url.replace("wait_s=20", "wait_s=0"), **more)

    mirror._api._adapter.get = answered_at_once
    assert mirror.update(20).roots == set()
    assert pauses == [1.0]


class Stopped(BaseException):
    """Ends the program of the page, which has no end."""


def test_the_program_of_the_page_outlives_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that the service is away, and then what has changed since."""
    block = re.search(r"\.\. code-block:: python\n\n((?: {3}.*\n|\n)+)", PAGE.read_text())
    assert block
    port, printed, ends = free_port(), [], threading.Event()
    url = f"http://127.0.0.1:{port}"
    auth = {"auth_type": "admin_token", "auth": {"endpoint": url, "token": "admin"}}
    clouds = tmp_path / "clouds.yaml"
    clouds.write_text(json.dumps({"clouds": {"trial": {**auth, "region_name": "one"}}}))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))

    def note(*words: object) -> None:
        if ends.is_set():
            raise Stopped
        printed.append(" ".join(map(str, words)))

    def follow() -> None:
        with pytest.raises(Stopped):
            exec(textwrap.dedent(block[1]), {"print": note})

    def serve(name: str) -> Process:
        process = placement_api(
            *(name, "--port", port),
            folder=tmp_path,
            environment={
                "OS_PLACEMENT_DATABASE__CONNECTION": f"sqlite:///{tmp_path}/placement.sqlite",
                "OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP": "true",
                "OS_API__AUTH_STRATEGY": "noauth2",
                "OS_INSIGHT__ENABLED": "true",
                "OS_PLACEMENT_CONFIG_DIR": str(tmp_path),
            },
        )
        return process.wait_until("it listens", lambda: listens(port))

    (tmp_path / "placement.conf").touch()
    other = worlds.World(Client(url, kept=False))
    follower = threading.Thread(target=follow)
    try:
        with serve("before") as process:
            host = other.host(VCPU=4)
            follower.start()
            wait_until("it has read all", lambda: f"{host} has 1 providers" in printed)
            process.kill()
            wait_until(
                "it says so", lambda: any("Trees could not be followed" in it for it in printed)
            )
        with serve("after") as process:
            second = other.host(VCPU=4)
            wait_until("it goes on", lambda: f"{second} has 1 providers" in printed)
            ends.set()
            other.host(VCPU=4)
            follower.join(30)
            assert not follower.is_alive()
            process.kill()
    finally:
        ends.set()
