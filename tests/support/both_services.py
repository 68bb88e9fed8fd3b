"""This service and the OpenStack service on one database (specification 06 section 13.1)."""

from functools import cache
from typing import Any

from placement.db import schema
from placement.db.coexistence import state, takeover
from placement.db.database import Database
from tests.support import bodies
from tests.support.databases import opened, scratch_database, until_exit
from tests.support.old_service import OldService
from tests.support.service import Service, configure, empty
from tests.support.world import World

OLD_HEAD = "a082b8bb98d0"
HOST, NODE, OTHER = (f"11111111-1111-4111-8111-00000000000{number}" for number in "123")
OLD_CONSUMER, CONSUMER = (f"22222222-2222-4222-8222-00000000000{number}" for number in "12")
AGGREGATE = "33333333-3333-4333-8333-000000000001"


@cache
def _upgraded(kind: str) -> tuple[str, Database]:
    """Return a database that the old service has filled and this one has upgraded, once for a process."""
    url = until_exit(scratch_database(kind, OLD_HEAD, named=True))
    old = OldService(url)
    old.create_provider(HOST, "host")
    old.dispose()
    database = until_exit(opened(url, sqlite_synchronous=False))
    schema.sync(database)
    assert database.read(state.is_under_way), "an upgraded database is shared"
    return url, database


class Both:
    """Both services on one database, as the upgrade leaves it, and questions to ours."""

    def __init__(self, kind: str) -> None:
        url, self.db = _upgraded(kind)
        empty(self.db)
        takeover.release(self.db)
        self.old = OldService(url)
        self.old.create_provider(HOST, "host")
        self.old.set_inventory(HOST, {"VCPU": {"total": 4}, "MEMORY_MB": {"total": 100}})
        # Notes from where the writes of the old service are counted.
        schema.sync(self.db)
        self.ours = Service(configure(insight__enabled=True), self.db)

    def get(self, path: str) -> Any:
        """Return the JSON of an answer of ours."""
        return World(self.ours).get(path)

    def claim(self, consumer: str, amount: int, host: str = HOST) -> int:
        """Claim with ours and return the status."""
        generation = self.get(f"/allocations/{consumer}").get("consumer_generation")
        owner = {"project_id": "p", "user_id": "u"}
        body = bodies.entry({host: {"VCPU": amount}}, generation, **owner)
        return self.ours.send("PUT", f"/allocations/{consumer}", body).status

    def found(self, query: str) -> set[str]:
        """Return the uuids of the providers that a search of ours offers."""
        requests = self.get(f"/allocation_candidates?{query}")["allocation_requests"]
        return {uuid for one in requests for uuid in one["allocations"]}

    def used(self, host: str = HOST) -> int:
        """Return the VCPU that are in use by ours."""
        return World(self.ours).usages(host)["VCPU"]

    def add_other(self) -> None:
        """Let the old service add a host of four VCPU."""
        self.old.create_provider(OTHER, "other")
        self.old.set_inventory(OTHER, {"VCPU": {"total": 4}})
