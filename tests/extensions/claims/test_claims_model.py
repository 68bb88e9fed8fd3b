"""Random sequences of claims decided here, beside plain writes, held to the model of specification 09.

After each step the answer and all stored rows must be what the chapter allows. Holds that are over may be
removed at any time, and no request is refused for their sake: what is refused must be refused without them.

PLACEMENT_CLAIMS_EXAMPLES says how many sequences are tried on each database. Hypothesis prints the sequence
of a failure, shrunk; what the service draws comes from a seed that is drawn with the sequence.
"""

import itertools
import os
import random
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from placement.db import invariants, scrub
from placement.db.database import Database
from placement.extensions.claims import choices, groups, shortcuts
from tests.extensions.claims.claims_model import Claims
from tests.extensions.claims.claims_orders import (
    Claim,
    NotAllowed,
    Order,
    milliseconds,
    require,
    subsets,
)
from tests.extensions.claims.claims_rows import add_record, body_of, candidates_of, rows_of, stored
from tests.extensions.claims.claims_world import (
    BESIDE_POOL,
    BY_RACKS,
    CELL,
    CLOUD,
    CONSUMERS,
    HOSTS,
    LATE,
    NAMES,
    ON_POOL,
    ONE,
    OTHER,
    QUERIES,
    RACKS,
    RULES,
    TRAIT,
    TWO,
    consumers,
    gangs,
    held,
    held_for,
    honesty,
    hosts,
    names,
    orders,
    owners,
    queries,
    rules,
    stocks,
    tellings,
)
from tests.objects.ledger_model import Answer, Entry, Record
from tests.search.oracle import SHARES
from tests.support.client import Answer as Told
from tests.support.clock import let_time_pass, now_ms
from tests.support.databases import KINDS
from tests.support.effort import LONG, examples
from tests.support.processes import ENDS_S
from tests.support.service import running
from tests.support.world import World

EXAMPLES = int(os.environ.get("PLACEMENT_CLAIMS_EXAMPLES", 200 if LONG else examples(8)))
STEPS = 30

Judge = Callable[[Claims, Told], None]


