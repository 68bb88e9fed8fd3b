"""Random clouds through the API, with consumers in groups and goals, and plans carried out as Nova would."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from tests.support.client import Answer, Sender
from tests.support.world import World

SHARES = "MISC_SHARES_VIA_AGGREGATE"
OWNER = {"project_id": "red", "user_id": "ann"}


def any_uuid(random: Random) -> str:
    """Return a uuid that the seed decides."""
    return str(UUID(int=random.getrandbits(128), version=4))


@dataclass
class RandomCloud:
    """Hosts, some with a device, some with a disk of a pool; consumers there, some in groups."""

    sender: Sender
    random: Random
    hosts: list[str] = field(default_factory=list)
    racks: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    consumers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = World(self.sender)
        self.racks = [any_uuid(self.random) for _ in range(2)]
        self.groups = [f"{kind}-{any_uuid(self.random)}" for kind in ("apart", "together")]
        for number in range(self.random.randint(2, 5)):
            host = any_uuid(self.random)
            stock = {"VCPU": self.random.randint(3, 8)}
            self.world.provider(None, None, stock, (), [self.racks[number % 2]], host)
            if self.random.random() < 0.4:
                self.world.provider(None, host, {"PGPU": 2}, key=any_uuid(self.random))
            self.hosts.append(host)
        self.pool = any_uuid(self.random)
        self.world.provider(None, None, {"DISK_GB": 20}, [SHARES], self.racks[:1], self.pool)
        for _ in range(self.random.randint(2, 8)):
            self.claim()
        if self.random.random() < 0.3:
            self._break_a_rule()
        # Drawn apart: with any of them or without, all else of a seed is the same.
        apart = Random(self.hosts[0])
        self.disabled = {host for host in self.hosts if apart.random() < 0.15}
        for host in self.disabled:
            self.world.set_traits(host, ["COMPUTE_STATUS_DISABLED"])

    def claim(self) -> None:
        """Claim for a consumer on some host; one for which there is no room is refused."""
        draw, host = self.random, self.random.choice(self.hosts)
        query = f"resources=VCPU:{draw.randint(1, 3)}&in_tree={host}"
        what = draw.random()
        if what < 0.2:
            query += "&resources_D=PGPU:1&group_policy=none"
        elif what < 0.4:
            query += "&resources_P=DISK_GB:2&group_policy=none"
        name = draw.choice([*self.groups, "", ""])
        group = {}
        if name:
            of = (
                {"level": "aggregate", "of": self.racks} if name.endswith(tuple("01234567")) else {}
            )
            group = {name: {"rule": name.partition("-")[0], **of}}
        claim = {
            "consumer_uuid": any_uuid(draw),
            "consumer_generation": None,
            **OWNER,
            "consumer_type": draw.choice(["INSTANCE", "INSTANCE", "SPOT"]),
            "query": query,
            "groups": [*group],
        }
        answer = self.sender.send("POST", "/-/claims", {"claims": [claim], "groups": group})
        assert answer.status in (200, 409), answer
        if answer.status == 200:
            self.consumers.append(claim["consumer_uuid"])

    def _break_a_rule(self) -> None:
        """Put a consumer somewhere else by a plain write, which looks at no group."""
        uuid = self.random.choice(self.consumers) if self.consumers else ""
        held = self.world.used(uuid) if uuid else {}
        if len(held) == 1 and self.hosts.count(next(iter(held))):
            (amounts,) = held.values()
            body = {
                "allocations": {self.random.choice(self.hosts): {"resources": amounts}},
                **OWNER,
                "consumer_type": "INSTANCE",
                "consumer_generation": 1,
            }
            self.world.call("PUT", f"/allocations/{uuid}", body, expect=(204, 409))

    def asks(self) -> Iterator[dict[str, Any]]:
        """Yield bodies that ask for plans, each with another goal."""
        draw = self.random
        alive = [name for name in self.groups if self.excess(name) is not None]
        goals: list[dict[str, Any]] = [
            {"place": f"resources=VCPU:{draw.randint(2, 6)}", "times": draw.randint(1, 2)},
            {"place": "resources=VCPU:1&resources_D=PGPU:2&group_policy=none"},
            {"empty": {"trees": [draw.choice(self.hosts)]}},
            {"empty": {"count": draw.randint(1, 2), "of": self.hosts}},
            {"empty": {"count": 1, "level": "aggregate"}},
            *({"keep": [name]} for name in alive),
        ]
        may = {"remove": {"consumer_types": ["SPOT"]}}
        for goal in draw.sample(goals, len(goals)):
            yield {"goal": goal, **({"may": may} if draw.random() < 0.4 else {})}

    # -- what is to hold --

    def excess(self, name: str) -> int | None:
        """Return how far the rule of a group is broken; None if there is no such group."""
        answer = self.world.call("GET", f"/-/groups/{name}", expect=(200, 404))
        if answer.status == 404:
            return None
        group = answer.json
        counts = Counter(domain for member in group["members"] for domain in member["domains"])
        if group["rule"] == "apart":
            return sum(max(0, count - group["at_most"]) for count in counts.values())
        return len(group["members"]) - max(counts.values())

    def excesses(self) -> dict[str, int]:
        """Return how far the rule of each group is broken."""
        return {name: self.excess(name) or 0 for name in self.groups}

    def assert_reached(self, goal: dict[str, Any], plan: dict[str, Any]) -> None:
        """Check from outside, by plain requests, that a goal holds."""
        if "keep" in goal:
            assert [self.excess(name) or 0 for name in goal["keep"]] == [0] * len(goal["keep"])
        for place in plan.get("placed", ()):
            body = {"allocations": place["allocations"], **OWNER, "consumer_type": "NEW"}
            body["consumer_generation"] = None
            # All at once: each stays until the cloud is thrown away.
            self.world.call("PUT", f"/allocations/{any_uuid(self.random)}", body)
        if "place" in goal:
            assert len(plan["placed"]) == goal.get("times", 1)
        if "empty" in goal:
            wanted = goal["empty"]
            assert len(plan["emptied"]) == wanted.get("count", len(wanted.get("trees", ())))
            for domain in plan["emptied"]:
                in_domain = "in_tree" if domain in self.hosts else "member_of"
                path = f"/resource_providers?{in_domain}={domain}"
                for provider in self.world.get(path)["resource_providers"]:
                    if in_domain == "in_tree" or provider["uuid"] == self.pool:
                        assert not any(self.world.usages(provider["uuid"]).values())
                        continue
                    tree = f"/resource_providers?in_tree={provider['uuid']}"
                    for each in self.world.get(tree)["resource_providers"]:
                        assert not any(self.world.usages(each["uuid"]).values())

    # -- carrying out --

    def carry_out(self, step: dict[str, Any]) -> None:
        """Carry out a step that is not held as Nova does, which holds both places during a migration."""
        owner = {name: step[name] for name in ("project_id", "user_id")}
        mine = {
            **owner,
            "consumer_type": step["consumer_type"],
            "consumer_generation": step["consumer_generation"],
        }
        if "remove" in step:
            body = {step["remove"]: {**mine, "allocations": {}}}
            self.world.call("POST", "/allocations", body)
            return
        migration = any_uuid(self.random)
        source = {
            **owner,
            "allocations": step["from"],
            "consumer_type": "MIGRATION",
            "consumer_generation": None,
        }
        moved = {**mine, "allocations": step["allocations"], "mappings": step["mappings"]}
        self.world.call("POST", "/allocations", {migration: source, step["consumer_uuid"]: moved})
        self.world.release(migration)


def carry_out_held(sender: Sender, step: dict[str, Any]) -> Answer:
    """Carry out a step by one request, which takes over what is held for it (specification 10 section 5)."""
    owner = {name: step[name] for name in ("project_id", "user_id")}
    mine = {
        **owner,
        "consumer_type": step["consumer_type"],
        "consumer_generation": step["consumer_generation"],
        "allocations": step.get("allocations", {}),
    }
    body = {step.get("remove") or step["consumer_uuid"]: mine}
    if "held_by" in step:
        holder = {
            **owner,
            "consumer_type": "MIGRATION",
            "consumer_generation": step["held_by"]["consumer_generation"],
            "allocations": {},
        }
        body[step["held_by"]["consumer_uuid"]] = holder
    return sender.send("POST", "/allocations", body)
