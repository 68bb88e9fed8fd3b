"""Where members of groups go when their tree is drained, against every assignment (07 section 4)."""

from collections import Counter
from itertools import product
from random import Random
from typing import Any

from placement.extensions.claims.group_rows import MemberRow
from placement.placing.members import AmountsByIndex, Members
from placement.placing.mover import KeptOut, Leaving, MovedTo, Mover, Stayed
from placement.search.cloud import Cloud
from placement.search.group_rules import GroupRule
from placement.search.tally import Stopped
from placement.search.work import Work
from tests.placing.test_choose import (
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


def leave(uuid: str, memory: int, processors: int) -> Leaving:
    """Return a consumer with amounts on two providers of one tree."""
    return Leaving(uuid, ((((MEMORY, memory),), ((PROCESSORS, processors),)),))


class Drained:
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
        self.mover = Mover(self.cloud, self.members())
        found = dict(self.mover.move(self.leaving(), Work()))
        self.given = {n: each.given for n, each in found.items() if isinstance(each, MovedTo)}
        self.stopped = {n: each.why for n, each in found.items() if isinstance(each, Stayed)}

    def leaving(self) -> list[Leaving]:
        return [
            leave(f"c{number}", asked.memory, asked.processors)
            for number, asked in enumerate(self.case.asked)
        ]

    def members(self) -> Members:
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
    """What was moved fits and keeps the rules; no member of a group is homeless where all have a place."""
    case = drawn(draw)
    # Those without a group take the first candidate, and may block one another: here all are in one that lets
    # them be anywhere.
    case.rules["free"], case.members["free"] = GroupRule("apart", len(case.asked)), []
    case = case._replace(
        asked=[each._replace(groups=each.groups or ("free",)) for each in case.asked]
    )
    leaving = Drained(case, draw)
    found = {number: taken(leaving.cloud, given) for number, given in leaving.given.items()}

    assert {*found, *leaving.stopped} == {*range(len(case.asked))}
    assert leaving.is_sound(
        {number: host for number, (host, _) in found.items()},
        {number: node for number, (_, node) in found.items()},
    )
    if leaving.stopped:
        assert not leaving.all_fit()
    for number, why in leaving.stopped.items():
        if isinstance(why, KeptOut):
            assert {*why.groups} <= {*case.asked[number].groups}
            assert why.groups


@seeds(100)
def test_no_rule_is_to_blame_without_groups(draw: Random) -> None:
    case = drawn(draw)
    plain = case._replace(asked=[each._replace(groups=()) for each in case.asked])

    stopped = Drained(plain, draw).stopped

    assert all(isinstance(why, Stopped) for why in stopped.values())


def test_a_consumer_with_two_parts_is_one_member() -> None:
    """Two of its trees are drained at once: both parts may go to one host, where no other may be."""
    hosts = [Host(8, (8,), frozenset())]
    case = Case(hosts, [Asked(1, 1, ("g",))] * 3, {}, {})
    cloud = cloud_of(case)
    members = Members({"g": GroupRule("apart")}, {"g": []}, {"a": ["g"], "b": ["g"]})

    twice = Leaving("a", leave("a", 1, 1).parts * 2)
    found = dict(Mover(cloud, members).move([twice, leave("b", 1, 1)], Work()))

    assert isinstance(found[0], MovedTo)
    assert sum(amounts[MEMORY] for amounts in found[0].given.values() if MEMORY in amounts) == 2
    assert found[1] == Stayed(KeptOut(("g",)))


# -- a mover that goes on ------------------------------------------------------------------------


@seeds(100)
def test_what_is_undone_has_never_been(draw: Random) -> None:
    """Whatever was closed and moved, the cloud and the groups are as before, and so is what moves next."""
    case = drawn(draw)
    drained = Drained(case, draw)
    leaving, looks_ahead = drained.leaving(), draw.random() < 0.5

    def begin() -> Mover:
        mover = Mover(drained.cloud, drained.members())
        # What a search says of consumers without a place may differ with the moment at which it looks.
        assert not looks_ahead or mover.look_ahead(leaving, Work())
        return mover

    mover = begin()
    before, members = state(mover), mover.members
    roots = mover.cloud.forest.roots.tolist()

    for _ in range(2):
        mover.close(draw.sample(roots, draw.randint(0, len(roots))))
        for _ in mover.move(leaving[: draw.randint(0, len(leaving))], Work()):
            if draw.random() < 0.2:
                break
    mover.undo()

    assert (state(mover), mover.members) == (before, members)
    assert dict(mover.move(leaving, Work())) == dict(begin().move(leaving, Work()))


def state(mover: Mover) -> Any:
    cloud = mover.cloud
    return cloud.inventories[:], {name: cloud.room(name).tolist() for name in cloud.classes}


@seeds(100)
def test_a_remembered_candidate_is_the_one_that_a_search_would_find(draw: Random) -> None:
    """Those without groups go where each would go if all trees were searched for it."""
    case = drawn(draw)
    case = case._replace(asked=[each._replace(groups=()) for each in case.asked * 2])
    mover = Mover(cloud_of(case))
    leaving = Drained(case, draw).leaving()
    if draw.random() < 0.5:
        assert mover.look_ahead(leaving, Work())
    mover.close([draw.choice(mover.cloud.forest.roots.tolist())])

    for number, went in mover.move(leaving, Work()):
        if isinstance(went, MovedTo):
            # Where it stands now is taken: that place is given back before it is searched for again.
            again = Mover(mover.cloud)
            for index, amounts in went.given.items():
                again.cloud.use(index, {name: -amount for name, amount in amounts.items()})
            ((_, alone),) = again.move([leaving[number]], Work())
            assert alone == went
