"""The model of the ledger and its claims as one object, and what each answer says of it.

The model (``tests/extensions/claims/claims_model.py``) knows the one right answer to a write, and judges what
the service has chosen. So a request is an operation on all providers and consumers together: it takes place
where the model, with what it has there, gives the same answer.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from placement.inventory_record import InventoryRecord
from tests.extensions.claims.claims_model import Claims, Group, Hold, Host
from tests.extensions.claims.claims_orders import Claim, NotAllowed, Order, milliseconds, require
from tests.extensions.claims.claims_rows import candidates_of
from tests.objects.ledger_model import ANY, CONCURRENT, Answer, Entry
from tests.proofs.histories.checker import Effect
from tests.proofs.year.player import Asked
from tests.support.client import VERSION
from tests.support.client import Answer as Told

CLOCKS_MS = 20
"""By how much the clock of the database may seem to be off."""


class Cloud(Claims):
    """The model, of which it can be told whether two are equal."""

    def key(self) -> str:
        """Return what equal ones have in common."""
        ordered = (self.providers, self.records, self.allocations, self.groups, self.holds)
        return json.dumps(ordered, default=_plain, sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Hold):
        return value.generation, value.expires_at
    if isinstance(value, Group):
        return value.members
    return sorted(value) if isinstance(value, set | frozenset) else vars(value)


@dataclass(frozen=True)
class State:
    """A cloud that nothing changes any more."""

    key: str
    cloud: Cloud = field(compare=False, repr=False)


def state_of(cloud: Cloud) -> State:
    """Return the state that the cloud is in."""
    return State(cloud.key(), cloud)


def ended(consumer: str, expires_at: int) -> Effect:
    """Return the effect of the end of a hold, which nobody sends."""

    def effect(state: Any) -> Iterator[State]:
        hold = state.cloud.holds.get(consumer)
        if hold is not None and hold.expires_at == expires_at:
            after = copy.deepcopy(state.cloud)
            after.delete(consumer)
            yield state_of(after)

    return effect


def took_place(asked: Asked, answer: Told, called_ms: float, returned_ms: float) -> Effect:
    """Return the effect of a request: where the answer is right, and what is there then.

    :param called_ms: by the clock on the wall; a hold is over or not at a moment until it has returned.
    """

    def effect(state: Any) -> Iterator[State]:
        cloud = state.cloud
        for moment in (called_ms - CLOCKS_MS, returned_ms + CLOCKS_MS)[: 2 if cloud.holds else 1]:
            after = copy.deepcopy(cloud) if asked.method != "GET" else cloud
            for hold in after.holds.values():
                hold.left_s = hold.expires_at > moment
            try:
                judge(after, asked, answer)
            except NotAllowed:
                continue
            yield state if after is cloud else state_of(after)
            yield from _written_together(cloud, after, asked, answer)

    return effect


def _written_together(before: Cloud, after: Cloud, asked: Asked, answer: Told) -> Iterator[State]:
    """Yield the other way in which a claim may have stepped: as one step with what others claimed then."""
    is_alone = asked.path == "/-/claims" and answer.status == 200 and len(asked.body["claims"]) == 1
    if not is_alone or "hold_s" in asked.body or "groups" in asked.body:
        return
    other = copy.deepcopy(after)
    for uuid, host in other.providers.items():
        host.generation = before.providers[uuid].generation
    yield state_of(other)


def judge(cloud: Cloud, asked: Asked, answer: Told) -> None:
    """Let a request take place.

    :raises NotAllowed: its answer is another one, or is refused for the sake of a hold that is over.
    """
    if asked.method == "GET":
        _look(cloud, asked.path, answer)
    elif asked.path == "/-/claims":
        _claim(cloud, asked.body, answer)
    elif asked.path.startswith("/-/claims"):
        _confirm(cloud, asked, answer)
    else:
        without = cloud.without(cloud.over()) if answer.status >= 400 and cloud.over() else None
        right = _write(cloud, asked)
        require(answer.status == right.status, right)
        if answer.status == 409 and asked.version == VERSION and without is None:
            reason = answer.json["errors"][0].get("reason", "")
            require(reason.endswith("_generation") == (right.code == CONCURRENT), right)
        require(without is None or _write(without, asked).status >= 400, "nothing that is over is in the way")


def _look(cloud: Cloud, path: str, answer: Told) -> None:
    if path.startswith("/allocation_candidates?"):
        require(not cloud.over(), "who looks for room removes what is over")
        query = path.partition("?")[2]
        named = {uuid for each in answer.json["allocation_requests"] for uuid in each["allocations"]}
        require(named <= cloud.providers.keys(), "there are only", *cloud.providers)
        require(candidates_of(answer.json, cloud) == cloud.candidates(query), "the candidates of", query)
        return
    parts = path.split("/")[1:]
    uuid, part = parts[1], parts[2] if parts[2:] else ""
    shown: Any
    if parts[0] == "allocations":
        shown = cloud.shown_consumer(uuid)
    elif parts[:2] == ["-", "holds"]:
        shown = [each | {"expired": None} for each in cloud.shown_holds()]
        told = [
            each | {"expired": None, "expires_at": milliseconds(each["expires_at"])}
            for each in answer.json["holds"]
        ]
        require(shown == told, "held are", shown)
        return
    elif parts[:2] == ["-", "groups"]:
        shown = cloud.shown_group(parts[2])
    else:
        shown = _shown_provider(cloud, uuid, part)
    require(answer.status == (404 if shown is None else 200), "shown is", shown)
    if shown is not None:
        require({name: answer.json.get(name) for name in shown} == shown, "shown is", shown)


def _shown_provider(cloud: Cloud, uuid: str, part: str) -> Any:
    host = cloud.providers.get(uuid)
    if not isinstance(host, Host):
        return None
    if part in ("inventories", "usages", "allocations"):
        shown = {"inventories": "inventories", "usages": "usages", "allocations": "holders"}[part]
        return getattr(cloud, f"shown_{shown}")(uuid)
    if part:
        return {"resource_provider_generation": host.generation}
    return {
        "generation": host.generation,
        "parent_provider_uuid": host.parent,
        "root_provider_uuid": cloud.root(uuid),
    }


def _claim(cloud: Cloud, body: Mapping[str, Any], answer: Told) -> None:
    if answer.code == "placement.no_candidate" and not answer.json["errors"][0]["exact"]:
        return
    claims = tuple(
        Claim(
            each["consumer_uuid"],
            each["consumer_generation"],
            each.get("query", ""),
            tuple(each.get("groups", ())),
            *(each[name] for name in ("project_id", "user_id", "consumer_type")),
            tuple(each.get("queries", ())),
        )
        for each in body["claims"]
    )
    # Which place a strategy likes best is said of what the service has read, which may be older.
    cloud.claim(Order(claims, "any", body.get("hold_s"), body.get("groups", {})), answer)


def _confirm(cloud: Cloud, asked: Asked, answer: Told) -> None:
    consumers = [(asked.path.split("/")[3], None)]
    if asked.body:
        consumers = [(each["consumer_uuid"], each["consumer_generation"]) for each in asked.body["consumers"]]
    right, told = cloud.confirm(consumers)
    require((answer.status, answer.code or None) == (right.status, right.code), right)
    if answer.status == 200:
        shown = {each["consumer_uuid"]: each["consumer_generation"] for each in answer.json["consumers"]}
        require(shown == told, told)


def _write(cloud: Cloud, asked: Asked) -> Answer:
    parts, body = asked.path.split("/")[1:], asked.body
    if parts[0] == "reshaper":
        stocks = {
            uuid: (each["resource_provider_generation"], _records(each["inventories"]))
            for uuid, each in body["inventories"].items()
        }
        return cloud.reshape(stocks, _entries(body["allocations"]))
    if parts[0] == "allocations":
        if asked.method == "DELETE":
            return cloud.delete(parts[1])
        return cloud.replace(_entries({parts[1]: body} if parts[1:] else body), one=bool(parts[1:]))
    if asked.method == "POST" and not parts[1:]:
        parent = body.get("parent_provider_uuid")
        if parent not in (None, *cloud.providers):
            return Answer(400)
        return cloud.create_host(body["uuid"], parent)
    return _write_provider(cloud, asked.method, *parts[1:], body=body)


def _write_provider(
    cloud: Cloud, method: str, uuid: str, part: str = "", name: str = "", *, body: Any
) -> Answer:
    if uuid not in cloud.providers:
        return Answer(404)
    if not part:
        return cloud.delete_host(uuid)
    given = body or {}
    generation = given.get("resource_provider_generation", cloud.providers[uuid].generation)
    if generation != cloud.providers[uuid].generation:
        return Answer(409, CONCURRENT)
    if part == "inventories":
        wanted = _find_stock(cloud.providers[uuid].inventories, method, name, given)
        right = wanted if isinstance(wanted, Answer) else cloud.put_inventories(uuid, generation, wanted)
    else:
        right = cloud.change_host(uuid, generation, part, frozenset(given.get(part, ())))
    return Answer({"POST": 201, "DELETE": 204}.get(method, 200)) if right.status == 200 else right


def _find_stock(now: Mapping[str, Any], method: str, name: str, body: Mapping[str, Any]) -> Any:
    """Return the inventories that a provider has afterwards, or the refusal."""
    one = {of: value for of, value in body.items() if of in InventoryRecord._fields}
    if method == "DELETE" and name:
        return {of: record for of, record in now.items() if of != name} if name in now else Answer(404)
    if method == "DELETE":
        return {}
    if method == "POST":
        name = body["resource_class"]
        return Answer(409) if name in now else {**now, **_records({name: one})}
    if name:
        return {**now, **_records({name: one})} if name in now else Answer(400)
    return _records(body["inventories"])


def _records(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: InventoryRecord(**record)._asdict() for name, record in given.items()}


def _entries(body: Mapping[str, Any]) -> list[Entry]:
    return [
        Entry(
            uuid,
            {place: each["resources"] for place, each in entry["allocations"].items()},
            entry["project_id"],
            entry["user_id"],
            entry.get("consumer_type"),
            # Before 1.28 none is sent.
            entry.get("consumer_generation", ANY),
        )
        for uuid, entry in body.items()
    ]
