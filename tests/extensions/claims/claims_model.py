"""Specification 09 in plain dictionaries, beside the ledger of ``ledger_model``.

Which places are chosen is the service's affair. So the model is shown the answer: it says whether that was
allowed, with candidates by the oracle and assignments by brute force, and then has what the answer says.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import os_traits

from placement.inventory_record import InventoryRecord
from placement.search.records import ProviderRecord, UsedInventory
from tests.extensions.claims.claims_orders import (
    Claim,
    Domains,
    Order,
    Rule,
    milliseconds,
    parsed,
    require,
)
from tests.extensions.claims.claims_search import Search
from tests.objects.ledger_model import CONCURRENT, Answer, Entry, Model, Provider, Refused
from tests.search.oracle import SHARES, Candidate, Oracle

NO_CANDIDATE = "placement.no_candidate"
GROUP_RULE = "placement.group_rule"
HOLD_EXPIRED = "placement.hold_expired"
KNOWN_TRAITS = frozenset(os_traits.get_traits())
UNDEFINED = "placement.undefined_code"

MOST_WAYS = 20_000
"""Of so many assignments a refusal may leave open whether one exists."""

Allocations = Mapping[str, Mapping[str, int]]


@dataclass
class Host(Provider):
    """A provider with what a search sees beside its inventories."""

    parent: str | None = None
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()


@dataclass
class Hold:
    """A hold: the generation that it was claimed with, the seconds that are left, and its end as told."""

    generation: int
    left_s: int
    expires_at: int

    @property
    def is_over(self) -> bool:
        """Whether its time has come."""
        return self.left_s <= 0


@dataclass
class Group:
    """A group with the consumers that were claimed with it."""

    rule: Rule
    members: set[str] = field(default_factory=set)


@dataclass
class Claims(Model):
    """The ledger with trees, groups and holds. ``providers`` are hosts."""

    groups: dict[str, Group] = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)

    def _attempt(self, change: Any) -> Answer:
        answer = super()._attempt(change)
        self._tidy()
        return answer

    def delete(self, consumer_uuid: str) -> Answer:
        """DELETE of a consumer, which leaves its groups and is not held any more."""
        answer = super().delete(consumer_uuid)
        self._tidy()
        return answer

    def _tidy(self) -> None:
        """A member holds something; a hold counts only with its generation (sections 4 and 5)."""
        for name, group in list(self.groups.items()):
            group.members &= self.allocations.keys() & self.records.keys()
            if not group.members:
                del self.groups[name]
        for uuid, hold in list(self.holds.items()):
            record = self.records.get(uuid)
            if record is None or record.generation != hold.generation:
                del self.holds[uuid]

    # Providers

    def create_host(self, uuid: str, parent: str | None) -> Answer:
        """POST of a provider below another, or of a root."""
        answer = self.create_provider(uuid)
        if answer.status == 200:
            self.providers[uuid] = Host(parent=parent)
        return answer

    def delete_host(self, uuid: str) -> Answer:
        """DELETE of a provider, which nothing must be below."""
        if any(host.parent == uuid for host in self._hosts().values()):
            return Answer(409, "placement.resource_provider.cannot_delete_parent")
        return self.delete_provider(uuid)

    def change_host(self, uuid: str, generation: int, part: str, value: frozenset[str]) -> Answer:
        """PUT of the traits or aggregates of a provider."""
        host = self._hosts().get(uuid)
        if host is None:
            return Answer(404, UNDEFINED)
        if generation != host.generation:
            return Answer(409, CONCURRENT)
        host.generation += part != "traits" or value != host.traits
        setattr(host, part, value)
        return Answer(200)

    def _hosts(self) -> dict[str, Host]:
        return {uuid: host for uuid, host in self.providers.items() if isinstance(host, Host)}

    def root(self, uuid: str) -> str:
        """Return the root of a provider's tree."""
        hosts = self._hosts()
        while (parent := hosts[uuid].parent) is not None:
            uuid = parent
        return uuid

    def free(self, uuid: str, class_name: str) -> int:
        """Return what of a class is free of a provider; 0 if it is not there."""
        host = self.providers.get(uuid)
        record = host.inventories.get(class_name) if host else None
        if record is None:
            return 0
        return int(InventoryRecord(**record).capacity) - self.used(uuid, class_name)

    # Time

    def let_time_pass(self, seconds: int) -> None:
        """All holds are nearer to their end."""
        for hold in self.holds.values():
            hold.left_s -= seconds
            hold.expires_at -= 1000 * seconds

    def over(self) -> set[str]:
        """Return the consumers whose hold is over: whoever looks for room removes them."""
        return {uuid for uuid, hold in self.holds.items() if hold.is_over}

    def without(self, consumers: Collection[str]) -> Claims:
        """Return the state after these were deleted."""
        after = copy.deepcopy(self)
        for uuid in consumers:
            after.delete(uuid)
        return after

    # Confirmation

    def confirm(self, consumers: Sequence[tuple[str, int | None]]) -> tuple[Answer, dict[str, int]]:
        """Section 5.2 and 5.3: the answer, and the generations that it tells."""
        for uuid, given in consumers:
            record, hold = self.records.get(uuid), self.holds.get(uuid)
            if record is not None and given not in (None, record.generation):
                words = f"expected {record.generation} but got {given}"
                return Answer(409, CONCURRENT, (words,)), {}
            if record is None or hold is None or hold.is_over:
                return Answer(409, HOLD_EXPIRED, (f"Consumer {uuid} ",)), {}
        told = {}
        for uuid, _ in consumers:
            self.records[uuid].generation += 1
            told[uuid] = self.records[uuid].generation
        self._tidy()
        return Answer(200), told

    # Claims

    def claim(self, order: Order, answer: Any) -> None:
        """Judge the answer to a request of section 2, and have what it says.

        :raises NotAllowed:
        """
        code = answer.json["errors"][0]["code"] if answer.status >= 400 else ""
        early = self._refused_early(order)
        if early:
            require((answer.status, code) in early, "one of", early)
        elif answer.status == 200:
            self._grant(self._chosen(order, answer.json), answer.json)
        else:
            require((answer.status, code) == (409, NO_CANDIDATE), "200 or no_candidate")
            self._require_refusal(order, answer.json["errors"][0])

    def _refused_early(self, order: Order) -> set[tuple[int, str]]:
        """Return the refusals, other than for lack of room, that there is a reason for (section 2.3)."""
        found = set()
        if order.hold_s and any(claim.generation is not None for claim in order.claims):
            return {(400, UNDEFINED)}
        for claim in order.claims:
            if not all(parsed(query).names.traits <= KNOWN_TRAITS for query in claim.options):
                found.add((400, UNDEFINED))
        for name in order.names:
            group, given = self.groups.get(name), order.rules.get(name)
            if group is None and given is None:
                found.add((400, UNDEFINED))
            if group is not None and given is not None and Rule.given(given) != group.rule:
                found.add((409, GROUP_RULE))
        try:
            self._check_generations([_entry(claim, {}) for claim in order.claims])
        except Refused as refused:
            found.add((refused.answer.status, str(refused.answer.code)))
        return found

    def _require_refusal(self, order: Order, error: Mapping[str, Any]) -> None:
        """Section 2.4: nothing fits, and if that can be known it is said."""
        require(not self.over(), "who looks for room first removes what is over", self.over())
        number = error["claim"]["number"]
        told = error["claim"]["consumer_uuid"]
        require(told == order.claims[number].uuid, "the claim is told by number and consumer")
        require(set(error["groups"]) <= set(order.claims[number].groups), "its groups are told")
        require(error["explanation"], "an explanation")
        others = len(order.claims[number].queries) - 1
        require(len(error.get("alternatives", ())) == max(others, 0), "one of each other query")
        searches = [Search(self, order.at(positions)) for positions in order.positions]
        require(all(each.assignment() is None for each in searches), "fits")
        ways = sum(each.ways for each in searches)
        require(error["exact"] or ways > MOST_WAYS, "certainly", ways)

    def _chosen(self, order: Order, document: Mapping[str, Any]) -> Order:
        """Section 3.1: what was granted; if that is certain, nothing that is liked better fitted."""
        told, claims = document["claims"], order.claims
        several = [bool(claim.queries) for claim in claims]
        require(["chosen" in each for each in told] == several, "of which it was one of several")
        require(("exact" in document) == any(several), "how certain that is")
        chosen = tuple(each.get("chosen", 0) for each in told)
        for positions in takewhile(lambda each: each != chosen, order.positions):
            require(not self.over(), "who looks for room first removes what is over", self.over())
            fits = document["exact"] and Search(self, order.at(positions)).assignment()
            require(not fits, "what is liked better", positions, "than", chosen)
        return order.at(chosen)

    def _grant(self, order: Order, document: Mapping[str, Any]) -> None:
        """Section 2.2: each satisfies its query, all fit, rules hold; then the model has it."""
        told = document["claims"]
        uuids = [claim.uuid for claim in order.claims]
        require([each["consumer_uuid"] for each in told] == uuids, "in the order asked")
        search = Search(self, order)
        choices = [search.choice(number, each) for number, each in enumerate(told)]
        require(search.fit(choices), "all together fit")
        require(search.keep(dict(enumerate(choices))), "every rule is kept")
        if order.strategy != "any":
            require(not self.over(), "who looks for room first removes what is over")
            search.require_order([each["root_provider_uuid"] for each in told], choices)
        allocations = [
            {uuid: held["resources"] for uuid, held in each["allocations"].items()} for each in told
        ]
        self._write([_entry(*each) for each in zip(order.claims, allocations, strict=True)])
        for claim, each in zip(order.claims, told, strict=True):
            stored = self.records[claim.uuid].generation
            require(each["consumer_generation"] == stored, "the generation stored", stored)
            self._join(claim, order)
        self._hold(order, document)
        self._tidy()

    def _join(self, claim: Claim, order: Order) -> None:
        for name, group in self.groups.items():
            if name not in claim.groups:
                group.members.discard(claim.uuid)
        for name in claim.groups:
            if name not in self.groups:
                self.groups[name] = Group(Rule.given(order.rules[name]))
            self.groups[name].members.add(claim.uuid)

    def _hold(self, order: Order, document: Mapping[str, Any]) -> None:
        require(("hold" in document) == (order.hold_s is not None), "a hold if asked for")
        if order.hold_s is not None:
            expires_at = milliseconds(document["hold"]["expires_at"])
            for claim in order.claims:
                generation = self.records[claim.uuid].generation
                self.holds[claim.uuid] = Hold(generation, order.hold_s, expires_at)

    # What a search sees

    def oracle(self, freed: Collection[str] = ()) -> Oracle:
        """Return brute force on what is there, where what some consumers hold is free."""
        ids = {uuid: number for number, uuid in enumerate(sorted(self.providers), 1)}
        return Oracle(
            ProviderRecord(
                number,
                uuid,
                1,
                ids[parent] if (parent := host.parent) else None,
                ids[self.root(uuid)],
                {
                    name: UsedInventory(InventoryRecord(**record), self.used(uuid, name, freed))
                    for name, record in host.inventories.items()
                },
                host.traits,
                host.aggregates,
            )
            for uuid, number in ids.items()
            if (host := self._hosts()[uuid])
        )

    def candidates(self, query: str) -> set[Candidate]:
        """GET of candidates, as the oracle puts it."""
        return self.oracle().candidates(parsed(query))

    def ids(self) -> dict[str, int]:
        """Return the ids by which the oracle names providers."""
        return {uuid: number for number, uuid in enumerate(sorted(self.providers), 1)}

    def domains(self, rule: Rule, providers: Collection[str]) -> Domains:
        """Return the domains of a member that holds something of these (sections 4.1 and 4.2)."""
        hosts = self._hosts()
        own = {self.root(uuid) for uuid in providers if SHARES not in hosts[uuid].traits}
        found: set[str] = set()
        for root in own or {self.root(uuid) for uuid in providers}:
            tree = [host for uuid, host in hosts.items() if self.root(uuid) == root]
            aggregates = frozenset[str]().union(*(host.aggregates for host in tree))
            found |= aggregates & rule.of or {root}
        return frozenset(found)

    def member_domains(self, name: str, besides: Collection[str] = ()) -> dict[str, Domains]:
        """Return the domains of the members of a group, leaving out some."""
        group = self.groups[name]
        return {
            uuid: self.domains(group.rule, self.allocations[uuid])
            for uuid in sorted(group.members.difference(besides))
        }

    # What is shown

    def shown_group(self, name: str) -> Any:
        """GET of a group."""
        group = self.groups.get(name)
        if group is None:
            return None
        domains, rule = self.member_domains(name), group.rule
        level = {"level": "aggregate", "of": sorted(rule.of)} if rule.of else {"level": "tree"}
        return {
            "name": name,
            "rule": rule.rule,
            **level,
            **({"at_most": rule.at_most} if rule.rule == "apart" else {}),
            "members": [
                {
                    "consumer_uuid": uuid,
                    "consumer_generation": self.records[uuid].generation,
                    "domains": sorted(each),
                }
                for uuid, each in domains.items()
            ],
            "kept": rule.kept(list(domains.values())),
        }

    def shown_holds(self, project: str | None = None, group: str | None = None) -> list[Any]:
        """GET of holds, all pages, with times in milliseconds."""
        members = self.groups[group].members if group in self.groups else set()
        return [
            {
                "consumer_uuid": uuid,
                "consumer_generation": hold.generation,
                "consumer_type": self.records[uuid].type,
                "project_id": self.records[uuid].project,
                "user_id": self.records[uuid].user,
                "expires_at": hold.expires_at,
                "expired": hold.is_over,
            }
            for uuid, hold in sorted(self.holds.items())
            if project in (None, self.records[uuid].project) and (group is None or uuid in members)
        ]


def _entry(claim: Claim, allocations: Allocations) -> Entry:
    """Return what a claim that is given these allocations does to its consumer."""
    return Entry(claim.uuid, allocations, claim.project, claim.user, claim.type, claim.generation)
