"""The client of claims that the service decides, on a real service (specification 09)."""

from typing import Any

import pytest
from keystoneauth1 import adapter

from placement.client import claims as module
from placement.client.claims import ClaimsClient, NewClaim
from tests.client.world import World
from tests.support.world import new_uuid


@pytest.fixture
def connection(http: adapter.Adapter) -> adapter.Adapter:
    """An adapter of the service that decides claims."""
    return http


@pytest.fixture
def client(connection: adapter.Adapter) -> ClaimsClient:
    return ClaimsClient(connection)


def rack(world: World, hosts: int) -> tuple[list[str], str]:
    """Make hosts of 2 VCPU in an aggregate of their own; return them, and a query for one VCPU there."""
    aggregate = new_uuid()
    made = [world.provider(inventory={"VCPU": 2}, aggregates=[aggregate]) for _ in range(hosts)]
    return made, f"resources=VCPU:1&member_of={aggregate}"


def gang(query: str, size: int, *groups: str) -> list[NewClaim]:
    return [NewClaim(new_uuid(), query, "p", "u", groups=groups) for _ in range(size)]


def test_a_gang_apart_is_held_shown_and_confirmed(client: ClaimsClient, world: World) -> None:
    """Two members go to two hosts; what is confirmed is not held, and is one generation further."""
    hosts, query = rack(world, 2)
    name = f"web/{new_uuid()}"
    placed = client.claim(gang(query, 2, name), groups={name: {"rule": "apart"}}, hold_s=60)
    assert {each["root_provider_uuid"] for each in placed.claims} == set(hosts)
    held = list(client.holds(group=name, page_size=1))
    assert {each["expires_at"] for each in held} == {placed.expires_at}
    assert {
        each["consumer_uuid"]: each["consumer_generation"] for each in held
    } == placed.generations

    confirmed = client.confirm(placed.generations)
    assert confirmed == {uuid: number + 1 for uuid, number in placed.generations.items()}
    assert not list(client.holds(group=name))
    shown = client.group(name)
    assert shown is not None
    assert (shown["kept"], len(shown["members"])) == (True, 2)
    with pytest.raises(module.HoldExpired):
        client.confirm(confirmed)

    assert all(client.release(uuid) for uuid in confirmed)
    assert not any(client.release(uuid) for uuid in confirmed)
    assert client.group(name) is None


def test_what_does_not_fit_says_which_and_why(client: ClaimsClient, world: World) -> None:
    """The third member of a group apart finds no host of two; nothing is left of the others."""
    hosts, query = rack(world, 2)
    name = new_uuid()
    wanted = gang(query, 3, name)
    with pytest.raises(module.NoCandidate) as refused:
        client.claim(wanted, groups={name: {"rule": "apart"}})
    assert refused.value.exact
    assert refused.value.groups == [name]
    assert wanted[refused.value.number].consumer_uuid == refused.value.consumer_uuid
    assert refused.value.explanation["candidates"]
    assert client.group(name) is None
    assert [world.usages(host) for host in hosts] == [{"VCPU": 0}] * 2


def test_refusals_have_their_exceptions(client: ClaimsClient, world: World) -> None:
    _, query = rack(world, 2)
    name = new_uuid()
    placed = client.claim(gang(query, 1, name), groups={name: {"rule": "apart"}})
    with pytest.raises(module.GroupRuleDiffers):
        client.claim(gang(query, 1, name), groups={name: {"rule": "together"}})
    (uuid,) = placed.generations
    with pytest.raises(module.ConsumerConflict):
        client.claim([NewClaim(uuid, query, "p", "u")])
    with pytest.raises(module.ClaimFailed, match="The query of claim 0"):
        client.claim([NewClaim(new_uuid(), "resources=VCPU", "p", "u")])
    assert client.claim([NewClaim(uuid, query, "p", "u", consumer_generation=1)]).generations == {
        uuid: 2
    }


def test_the_first_query_that_can_be_granted_is(client: ClaimsClient, world: World) -> None:
    _, query = rack(world, 1)
    liked = query.replace("VCPU:1", "VCPU:2")

    placed = client.claim([NewClaim(new_uuid(), [liked, query], "p", "u")])
    with pytest.raises(module.NoCandidate) as refused:
        client.claim([NewClaim(new_uuid(), [liked, query], "p", "u")])

    assert (placed.claims[0]["chosen"], placed.exact) == (0, True)
    shown = [refused.value.explanation, *refused.value.alternatives]
    assert [each["largest"][0]["asked"] for each in shown] == [2, 1]


class GivingUp:
    """An adapter behind which the service is not available some times before it answers."""

    def __init__(self, adapter: adapter.Adapter, answers: list[Any]) -> None:
        self.adapter, self.answers = adapter, answers

    def post(self, url: str, **arguments: Any) -> Any:
        return self.answers.pop() if self.answers else self.adapter.post(url, **arguments)


class Unavailable:
    """A 503 with a reason."""

    status_code, text, headers = 503, "", {"retry-after": "2"}

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def json(self) -> Any:
        return {"errors": [{"reason": self.reason, "detail": "later"}]}


def test_a_service_that_wrote_nothing_is_asked_again(
    connection: adapter.Adapter, world: World
) -> None:
    """Three attempts, with the pauses that it asks for; where the outcome is unknown, one."""
    _, query = rack(world, 1)
    pauses: list[float] = []
    busy = GivingUp(connection, [Unavailable("claims_given_up")] * 2)
    assert ClaimsClient(busy, pauses.append).claim(gang(query, 1)).generations
    assert pauses == [2, 2]
    unknown = Unavailable(module.OUTCOME_UNKNOWN)
    for answers in ([Unavailable("claims_given_up")] * 3, [unknown], [Unavailable("")]):
        with pytest.raises(module.ClaimFailed) as failed:
            ClaimsClient(GivingUp(connection, answers), pauses.append).claim(gang(query, 1))
        assert failed.value.status == 503
        assert not answers
    assert pauses == [2] * 4
