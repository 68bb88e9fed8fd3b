"""The OpenStack service as a way to write: requests of the table become the statements that it sends.

It knows no reads: these are asked of this service, which must show at once what the other has written.
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import select

from placement.db.database import Database
from tests.proofs.year.player import Asked, Way
from tests.support import old_database
from tests.support.client import VERSION, Answer
from tests.support.old_service import Conflict, OldService, Refused


def url_of(db: Database) -> str:
    """Return the URL for the other service, which keeps the isolation of the server."""
    url = db.engine.url
    if url.get_backend_name() in ("mysql", "mariadb"):
        url = url.set(drivername="mysql+pymysql", query={})
    return url.render_as_string(hide_password=False)


class OtherService(OldService):
    """One process of the other service.

    :param reads: the way by which this service is asked.
    """

    def __init__(self, url: str, reads: Way) -> None:
        super().__init__(url)
        self._reads = reads

    def send(self, method: str, path: str, body: Any = None, version: str = VERSION) -> Answer:
        """Send a request as an admin."""
        return self.deliver(Asked(method, path, body, version), "admin")

    def deliver(self, asked: Asked, token: str) -> Answer:
        """Write by the statements of that service; reads are asked of this one."""
        if asked.method == "GET":
            return self._reads.deliver(asked, token)
        try:
            status = self._write(asked)
        except Refused as refused:
            return Answer(400 if "no such" in str(refused) else 409, str(refused))
        except Conflict as conflict:
            return Answer(409, str(conflict))
        return Answer(status, "" if status == 204 else '{"generation": 0}')

    def _write(self, asked: Asked) -> int:
        parts, body = asked.path.split("/")[1:], asked.body
        if parts[0] == "resource_providers":
            return self._write_provider(asked.method, *(parts[1:] or [body["uuid"]]), body=body)
        if parts[0] == "reshaper":
            stocks = {uuid: self._same(uuid, each) for uuid, each in body["inventories"].items()}
            self.reshape(stocks, *self._entries(body["allocations"]))
            return 204
        if parts[0] != "allocations":
            return self._make_name(self.create_trait if parts[0] == "traits" else self.create_class, parts[1])
        if asked.method == "DELETE":
            if self._generation(old_database.consumers, parts[1]) is None:
                return 404
            self.release(parts[1])
            return 204
        self.claim_each(*self._entries({parts[1]: body} if parts[1:] else body))
        return 204

    def _make_name(self, make: Callable[[str], None], name: str) -> int:
        with contextlib.suppress(Conflict):
            make(name)
            return 201
        return 204

    def _write_provider(self, method: str, uuid: str, part: str = "", body: Any = None) -> int:
        if method != "POST" and self._generation(old_database.providers, uuid) is None:
            return 404
        if method == "POST":
            self.create_provider(uuid, body["name"], body.get("parent_provider_uuid"))
        elif part == "inventories":
            self.set_inventory(uuid, self._same(uuid, body) if body else {})
        elif part == "traits":
            self.set_traits(uuid, set(self._same(uuid, body, "traits")) if body else set())
        elif part == "aggregates":
            wanted = set(self._same(uuid, body, "aggregates"))
            # As before 1.19, now and then: then no generation shows the change.
            self.set_aggregates(uuid, wanted, steps=len(wanted) != 2)
        elif method == "DELETE":
            self.delete_provider(uuid)
        elif "parent_provider_uuid" in body:
            self.move_provider(uuid, body["parent_provider_uuid"], name=body["name"])
        else:
            self.rename_provider(uuid, body["name"])
        return 204 if method == "DELETE" else 200

    def _same(self, uuid: str, body: Mapping[str, Any], part: str = "inventories") -> Any:
        """Return a part of a body if its generation is the provider's.

        :raises Conflict: it is another one
        """
        now = self._generation(old_database.providers, uuid)
        if now is not None and now != body["resource_provider_generation"]:
            raise Conflict("provider")
        return body[part]

    def _entries(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what consumers are to have, and whose they are.

        :raises Conflict: a generation is another one
        """
        for uuid, entry in body.items():
            if entry["consumer_generation"] != self._generation(old_database.consumers, uuid):
                raise Conflict("consumer")
        names = ("project_id", "user_id", "consumer_type")
        owners = {uuid: tuple(entry[each] for each in names) for uuid, entry in body.items()}
        entries = {
            uuid: {place: each["resources"] for place, each in entry["allocations"].items()}
            for uuid, entry in body.items()
        }
        return entries, owners

    def _generation(self, table: Any, uuid: str) -> int | None:
        with self.engine.connect() as connection:
            found: int | None = connection.scalar(select(table.c.generation).where(table.c.uuid == uuid))
        return found
