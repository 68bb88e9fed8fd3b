"""Random sequences of all writes, compared with the model of the specification at every step.

PLACEMENT_PROPERTY_EXAMPLES (default 20 in CI, 7 by hand) says how many sequences are tried. Hypothesis prints
the sequence of a failure, shrunk.
"""

import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from placement.db import invariants, scrub
from tests.objects.ledger_model import ANY, CLASSES, Answer, Entry, Model, Record
from tests.support import ledger_data
from tests.support.effort import examples
from tests.support.service import running

EXAMPLES = int(os.environ.get("PLACEMENT_PROPERTY_EXAMPLES", examples(20)))
STEPS = 40

P0 = "00000000-0000-0000-0000-000000000000"
NEW_HOST = "44444444-4444-4444-8444-444444444444"
HOSTS = (ledger_data.HOST, ledger_data.SECOND, ledger_data.BARE, NEW_HOST)
CONSUMERS = (
    *(f"aaaaaaaa-0000-4000-8000-00000000000{n}" for n in range(1, 5)),
    ledger_data.WITHOUT_RECORD.format(1),
    ledger_data.COMPLETE.format(1),
    ledger_data.WITHOUT_ALLOCATIONS.format(1),
)
PROJECTS = ("red", "blue")

hosts = st.sampled_from(HOSTS)
usual_amounts = st.integers(1, 8)
amounts = st.one_of(usual_amounts, usual_amounts, usual_amounts, st.sampled_from([10**6, 10**30]))
class_names = st.sampled_from((*CLASSES, *CLASSES, *CLASSES, "CUSTOM_NOWHERE"))
resources = st.dictionaries(class_names, amounts, min_size=1, max_size=3)
sets = st.dictionaries(hosts, resources, max_size=3)
filled_sets = st.dictionaries(hosts, resources, min_size=1, max_size=3)
# Which generation is sent: the one there is, mostly.
honesty = st.sampled_from(["right"] * 8 + ["null", "wrong"])
owners = st.tuples(
    st.sampled_from(PROJECTS), st.sampled_from(["ann", "bob"]), st.sampled_from(["INSTANCE", "X"])
)
consumer_parts = st.tuples(sets, owners, honesty)


