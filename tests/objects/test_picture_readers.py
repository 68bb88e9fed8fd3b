"""One picture, read by many at once (specification 04 section 1): no search waits for another."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from placement.db import named_rows
from placement.handlers.kept_texts import KeptTexts
from placement.objects.picture import Picture
from placement.search.cloud import Cloud
from placement.search.request import NameSets
from tests.support.looks import read_cloud
from tests.support.processes import ENDS_S
from tests.support.service import Service, running
from tests.support.world import World

HOSTS = [f"3f000000-0000-4000-8000-00000000000{n}" for n in range(3)]
TOTAL = 1000


@pytest.fixture
def place() -> Iterator[Service]:
    with running() as service:
        for host in HOSTS:
            World(service).host(host, VCPU=TOTAL)
        yield service


def used(cloud: Cloud) -> dict[str, int]:
    """Return what is used of each host, by all ways in which a search sees it."""
    seen = {}
    for host in HOSTS:
        index = cloud.index_of_uuid[host]
        ((_, _, in_use, _),) = cloud.inventories[index]
        assert int(cloud.room("VCPU")[index]) == TOTAL - in_use
        seen[host] = in_use
    return seen


class Reader:
    """A thread that has begun to read the picture and has not ended."""

    def __init__(self, pool: ThreadPoolExecutor, picture: Picture) -> None:
        self.reads, self.go_on = threading.Event(), threading.Event()
        self.found: Future[tuple[Any, Any]] = pool.submit(read_cloud, picture, self.work)
        assert self.reads.wait(ENDS_S)

    def work(self, cloud: Cloud) -> tuple[Any, Any]:
        before = used(cloud)
        self.reads.set()
        assert self.go_on.wait(ENDS_S)
        return before, used(cloud)

    def end(self) -> tuple[Any, Any]:
        """Return what it saw first and last."""
        self.go_on.set()
        return self.found.result(ENDS_S)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as made:
        yield made


def test_a_search_that_takes_long_delays_none(place: Service, pool: ThreadPoolExecutor) -> None:
    """Others see what is written meanwhile; what it sees itself does not change."""
    picture = Picture(place.db)
    slow = [Reader(pool, picture)]
    try:
        for number in range(1, 4):
            World(place).claim({HOSTS[0]: {"VCPU": 1}})
            seen = pool.submit(read_cloud, picture, used).result(ENDS_S)
            assert seen == {HOSTS[0]: number, HOSTS[1]: 0, HOSTS[2]: 0}
            slow.append(Reader(pool, picture))
    finally:
        ends = [reader.end() for reader in slow]
    assert [before[HOSTS[0]] for before, _ in ends] == [0, 1, 2, 3]
    assert all(before == after for before, after in ends)


def test_without_readers_the_picture_changes_in_place(
    place: Service, pool: ThreadPoolExecutor
) -> None:
    """A copy of a million providers for each claim would be dear."""
    picture = Picture(place.db)
    first = read_cloud(picture, id)
    World(place).claim({HOSTS[0]: {"VCPU": 1}})
    assert read_cloud(picture, id) == first
    slow = Reader(pool, picture)
    World(place).claim({HOSTS[0]: {"VCPU": 1}})
    try:
        assert read_cloud(picture, id) != first
    finally:
        slow.end()


def test_a_refresh_that_fails_leaves_the_picture(
    place: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = Picture(place.db)
    before = read_cloud(picture, used)
    World(place).claim({HOSTS[0]: {"VCPU": 1}})
    with monkeypatch.context() as patched:
        patched.setattr(Cloud, "restock", broken)
        with pytest.raises(MemoryError):
            read_cloud(picture, used)
    assert read_cloud(picture, used) == before | {HOSTS[0]: 1}


def broken(*_: Any, **__: Any) -> None:
    raise MemoryError


def test_a_look_that_fails_leaves_no_reader(place: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each later change would make a copy for it."""
    picture = Picture(place.db)
    first = read_cloud(picture, id)
    with monkeypatch.context() as patched:
        patched.setattr(named_rows, "ids", broken)
        with pytest.raises(MemoryError):
            picture.look(NameSets(frozenset(["CUSTOM_T"])))
    World(place).claim({HOSTS[0]: {"VCPU": 1}})
    assert read_cloud(picture, id) == first


def test_a_cloud_is_not_reached_when_the_look_at_it_has_ended(place: Service) -> None:
    """It may change from then on."""
    with Picture(place.db).look() as look:
        assert used(look.cloud)
    with pytest.raises(AttributeError):
        used(look.cloud)


def test_many_readers_and_writers_see_whole_moments(
    place: Service, pool: ThreadPoolExecutor
) -> None:
    """A consumer moves between hosts: whoever looks finds it on exactly one, and not on an earlier one."""
    picture, world, moves = Picture(place.db), World(place), 40
    consumer = world.claim({HOSTS[0]: {"VCPU": 1}})
    acknowledged = [1]
    done = threading.Event()

    def write() -> None:
        try:
            for number in range(1, moves):
                world.claim({HOSTS[number % 3]: {"VCPU": number + 1}}, consumer, number)
                acknowledged[0] = number + 1
        finally:
            done.set()

    def watch() -> int:
        looks = 0
        while not done.is_set() or not looks:
            least = acknowledged[0]
            amounts = read_cloud(picture, lambda cloud: [n for n in used(cloud).values() if n])
            assert len(amounts) == 1
            assert least <= amounts[0] <= moves
            looks += 1
        return looks

    watchers = [pool.submit(watch) for _ in range(4)]
    pool.submit(write).result(ENDS_S)
    assert all(watcher.result(ENDS_S) for watcher in watchers)
    assert read_cloud(picture, used)[HOSTS[(moves - 1) % 3]] == moves


def test_texts_of_two_editions_are_not_mixed(place: Service, pool: ThreadPoolExecutor) -> None:
    """While one thread writes the text of the old state, another does so of the new one."""
    picture = Picture(place.db)

    def text(cloud: Cloud, pause: Callable[[], object] = lambda: None) -> bytes:
        index = cloud.index_of_uuid[HOSTS[0]]

        def write(_: int) -> bytes:
            written = str(used(cloud)[HOSTS[0]]).encode()
            pause()
            return written

        shown = cloud.forest.roots[cloud.forest.roots == index]
        (found,) = KeptTexts.on(cloud, "test").read_or_write(shown, cloud.tree_stamps(shown), write)
        return found

    began, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        began.set()
        assert go_on.wait(ENDS_S)

    old = pool.submit(read_cloud, picture, lambda cloud: text(cloud, pause))
    assert began.wait(ENDS_S)
    World(place).claim({HOSTS[0]: {"VCPU": 1}})
    try:
        assert read_cloud(picture, text) == b"1"
    finally:
        go_on.set()
    assert old.result(ENDS_S) == b"0"
    assert read_cloud(picture, text) == b"1"