class ClaimsMachine(RuleBasedStateMachine):
    """The service and the model beside one another."""

    def __init__(self, serve: Callable[[], AbstractContextManager[Any]]) -> None:
        super().__init__()
        self._running = serve()
        self._patched = pytest.MonkeyPatch()
        self.service = self._running.__enter__()
        self.db: Database = self.service.db

    @initialize(seed=st.integers(0, 2**32), age_s=st.sampled_from([0.0, 1e9]), shares=st.booleans())
    def begin(self, seed: int, age_s: float, shares: bool) -> None:
        """Start with a small cloud; what the service draws, and how old its picture may be, is drawn."""
        draw = random.Random(seed)
        for module in (choices, groups):
            self._patched.setattr(module, "DRAW", draw)
        self._patched.setattr(shortcuts, "AGE_S", age_s)
        self._patched.setattr(shortcuts, "CALM_S", -1.0)
        self.model, world = Claims(), World(self.service)
        for uuid, made in [*CLOUD.items()][: None if shares else -1]:
            world.provider(key=uuid, **made)
            self.model.create_host(uuid, made.get("parent"))
            host = self.model.providers[uuid]
            host.traits = frozenset(made.get("traits", ()))
            host.aggregates = frozenset(made.get("aggregates", ()))
            shown = self._get(f"/resource_providers/{uuid}/inventories")
            host.inventories = shown["inventories"]
            host.generation = shown["resource_provider_generation"]

    def teardown(self) -> None:
        """Let the service go."""
        self._patched.undo()
        self._running.__exit__(None, None, None)

    # -- sending and judging --

    def _get(self, path: str, version: str = "1.39") -> Any:
        answer = self.service.send("GET", path, None, version)
        assert answer.status == 200, answer
        return answer.json

    def _send(
        self, method: str, path: str, body: Any, judge: Judge, named: frozenset[str] = frozenset()
    ) -> Told:
        """Send a request; the answer and what is stored must be what the model allows.

        :param named: consumers that the request may write.
        """
        answer = self.service.send(method, path, body, "1.39")
        rows = stored(self.db)
        over = self.model.over()
        gone = over - named - rows["records"].keys()
        why = []
        for removed in subsets(over & named):
            after = self.model.without(gone | removed)
            try:
                judge(after, answer)
                if answer.status >= 400:
                    judge(self.model.without(over), answer)
                shown = rows_of(after)
                for what, found in rows.items():
                    require(found == shown[what], what, found, "instead of", shown[what])
            except NotAllowed as refused:
                why.append(refused.args)
            else:
                self.model = after
                self._require_sound()
                return answer
        raise AssertionError(f"{method} {path} {body}: {answer.status} {answer.text[:2000]}: {why}")

    def _require_sound(self) -> None:
        """Nothing is half written; only a record that other software left has no allocations."""
        left = self.model.records.keys() - self.model.allocations.keys()
        found = {each.invariant.name for each in invariants.violations(self.db)}
        assert found == ({"consumers have allocations"} if left else set())

    def _plain(
        self,
        method: str,
        path: str,
        body: Any,
        expected: Callable[[Claims], Answer],
        named: frozenset[str] = frozenset(),
    ) -> Told:
        """Send a request to which the model knows the one answer in each state."""

        def judge(model: Claims, answer: Told) -> None:
            right = expected(model)
            require(answer.status // 100 == right.status // 100, "expected", right)
            if answer.status >= 400 and over == model.over():
                require((answer.status, answer.code) == (right.status, right.code), right)
                for words in right.words:
                    require(words in answer.text, words)

        over = self.model.over()
        return self._send(method, path, body, judge, named)

    def _generation(self, consumer: str, choice: str) -> int | None:
        record = self.model.records.get(consumer)
        if choice == "null" or (choice == "right" and record is None):
            return None
        return record.generation if record and choice == "right" else 7

    # -- claims --

    def _claim(self, order: Order) -> Told:
        before = now_ms(self.db)
        named = frozenset(claim.uuid for claim in order.claims)
        answer = self._send(
            "POST", "/-/claims", order.body(), lambda model, told: model.claim(order, told), named
        )
        if answer.status == 200 and order.hold_s is not None:
            until = milliseconds(answer.json["hold"]["expires_at"]) - 1000 * order.hold_s
            assert before <= until <= now_ms(self.db)
            self._list_holds(2)
        for name in order.names:
            self._show_group(name)
        return answer

    def _order(
        self, parts: Mapping[str, Any], strategy: str, hold_s: int | None, drawn: Any, telling: str
    ) -> Order:
        made = tuple(
            Claim(
                uuid,
                self._generation(uuid, choice),
                asked if isinstance(asked, str) else asked[0],
                tuple(groups),
                project,
                "ann",
                kind,
                () if isinstance(asked, str) else tuple(asked),
            )
            for uuid, (asked, choice, groups, (project, kind)) in parts.items()
        )
        if hold_s is not None and telling != "drawn":
            made = tuple(claim for claim in made if claim.generation is None) or made
        order = Order(made, strategy, hold_s)
        return Order(made, strategy, hold_s, dict(self._told(order.names, drawn, telling)))

    def _told(self, named: list[str], drawn: Any, telling: str) -> Any:
        for name in named:
            group = self.model.without(self.model.over()).groups.get(name)
            if telling == "drawn" or (telling in ("needed", "repeated") and group is None):
                yield name, drawn[name]
            elif telling == "repeated" and group is not None:
                rule = group.rule
                level = {"level": "aggregate", "of": sorted(rule.of)} if rule.of else {}
                many = {"at_most": rule.at_most} if rule.rule == "apart" else {}
                yield name, {"rule": rule.rule, **many, **level}

    @rule(gang=gangs, strategy=orders, hold_s=held_for, drawn=rules, telling=tellings)
    def claim(self, gang: Any, strategy: str, hold_s: int | None, drawn: Any, telling: str) -> None:
        """Claim for one consumer or some, new ones and those that hold something."""
        self._claim(self._order(gang, strategy, hold_s, drawn, telling))

    @rule(uuid=consumers, query=queries, strategy=orders, hold_s=held_for)
    def claim_one(self, uuid: str, query: str, strategy: str, hold_s: int | None) -> None:
        """Claim for one consumer, mostly a new one, in no group."""
        part = {uuid: (query, "right", (), ("red", "INSTANCE"))}
        self._claim(self._order(part, strategy, hold_s, {}, "nothing"))

    @rule(
        named=st.lists(consumers, unique=True, min_size=2, max_size=6),
        query=queries,
        strategy=orders,
        hold_s=held_for,
        groups=names,
        drawn=rules,
    )
    def claim_alike(
        self, named: Any, query: str, strategy: str, hold_s: int | None, groups: Any, drawn: Any
    ) -> None:
        """Claim the same for some consumers."""
        gang = dict.fromkeys(named, (query, "right", groups, ("blue", "X")))
        self._claim(self._order(gang, strategy, hold_s, drawn, "needed"))

    @rule(
        gang=st.dictionaries(
            consumers,
            st.lists(queries, min_size=2, max_size=3, unique=True),
            min_size=1,
            max_size=2,
        ),
        strategy=orders,
        hold_s=held_for,
        groups=names,
        drawn=rules,
    )
    def claim_either(
        self, gang: Any, strategy: str, hold_s: int | None, groups: Any, drawn: Any
    ) -> None:
        """Claim for one consumer or two, each with queries in an order of preference."""
        parts = {uuid: (asked, "right", groups, ("red", "X")) for uuid, asked in gang.items()}
        self._claim(self._order(parts, strategy, hold_s, drawn, "needed"))

    @rule(
        gang=st.dictionaries(consumers, st.sampled_from(QUERIES[:6]), min_size=2, max_size=3),
        strategy=st.sampled_from(["pack", "pack", "spread"]),
    )
    def claim_of_kinds(self, gang: Any, strategy: str) -> None:
        """Claim for consumers of several kinds, in no group, in the order of a strategy."""
        parts = {uuid: (query, "right", (), ("red", "X")) for uuid, query in gang.items()}
        self._claim(self._order(parts, strategy, None, {}, "nothing"))

    @rule(
        gang=st.dictionaries(consumers, queries, min_size=1, max_size=4),
        name=st.sampled_from(NAMES[:2]),
        strategy=orders,
        hold_s=held_for,
        drawn=rules,
    )
    def claim_in_group(
        self, gang: Any, name: str, strategy: str, hold_s: int | None, drawn: Any
    ) -> None:
        """Let consumers of several kinds join one group, or begin it."""
        parts = {uuid: (query, "right", (name,), ("red", "X")) for uuid, query in gang.items()}
        self._claim(self._order(parts, strategy, hold_s, drawn, "needed"))

    @rule(
        host=hosts,
        pieces=st.integers(1, 3),
        more=st.sampled_from([0, 0, 1]),
        strategy=orders,
        released=st.booleans(),
    )
    def claim_the_rest(
        self, host: str, pieces: int, more: int, strategy: str, released: bool
    ) -> None:
        """Claim exactly what is free in a tree, or more than that, perhaps just after a release there."""
        if released and self.model.allocations:
            uuid, held = next(iter(sorted(self.model.allocations.items())))
            host = next(iter(held))
            self._delete(uuid)
        free = self.model.free(host, "VCPU") + more
        amounts = [n for n in [free - pieces + 1] + [1] * (pieces - 1) if n > 0]
        new = [uuid for uuid in CONSUMERS if uuid not in self.model.records]
        query = f"resources=VCPU:{{}}&in_tree={host}"
        owner = ("red", "INSTANCE")
        gang = {
            uuid: (query.format(amount), "right", (), owner)
            for uuid, amount in zip(new, amounts, strict=False)
        }
        if gang:
            self._claim(self._order(gang, strategy, None, {}, "nothing"))

    # -- groups in which something stands in the way --

    def _new(self, count: int) -> list[str]:
        """Return so many consumers, if there are as many that have no record."""
        return [uuid for uuid in CONSUMERS if uuid not in self.model.records][:count]

    def _join(self, name: str, told: Mapping[str, Any], query: str, *uuids: str, **more: Any) -> None:
        """Claim for new consumers in a group, of which the rule is told if it begins."""
        parts = dict.fromkeys(uuids, (query, "right", (name,), ("blue", "INSTANCE")))
        order = self._order(parts, "any", more.get("hold_s"), {name: told}, "needed")
        if parts:
            self._claim(order)

    @rule(at_most=st.integers(1, 2), more=st.sampled_from([0, 0, 0, 1]))
    def claim_by_racks(self, at_most: int, more: int) -> None:
        """Claim for as many as racks take, or one more, where a host in two racks is in the way."""
        new = self._new(2 * at_most + more)
        name = next((name for name in NAMES if name not in self.model.groups), None)
        if name is not None:
            told = {"rule": "apart", "at_most": at_most, **BY_RACKS}
            self._join(name, told, f"resources=VCPU:1&member_of=in:{RACKS[0]},{RACKS[1]}", *new)

    @rule(name=st.sampled_from(NAMES[:2]), at_most=st.integers(1, 2), number=st.integers(0, 6))
    def join_a_broken_group(self, name: str, at_most: int, number: int) -> None:
        """Move a member to where another one is, and claim for a further one."""
        if name not in self.model.groups:
            self._join(name, {"rule": "apart", "at_most": at_most}, QUERIES[0], *self._new(at_most + 1))
        group = self.model.groups.get(name)
        members = sorted(group.members) if group else []
        if len(members) > 1:
            there = members[(number + 1) % len(members)]
            host = next(iter(self.model.allocations[there]))
            self.put(members[number % len(members)], {host: {"VCPU": 1}}, ("red", "X"), "right")
            self._join(name, {}, QUERIES[0], *self._new(1))

    @rule(name=st.sampled_from(NAMES[:2]))
    def join_past_a_hold(self, name: str) -> None:
        """Claim where a member is held whose time has come, or hold the first."""
        group = self.model.groups.get(name)
        held = sorted(self.model.holds.keys() & group.members) if group else []
        if not held:
            self._join(name, RULES[0], f"resources=VCPU:1&in_tree={ONE}", *self._new(1), hold_s=1000)
            group = self.model.groups.get(name)
            held = sorted(self.model.holds.keys() & group.members) if group else []
        if held and group:
            self.let_time_pass(self.model.holds[held[0]].left_s, 9)
            root = self.model.root(next(iter(self.model.allocations[held[0]])))
            self._join(name, RULES[0], f"resources=VCPU:1&in_tree={root}", *self._new(1))

    @rule(
        name=st.sampled_from(NAMES[:2]),
        queries=st.lists(st.sampled_from([ON_POOL, BESIDE_POOL]), min_size=2, max_size=3),
    )
    def join_for_a_disk(self, name: str, queries: list[str]) -> None:
        """Claim what a sharing provider serves, beside hosts that are apart or by itself, one by one."""
        self._join(name, RULES[0], BESIDE_POOL, *self._new(2))
        for query in queries:
            self._join(name, RULES[0], query, *self._new(1))

    # -- holds --

    @rule(count=st.integers(2, 3), query=queries, seconds=st.sampled_from([0, 0, 1000]))
    def hold_and_confirm(self, count: int, query: str, seconds: int) -> None:
        """Hold a gang and confirm it, in time or too late: what a careful client does."""
        gang = dict.fromkeys(self._new(count), (query, "right", (), ("red", "INSTANCE")))
        if gang and self._claim(self._order(gang, "any", 1000, {}, "nothing")).status == 200:
            if seconds:
                self.let_time_pass(seconds, 9)
            self._confirm_listed([(uuid, self._generation(uuid, "right") or 1) for uuid in gang])

    @rule(
        first=st.integers(0, 6),
        choices=st.lists(st.sampled_from(["right"] * 5 + ["wrong"]), min_size=1, max_size=3),
        more=st.lists(consumers, max_size=1),
    )
    def confirm(self, first: int, choices: list[str], more: list[str]) -> None:
        """Confirm some of those that are held, over or not, and sometimes another one."""
        held = sorted(self.model.holds)
        at = first % len(held) if held else 0
        named = dict.fromkeys([*(held[at:] + held[:at])[: len(choices)], *more])
        sent = zip(named, itertools.cycle(choices), strict=False)
        listed = [(uuid, self._generation(uuid, choice) or 1) for uuid, choice in sent]
        if listed:
            self._confirm_listed(listed)

    @rule(uuid=consumers)
    def confirm_one(self, uuid: str) -> None:
        """Confirm one consumer of whatever generation."""
        self._confirm(f"/-/claims/{uuid}/confirm", None, [(uuid, None)])

    def _confirm_listed(self, listed: list[tuple[str, int]]) -> None:
        body = {"consumers": [{"consumer_uuid": u, "consumer_generation": g} for u, g in listed]}
        self._confirm("/-/claims/confirm", body, listed)

    def _confirm(self, path: str, body: Any, listed: Any) -> None:
        def expected(model: Claims) -> Answer:
            right, told = model.confirm(listed)
            expected_told[:] = [told]
            return right

        expected_told: list[dict[str, int]] = []
        named = frozenset(uuid for uuid, _ in listed)
        answer = self._plain("POST", path, body, expected, named)
        if answer.status == 200:
            shown = [
                (each["consumer_uuid"], each["consumer_generation"])
                for each in answer.json["consumers"]
            ]
            assert shown == list(expected_told[0].items())

    @rule(seconds=st.sampled_from([1000, 1000, 2000]), number=st.integers(0, 9))
    def let_time_pass(self, seconds: int, number: int) -> None:
        """Move the clock of the database; some confirm too late."""
        let_time_pass(self.db, seconds)
        self.model.let_time_pass(seconds)
        self._list_holds(2)
        held = sorted(self.model.holds)
        if number < len(held):
            self.confirm_one(held[number])

    # -- plain requests beside them --

    def _entry(self, uuid: str, sets: Any, owner: Any, choice: str) -> Entry:
        project, kind = owner
        return Entry(uuid, sets, project, "bob", kind, self._generation(uuid, choice))

    @rule(uuid=consumers, sets=held, owner=owners, choice=honesty)
    def put(self, uuid: str, sets: Any, owner: Any, choice: str) -> None:
        """Replace what a consumer holds, or take it all."""
        entry = self._entry(uuid, sets, owner, choice)
        self._plain(
            "PUT",
            f"/allocations/{uuid}",
            body_of(entry),
            lambda model: model.replace([entry], True),
            frozenset({uuid}),
        )

    @rule(
        parts=st.dictionaries(consumers, st.tuples(held, owners, honesty), min_size=1, max_size=3)
    )
    def post(self, parts: Any) -> None:
        """Replace what some consumers hold."""
        entries = [self._entry(uuid, *each) for uuid, each in parts.items()]
        body = {entry.uuid: body_of(entry) for entry in entries}
        self._plain(
            "POST",
            "/allocations",
            body,
            lambda model: model.replace(entries, False),
            frozenset(parts),
        )

    @rule(number=st.integers(0, 6), host=hosts, choice=honesty)
    def move(self, number: int, host: str, choice: str) -> None:
        """Move a consumer that holds something, wherever its groups want it."""
        holders = sorted(self.model.allocations)
        if holders:
            uuid = holders[number % len(holders)]
            self.put(uuid, {host: {"VCPU": 1}}, ("red", "X"), choice)

    @rule(number=st.integers(0, 6))
    def delete(self, number: int) -> None:
        """Release a consumer that holds something, if there are enough."""
        holders = sorted(self.model.allocations)
        uuid = holders[number] if number < len(holders) else CONSUMERS[number]
        self._delete(uuid)

    def _delete(self, uuid: str) -> None:
        named = frozenset({uuid})
        self._plain("DELETE", f"/allocations/{uuid}", None, lambda model: model.delete(uuid), named)

    @rule(uuid=hosts, stock=stocks)
    def put_inventories(self, uuid: str, stock: Any) -> None:
        """Replace the inventories of a provider, also by less than is used."""
        generation = self._of_provider(uuid)
        body = {"resource_provider_generation": generation, "inventories": stock}
        self._plain(
            "PUT",
            f"/resource_providers/{uuid}/inventories",
            body,
            lambda model: model.put_inventories(uuid, generation, stock),
        )

    def _of_provider(self, uuid: str) -> int:
        host = self.model.providers.get(uuid)
        return host.generation if host else 0

    @rule(
        uuid=hosts,
        value=st.one_of(
            st.tuples(st.just("traits"), st.sets(st.sampled_from([TRAIT, OTHER, SHARES]))),
            st.tuples(st.just("aggregates"), st.sets(st.sampled_from(RACKS))),
        ),
    )
    def change_host(self, uuid: str, value: Any) -> None:
        """Give a provider other traits, or put it into other aggregates."""
        part, chosen = value
        generation = self._of_provider(uuid)
        body = {"resource_provider_generation": generation, part: sorted(chosen)}
        self._plain(
            "PUT",
            f"/resource_providers/{uuid}/{part}",
            body,
            lambda model: model.change_host(uuid, generation, part, frozenset(chosen)),
        )

    @rule(
        uuid=st.sampled_from([LATE, LATE, *HOSTS]), parent=st.sampled_from([None, ONE, TWO, CELL])
    )
    def create_or_delete_host(self, uuid: str, parent: str | None) -> None:
        """Create a provider, or delete it, or fail because it is used."""
        if uuid in self.model.providers:
            path = f"/resource_providers/{uuid}"
            self._plain("DELETE", path, None, lambda model: model.delete_host(uuid))
        elif parent is None or parent in self.model.providers:
            body = {"name": uuid, "uuid": uuid, "parent_provider_uuid": parent}
            self._plain(
                "POST", "/resource_providers", body, lambda model: model.create_host(uuid, parent)
            )

    @rule(uuid=consumers)
    def add_record(self, uuid: str) -> None:
        """Leave a consumer record without allocations, as other software does."""
        if uuid not in self.model.records:
            add_record(self.db, uuid)
            self.model.records[uuid] = Record("old", "old", None, 4)

    # -- reading --

    @rule(query=queries)
    def search(self, query: str) -> None:
        """Ask for candidates: they are those of the oracle, without any hold that is over."""

        def judge(model: Claims, answer: Told) -> None:
            require(not model.over(), "who looks for room first removes what is over", model.over())
            found = candidates_of(answer.json, model)
            require(found == model.candidates(query), "the candidates of", query)

        answer = self._send("GET", f"/allocation_candidates?{query}", None, judge)
        assert answer.status == 200, answer

    @rule(
        limit=st.integers(1, 3),
        project=st.sampled_from([None, "red"]),
        group=st.sampled_from([None, None, NAMES[0], "none"]),
    )
    def list_holds(self, limit: int, project: str | None, group: str | None) -> None:
        """List what is held by a project or in a group, page by page."""
        self._list_holds(limit, project, group)

    def _list_holds(self, limit: int, project: str | None = None, group: str | None = None) -> None:
        filters = {"project_id": project, "group": group, "limit": limit}
        query = "&".join(f"{name}={value}" for name, value in filters.items() if value is not None)
        shown, marker = [], None
        while marker or not shown:
            page = self._get(f"/-/holds?{query}" + (f"&marker={marker}" if marker else ""))
            assert len(page["holds"]) <= limit
            shown += page["holds"]
            marker = page["next"]
            if not marker:
                break
            assert marker == shown[-1]["consumer_uuid"]
        for each in shown:
            each["expires_at"] = milliseconds(each["expires_at"])
        assert shown == self.model.shown_holds(project, group)

    @rule()
    def scrub(self) -> None:
        """Go once through the database, as the workers of a service do from time to time."""
        scrub.scrub_all(self.db)
        self.model.scrub()

    @rule()
    def show_everything(self) -> None:
        """All groups, consumers, providers and usages are as the model has them."""
        for name in NAMES:
            self._show_group(name)
        for uuid in CONSUMERS:
            assert self._get(f"/allocations/{uuid}") == self.model.shown_consumer(uuid)
        for uuid in self.model.providers:
            path = f"/resource_providers/{uuid}"
            assert self._get(f"{path}/inventories") == self.model.shown_inventories(uuid)
            assert self._get(f"{path}/usages") == self.model.shown_usages(uuid)
            assert self._get(f"{path}/allocations") == self.model.shown_holders(uuid)
        for project in ("red", "blue", "old"):
            shown = self._get(f"/usages?project_id={project}")
            assert shown == self.model.shown_project(project)

    def _show_group(self, name: str) -> None:
        answer = self.service.send("GET", f"/-/groups/{quote(name)}")
        expected = self.model.shown_group(name)
        assert answer.status == (404 if expected is None else 200), answer
        if expected is not None:
            assert answer.json == expected


SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("kind", KINDS)
def test_claims_are_what_the_model_allows(kind: str) -> None:
    serve = partial(running, kind, insight__enabled=True, api__search_deadline=ENDS_S)
    run_state_machine_as_test(partial(ClaimsMachine, serve), settings=SETTINGS)
