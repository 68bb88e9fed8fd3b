"""A round of the scrub, and a statement by hand, as players of the promise: orders beside requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import webob
from sqlalchemy import text

from placement.db import scrub
from placement.db.database import Database
from tests.proofs.promise.scenes import HOLDER, HOST
from tests.proofs.promise.stage import Order
from tests.support.service import Service


def compare(db: Database, stages: Sequence[scrub.Stage] = scrub.STAGES) -> None:
    """Compare and mend everything once. Each stage of a small cloud is one part."""
    for stage in stages:
        stage.go_on(db, -scrub.BEYOND, stage.size, scrub.ScrubOptions(thorough=True, wait_s=None))


@dataclass(frozen=True)
class Round(Order):
    """Everything is compared and mended once. An error of the database is the player's."""

    method: str = "SCRUB"
    path: str = ""

    def send(self, service: Service) -> webob.Response:
        compare(service.db)
        return webob.Response(status=204)


@dataclass(frozen=True)
class Damage(Order):
    """Statements by hand."""

    method: str = "SQL"
    path: str = ""
    body: Any = ()

    def send(self, service: Service) -> webob.Response:
        with service.db.engine.begin() as connection:
            for statement in self.body:
                connection.execute(text(statement))
        return webob.Response(status=204)


_HOST = f"(SELECT id FROM resource_providers WHERE uuid = '{HOST}')"

DAMAGES = {
    "nothing": Damage(),
    "counters": Damage(
        body=("UPDATE inventories SET used = used + 1", "UPDATE owner_usages SET used = used + 1")
    ),
    "contents": Damage(
        body=(
            "UPDATE inventories SET total = total + 1",
            "INSERT INTO resource_provider_traits (trait_id, resource_provider_id)"
            f" SELECT id, {_HOST} FROM traits WHERE name = 'HW_CPU_X86_AVX2'",
        )
    ),
    "ledger": Damage(body=(f"DELETE FROM allocations WHERE consumer_id = '{HOLDER}'",)),
}
"""What is wrong before, by name: what is kept, what searches read, what all of it is derived from."""
