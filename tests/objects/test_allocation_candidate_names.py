"""Names that no provider has, and when the database is asked for them (specification 04 section 5.8)."""

from collections.abc import Iterator

import pytest

from placement.db.database import Database
from placement.objects import allocation_candidate
from placement.objects.allocation_candidate import UnknownNameInQuery
from placement.objects.picture import Picture
from placement.search.candidate import SizeLimit
from placement.search.cloud import Cloud
from placement.search.records import CloudRows
from placement.search.request import CandidateRequest, Group
from placement.search.work import Work
from tests.support.recorder import Hook
from tests.support.service import Service, running
from tests.support.world import World

HOST = "11111111-0000-4000-8000-000000000000"
WORN, IDLE, WRONG = "CUSTOM_WORN", "CUSTOM_IDLE", "CUSTOM_WRONG"


@pytest.fixture
def service() -> Iterator[Service]:
    """One host with a trait; another trait and a class exist and nobody has them."""
    with running() as made:
        world = World(made)
        for kind, name in (("traits", IDLE), ("resource_classes", IDLE)):
            world.call("PUT", f"/{kind}/{name}")
        world.provider(key=HOST, inventory={"VCPU": 4}, traits=[WORN])
        yield made


def found(picture: Picture, group: Group) -> int:
    """Return the number of candidates."""
    question = CandidateRequest((group,))
    answer = allocation_candidate.find(
        picture,
        question,
        1000,
        SizeLimit(1000, lambda shape: 1),
        Work(),
        lambda cloud, result: len(result),
    )
    return answer.shown


def recorded(db: Database, picture: Picture) -> list[bool]:
    """Return a list that gets an item for each statement: whether the picture was held."""
    held: list[bool] = []
    db.observers.append(Hook(lambda *_: held.append(picture._editions.refreshing.locked())))
    return held


def test_no_thread_waits_while_the_database_is_asked_for_names(service: Service) -> None:
    """Two traits and a class that nobody has: a statement for each kind, and one for freshness."""
    picture = Picture(service.db)
    wanted = Group("", {"VCPU": 1, IDLE: 1}, forbidden=frozenset([IDLE, "HW_CPU_X86_VMX"]))
    for _ in range(2):
        assert found(picture, wanted) == 0

    held = recorded(service.db, picture)
    assert found(picture, wanted) == 0
    assert held == [False, False, False]
    held.clear()
    assert found(picture, Group("", {"VCPU": 1}, (frozenset([WORN]),))) == 1
    assert held == [False]


def test_unknown_names_are_told_by_kind(service: Service) -> None:
    """Each kind has an error of its own; what exists is no error."""
    picture = Picture(service.db)
    assert found(picture, Group("", {"VCPU": 1}, forbidden=frozenset([IDLE]))) == 1
    with pytest.raises(UnknownNameInQuery, match=f"trait.*{WRONG}"):
        found(picture, Group("", {"VCPU": 1}, forbidden=frozenset([IDLE, WRONG])))
    with pytest.raises(UnknownNameInQuery, match=f"class {WRONG}"):
        found(picture, Group("", {"VCPU": 1, WRONG: 1}))


def test_a_trait_that_its_last_provider_lost_is_still_known(service: Service) -> None:
    """The picture had it when the question came, and has it no more when it is searched."""
    world, picture = World(service), Picture(service.db)
    wanted = Group("", {"VCPU": 1}, forbidden=frozenset([WORN]))
    assert found(picture, wanted) == 0

    world.set_traits(HOST, [])

    assert found(picture, wanted) == 1
    world.set_traits(HOST, [WORN])
    assert found(picture, wanted) == 0
    world.set_traits(HOST, [])
    world.call("DELETE", f"/traits/{WORN}")
    with pytest.raises(UnknownNameInQuery, match=f"trait.*{WORN}"):
        found(picture, wanted)


def test_no_transaction_lasts_while_a_picture_is_made(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a million providers that takes seconds; a server may have ended the transaction by then."""
    sent: list[str] = []
    service.db.observers.append(
        Hook(lambda _connection, message: sent.extend(each.text for each in message.statements))
    )
    load = Cloud.load

    def made(rows: CloudRows) -> Cloud:
        sent.append("made")
        return load(rows)

    monkeypatch.setattr(Cloud, "load", made)
    assert found(Picture(service.db), Group("", {"VCPU": 1})) == 1
    assert sent[-2:] == ["COMMIT", "made"]
