"""Where members of groups go when their tree is drained, against every assignment (07 section 4)."""

from collections import Counter
from itertools import product
from random import Random
from typing import Any

from placement.db.group_rows import MemberRow
from placement.placing.members import AmountsByIndex, Members
from placement.placing.moving import KeptOut, Moved, Part, move
from placement.search.cloud import Cloud
from placement.search.group_rules import GroupRule
from placement.search.request import CandidateRequest, Group
from placement.search.tally import Stopped
from placement.search.work import Work
from tests.search.test_choose import (
    MEMORY,
    PROCESSORS,
    Asked,
    Case,
    Host,
    cloud_of,
    drawn,
    uuid_of,
)
from tests.search.worlds import seeds


class Leaving:
    """Consumers of a case that leave a tree which is gone, some of them with a part in another.

    ``stays``: by number of the consumer the host of that part.
    """

    def __init__(self, case: Case, draw: Random) -> None:
        self.case = case
        self.stays = {
            number: draw.randrange(len(case.hosts))
            for number in range(len(case.asked))
            if draw.random() < 0.2
        }
        self.cloud = cloud_of(case)
        self.moved = self._moved()

    def _moved(self) -> Moved:
        requests: dict[Any, CandidateRequest] = {}
        parts = []
        for number, asked in enumerate(self.case.asked):
            groups = (
                Group("_1", {MEMORY: asked.memory}),
                Group("_2", {PROCESSORS: asked.processors}),
            )
            request = CandidateRequest(groups, limit=1)
            parts.append(Part(f"c{number}", requests.setdefault(repr(request), request)))
        return move(self.cloud, self._members(), parts, Work(), 4)

    def _members(self) -> Members:
        rows = {}
        for name, hosts in self.case.members.items():
            here = [(f"{name}{n}", host) for n, host in enumerate(hosts)]
            here += [
                (f"c{number}", host)
                for number, host in self.stays.items()
                if name in self.case.asked[number].groups
            ]
            rows[name] = [MemberRow(1, uuid, 1, uuid_of(host), False) for uuid, host in here]
        groups_of = {f"c{n}": asked.groups for n, asked in enumerate(self.case.asked)}
        return Members(self.case.rules, rows, groups_of)

    def is_sound(self, hosts: dict[int, int], nodes: dict[int, int]) -> bool:
        """Tell whether consumers, by number, fit into these hosts and nodes, and keep the rules there."""
        used: Counter[tuple[int, int]] = Counter()
        for number, host in hosts.items():
            used[host, 0] += self.case.asked[number].memory
            used[host, nodes[number]] += self.case.asked[number].processors
        room = [(host.memory, *host.nodes) for host in self.case.hosts]
        if any(amount > room[host][node] for (host, node), amount in used.items()):
            return False
        return all(self._keeps(name, hosts) for name in self.case.rules)

    def _keeps(self, name: str, hosts: dict[int, int]) -> bool:
        """Tell whether the rule is kept by all members, or none was moved."""
        rule = self.case.rules[name]
        domains = [self.case.domains(name, host) for host in self.case.members[name]]
        moved = False
        for number, asked in enumerate(self.case.asked):
            if name not in asked.groups:
                continue
            mine = [where[number] for where in (hosts, self.stays) if number in where]
            moved |= number in hosts
            if mine:
                domains.append(frozenset().union(*(self.case.domains(name, h) for h in mine)))
        each = Counter(domain for one in domains for domain in one)
        if rule.rule == "apart":
            return not moved or max(each.values()) <= rule.at_most
        return not moved or max(each.values()) == len(domains)

    def all_fit(self) -> bool:
        """Tell whether some assignment has a place for every consumer."""
        places = [
            (host, node)
            for host, each in enumerate(self.case.hosts)
            for node in range(1, len(each.nodes) + 1)
        ]
        numbers = range(len(self.case.asked))
        return any(
            self.is_sound(
                {n: host for n, (host, _) in zip(numbers, each, strict=True)},
                {n: node for n, (_, node) in zip(numbers, each, strict=True)},
            )
            for each in product(places, repeat=len(numbers))
        )


def taken(cloud: Cloud, given: AmountsByIndex) -> tuple[int, int]:
    """Return the host and the node that are given."""
    node = next(str(cloud.uuids[index]) for index, held in given.items() if PROCESSORS in held)
    host, number = map(int, node.split("-"))
    assert {str(cloud.uuids[index]) for index in given} == {node, uuid_of(host)}
    return host, number


@seeds(300)
def test_members_are_moved_where_their_rules_hold(draw: Random) -> None:
    """What was moved fits and keeps the rules; no consumer is homeless where all have a place."""
    case = drawn(draw)
    leaving = Leaving(case, draw)
    found = {number: taken(leaving.cloud, given) for number, given in leaving.moved.given.items()}

    assert {*found, *leaving.moved.stopped} == {*range(len(case.asked))}
    assert leaving.is_sound(
        {number: host for number, (host, _) in found.items()},
        {number: node for number, (_, node) in found.items()},
    )
    if leaving.moved.stopped:
        assert not leaving.all_fit()
    for number, why in leaving.moved.stopped.items():
        if isinstance(why, KeptOut):
            assert {*why.groups} <= {*case.asked[number].groups}
            assert why.groups


@seeds(100)
def test_no_rule_is_to_blame_without_groups(draw: Random) -> None:
    case = drawn(draw)
    plain = case._replace(asked=[each._replace(groups=()) for each in case.asked])

    stopped = Leaving(plain, draw).moved.stopped

    assert all(isinstance(why, Stopped) for why in stopped.values())


def test_a_consumer_with_two_parts_is_one_member() -> None:
    """Two of its trees are drained at once: both parts may go to one host, where no other may be."""
    hosts = [Host(8, (8,), frozenset())]
    case = Case(hosts, [Asked(1, 1, ("g",))] * 3, {}, {})
    cloud = cloud_of(case)
    groups = Group("_1", {MEMORY: 1}), Group("_2", {PROCESSORS: 1})
    request = CandidateRequest(groups, limit=1)
    members = Members({"g": GroupRule("apart")}, {"g": []}, {"a": ["g"], "b": ["g"]})

    found = move(cloud, members, [Part(uuid, request) for uuid in "aab"], Work(), 4)

    assert sorted(found.given) == [0, 1]
    assert found.stopped == {2: KeptOut(("g",))}