@st.composite
def inventory_records(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a record as the API shows it."""
    total = draw(st.integers(1, 14))
    return {
        "total": total,
        "reserved": draw(st.sampled_from([0, 0, 0, 1])),
        "min_unit": draw(st.sampled_from([1, 1, 1, 2])),
        "max_unit": draw(st.sampled_from([2147483647, 2147483647, 6])),
        "step_size": draw(st.sampled_from([1, 1, 1, 2])),
        "allocation_ratio": draw(st.sampled_from([1.0, 1.5, 16.0])),
    }


stocks = st.dictionaries(st.sampled_from(CLASSES), inventory_records(), max_size=3)


class Ledger(RuleBasedStateMachine):
    """The service and the model beside one another."""

    @initialize()
    def begin(self) -> None:
        """Start with the small cloud and one consumer of each situation."""
        self._running = running()
        self.service = self._running.__enter__()
        ledger_data.add_cloud(self.service.db)
        ledger_data.add_consumers(self.service.db, 1)
        self.model = Model()
        for host in ledger_data.CLOUD:
            self.model.create_provider(host.uuid)
            shown = self._get(f"/resource_providers/{host.uuid}/inventories")
            self.model.providers[host.uuid].inventories = shown["inventories"]
        for uuid in CONSUMERS[5:]:
            record = Record(ledger_data.OLD_PROJECT, ledger_data.OLD_USER, None, 3)
            self.model.records[uuid] = record
        for uuid in CONSUMERS[4:6]:
            self.model.allocations[uuid] = {ledger_data.SECOND: {"VCPU": 1}}

    def teardown(self) -> None:
        """Let the service go."""
        if hasattr(self, "_running"):
            self._running.__exit__(None, None, None)

    # Sending

    def _get(self, path: str) -> Any:
        answer = self.service.send("GET", path, None, "1.38")
        assert answer.status == 200, answer
        return answer.json

    def _send(
        self, expected: Answer, method: str, path: str, body: Any = None, version: str = "1.38"
    ) -> None:
        """Send a request and compare the answer with the model's."""
        answer = self.service.send(method, path, body, version)
        assert answer.status == expected.status, (expected, answer)
        if expected.code is None:
            return
        error = answer.json["errors"][0]
        minor = int(version.partition(".")[2])
        assert error.get("code") == (expected.code if minor >= 23 else None), (expected, error)
        for words in expected.words:
            assert words in error["detail"], (expected, error)

    def _generation(self, consumer_uuid: str, choice: str) -> int | None:
        record = self.model.records.get(consumer_uuid)
        if choice == "null" or (choice == "right" and record is None):
            return None
        right = record.generation if record else 0
        return right if choice == "right" else right + 7

    def _entry(self, uuid: str, parts: Any, minor: int) -> Entry:
        """Return what a request of this version says of the consumer."""
        held, (project, user, kind), choice = parts
        if minor < 8:
            project = user = P0
        generation = self._generation(uuid, choice) if minor >= 28 else ANY
        return Entry(uuid, held, project, user, kind if minor >= 38 else None, generation)

    @staticmethod
    def _body(entry: Entry, minor: int) -> dict[str, Any]:
        """Return the JSON of an entry as of this version."""
        body: dict[str, Any] = {
            "allocations": {uuid: {"resources": held} for uuid, held in entry.allocations.items()}
        }
        if minor < 12:
            body["allocations"] = [
                {"resource_provider": {"uuid": uuid}, **held}
                for uuid, held in body["allocations"].items()
            ]
        if minor >= 8:
            body |= {"project_id": entry.project, "user_id": entry.user}
        if minor >= 28:
            body["consumer_generation"] = entry.generation
        if minor >= 38:
            body["consumer_type"] = entry.type
        return body

    # Writes of the ledger

    @rule(
        uuid=st.sampled_from(CONSUMERS),
        held=filled_sets,
        owner=owners,
        choice=honesty,
        minor=st.sampled_from([0, 8, 12, 27, 28, 34, 38, 38, 38]),
    )
    def put(self, uuid: str, held: Any, owner: Any, choice: str, minor: int) -> None:
        """Replace the set of one consumer."""
        self._put(self._entry(uuid, (held, owner, choice), minor), minor)

    def _put(self, entry: Entry, minor: int = 38) -> None:
        expected, body = self.model.replace([entry], one=True), self._body(entry, minor)
        self._send(expected, "PUT", f"/allocations/{entry.uuid}", body, f"1.{minor}")

    @rule(uuid=st.sampled_from(CONSUMERS), choice=honesty)
    def put_nothing(self, uuid: str, choice: str) -> None:
        """Empty one consumer by PUT."""
        self._put(self._entry(uuid, ({}, ("red", "ann", "X"), choice), 38))

    @rule(
        uuid=st.sampled_from(CONSUMERS),
        host=hosts,
        name=st.sampled_from(CLASSES),
        amount=st.integers(1, 4),
    )
    def claim(self, uuid: str, host: str, name: str, amount: int) -> None:
        """Claim little, so that something is there to be contested."""
        held = {host: {name: amount}}
        self._put(self._entry(uuid, (held, ("red", "ann", "X"), "right"), 38))

    @rule(
        parts=st.dictionaries(st.sampled_from(CONSUMERS), consumer_parts, min_size=1, max_size=4),
        minor=st.sampled_from([13, 27, 28, 34, 38, 38]),
    )
    def post(self, parts: Any, minor: int) -> None:
        """Replace the sets of several consumers."""
        self._post([self._entry(uuid, each, minor) for uuid, each in parts.items()], minor)

    def _post(self, entries: list[Entry], minor: int = 38) -> None:
        expected = self.model.replace(entries, one=False)
        body = {entry.uuid: self._body(entry, minor) for entry in entries}
        self._send(expected, "POST", "/allocations", body, f"1.{minor}")

    @rule(giver=st.sampled_from(CONSUMERS), taker=st.sampled_from(CONSUMERS))
    def hand_over(self, giver: str, taker: str) -> None:
        """Give everything one consumer has to another, on the same hosts."""
        held = self.model.allocations.get(giver)
        if giver == taker or not held:
            return
        owner = ("blue", "bob", "INSTANCE")
        taken = {host: dict(amounts) for host, amounts in held.items()}
        given = ((giver, {}), (taker, taken))
        self._post([self._entry(uuid, (sets, owner, "right"), 38) for uuid, sets in given])

    @rule(uuid=st.sampled_from(CONSUMERS), minor=st.sampled_from([0, 38]))
    def delete(self, uuid: str, minor: int) -> None:
        """Delete one consumer."""
        expected = self.model.delete(uuid)
        self._send(expected, "DELETE", f"/allocations/{uuid}", version=f"1.{minor}")

    @rule(
        listed=st.dictionaries(hosts, st.tuples(stocks, honesty), min_size=1, max_size=3),
        parts=st.dictionaries(st.sampled_from(CONSUMERS), consumer_parts, max_size=3),
        minor=st.sampled_from([30, 34, 38]),
    )
    def reshape(self, listed: Any, parts: Any, minor: int) -> None:
        """Replace anything by anything."""
        entries = [self._entry(uuid, each, minor) for uuid, each in parts.items()]
        self._reshape(listed, entries, minor)

    @rule(source=hosts, into=hosts, stock=inventory_records(), name=st.sampled_from(CLASSES))
    def move(self, source: str, into: str, stock: Any, name: str) -> None:
        """Move one class with everybody who uses it from a provider to another."""
        from_provider = self.model.providers.get(source)
        to_provider = self.model.providers.get(into)
        if source == into or not from_provider or not to_provider:
            return
        remaining = {n: r for n, r in from_provider.inventories.items() if n != name}
        stocked = {**to_provider.inventories, name: {**stock, "total": 14, "max_unit": 99}}
        entries = []
        for uuid, held in self.model.allocations.items():
            if uuid in self.model.records and name in held.get(source, {}):
                moved = {u: dict(r) for u, r in held.items()}
                amount = moved[source].pop(name)
                there = moved.setdefault(into, {})
                there[name] = there.get(name, 0) + amount
                moved = {u: r for u, r in moved.items() if r}
                entries.append(self._entry(uuid, (moved, ("red", "ann", "X"), "right"), 38))
        self._reshape({source: (remaining, "right"), into: (stocked, "right")}, entries, 38)

    def _reshape(self, listed: Any, entries: list[Entry], minor: int) -> None:
        inventories = {}
        for uuid, (stock, choice) in listed.items():
            provider = self.model.providers.get(uuid)
            generation = provider.generation if provider else 0
            inventories[uuid] = (generation + (7 if choice == "wrong" else 0), stock)
        body = {
            "inventories": {
                uuid: {"resource_provider_generation": generation, "inventories": stock}
                for uuid, (generation, stock) in inventories.items()
            },
            "allocations": {entry.uuid: self._body(entry, minor) for entry in entries},
        }
        expected = self.model.reshape(inventories, entries)
        self._send(expected, "POST", "/reshaper", body, f"1.{minor}")

    # Writes of providers

    @rule(uuid=hosts)
    def create_provider(self, uuid: str) -> None:
        """Create a provider, or fail because it is there."""
        expected = self.model.create_provider(uuid)
        self._send(expected, "POST", "/resource_providers", {"name": uuid, "uuid": uuid})

    @rule(uuid=hosts)
    def delete_provider(self, uuid: str) -> None:
        """Delete a provider, or fail because it is used."""
        expected = self.model.delete_provider(uuid)
        self._send(expected, "DELETE", f"/resource_providers/{uuid}")

    @rule(uuid=hosts, stock=stocks, choice=honesty)
    def put_inventories(self, uuid: str, stock: Any, choice: str) -> None:
        """Replace the inventories of a provider, also by less than is used."""
        provider = self.model.providers.get(uuid)
        generation = provider.generation if provider else 0
        generation += 7 if choice == "wrong" else 0
        expected = self.model.put_inventories(uuid, generation, stock)
        body = {"resource_provider_generation": generation, "inventories": stock}
        self._send(expected, "PUT", f"/resource_providers/{uuid}/inventories", body)

    # What happens without a request

    @rule()
    def scrub(self) -> None:
        """Go once through the database, as the workers of a service do from time to time."""
        scrub.scrub_all(self.service.db)
        self.model.scrub()

    # The whole state

    @invariant()
    def shows_what_the_model_shows(self) -> None:
        """Every listing of every provider, consumer and project is that of the model."""
        if not hasattr(self, "model"):
            return
        for uuid in self.model.providers:
            path = f"/resource_providers/{uuid}"
            assert self._get(f"{path}/inventories") == self.model.shown_inventories(uuid)
            assert self._get(f"{path}/usages") == self.model.shown_usages(uuid)
            assert self._get(f"{path}/allocations") == self.model.shown_holders(uuid)
        for uuid in CONSUMERS:
            assert self._get(f"/allocations/{uuid}") == self.model.shown_consumer(uuid)
        for project in (*PROJECTS, P0, ledger_data.OLD_PROJECT):
            shown = self._get(f"/usages?project_id={project}")
            assert shown == self.model.shown_project(project)

    @invariant()
    def keeps_the_promise(self) -> None:
        """Counters are right, trees are trees; only what was old may lack its other half."""
        if not hasattr(self, "model"):
            return
        expected = set()
        if any(uuid not in self.model.records for uuid in self.model.allocations):
            expected.add("allocations have a consumer")
        if any(uuid not in self.model.allocations for uuid in self.model.records):
            expected.add("consumers have allocations")
        found = {each.invariant.name for each in invariants.violations(self.service.db)}
        assert found == expected


Ledger.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
test_the_ledger_does_what_the_model_does = Ledger.TestCase
