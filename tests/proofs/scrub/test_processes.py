"""Four processes, to which clients send requests, show by themselves what was written by hand."""

from typing import Any

import pytest

from tests.proofs.scrub.by_hand import LINES
from tests.proofs.scrub.test_by_hand import FEW
from tests.support.client import Sender
from tests.support.damage import SOUND, STRUCK
from tests.support.databases import KINDS
from tests.support.processes import wait_until
from tests.support.racing import arena
from tests.support.service import Service, configure

SERVERS = 4
OPTIONS = "[insight]\nenabled = true\n[placement_database]\nscrub_share = 50"
WRITTEN = {
    *("insert a trait", "move what is on a host", "change the ratio of all hosts"),
    *("put a host into an aggregate", "say that nothing is used", "forget the sums of owners"),
}
PATHS = [*FEW, f"/usages?project_id={STRUCK.name}", f"/resource_providers/{STRUCK.uuid('spare')}/usages"]


def ask(sender: Sender) -> list[Any]:
    """Return what is answered to all that a client may ask."""
    return [sender.send("GET", path).json for path in PATHS]


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_four_processes_show_what_was_written_by_hand(kind: str) -> None:
    with arena(kind, SERVERS, OPTIONS) as place:
        clients = place.clients(SERVERS)
        for half in (SOUND, STRUCK):
            half.make(place)
        before = [ask(client) for client in clients]
        written = [line for line in LINES if line.name in WRITTEN]
        assert len(written) == len(WRITTEN)
        assert all(line.apply(place.db) for line in written)

        def new() -> list[Any]:
            return ask(Service(configure(insight__enabled=True), place.db))

        # A round begins ten seconds after the one before.
        wait_until("all show it", lambda: [ask(each) for each in clients] == [new()] * SERVERS, 60)
        place.assert_sound()

        assert all(each != new() for each in before)
