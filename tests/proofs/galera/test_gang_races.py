"""The races of gangs and groups with each server on another node: nobody shares a row lock."""

import random

import pytest

from tests.proofs.races.test_claim_races import host
from tests.proofs.races.test_gang_races import (  # noqa: F401
    gang,
    test_gangs_that_fill_a_cloud_exactly_are_all_granted,
    test_writers_of_one_group_never_break_its_rule,
)
from tests.support.client import Client
from tests.support.clock import let_holds_end
from tests.support.processes import wait_until
from tests.support.racing import Arena, emptied

CONFIRMED, OVER = 0, 1
"""The numbers of a client's holds of which the first is confirmed in any case, and the second is over."""


@pytest.fixture
def place(standing: Arena) -> Arena:
    """Three servers, one on each node, on an emptied database."""
    return emptied(standing)


def test_a_hold_is_confirmed_or_over(place: Arena) -> None:
    """Confirmed through one node at the moment at which searches through the others remove what is over."""
    made, confirmed, refused = host(place, VCPU=1000), set[str](), set[str]()

    def confirm(client: Client) -> None:
        for number in range(12):
            granted = gang(client, 2, hold_s=900).json["claims"]
            consumers = [
                {name: each[name] for name in ("consumer_uuid", "consumer_generation")}
                for each in granted
            ]
            # On a slow machine all times might come before the confirmation, and on a fast one none.
            if number != CONFIRMED:
                within_ms = 0 if number == OVER else random.randint(0, 50)
                let_end(within_ms, *(each["consumer_uuid"] for each in consumers))
            answer = client.send("POST", "/-/claims/confirm", {"consumers": consumers})
            assert answer.status == 200 or answer.code == "placement.hold_expired", answer
            (confirmed if answer.status == 200 else refused).update(
                each["consumer_uuid"] for each in consumers
            )

    def let_end(within_ms: int, *uuids: str) -> None:
        """Let the time come soon; the node of this connection may not have the hold yet."""
        wait_until("it is held", lambda: let_holds_end(place.db, within_ms, uuids) == len(uuids))

    def search(client: Client) -> None:
        while len(confirmed) + len(refused) < 3 * 24:
            assert client.send("GET", "/allocation_candidates?resources=VCPU:1").status == 200

    place.race([confirm] * 3 + [search] * 3)

    held = place.send("GET", f"/resource_providers/{made}/allocations").json["allocations"]
    assert set(held) == confirmed
    assert confirmed
    assert refused
    place.assert_sound()
