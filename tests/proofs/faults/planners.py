"""A client of a campaign that asks for plans, some of them held, and carries them out step by step."""

from collections.abc import Sequence
from typing import Any

from tests.support.book import Violation
from tests.support.client import Answer
from tests.support.load import Actor

SHELF = "CUSTOM_SHELF"
"""A class that nobody else asks for: what this client plans for goes to its own hosts alone."""

HOLD_S = 3600
"""Holds that outlast a campaign."""

State = tuple[int, dict[str, Any]]
"""The generation of a consumer, and its amounts by provider."""


class Planner(Actor):
    """Empties one of its hosts after the other.

    Nobody else writes to its servers. So each step is taken once, whatever is lost meanwhile, and a held plan
    is never refused.

    :param hosts: with room for ``SHELF``.
    :param servers: consumers that have some of it.
    """

    def __init__(self, *given: Any, hosts: Sequence[str], servers: Sequence[str]) -> None:
        super().__init__(*given)
        self.hosts, self.servers = hosts, servers
        self._has_lost_a_plan = False

    def act(self) -> None:
        source = self.random.choice([*self.read(self.servers[0])[1]])
        is_held = self.random.random() < 0.5
        body = {
            "goal": {"empty": {"trees": [source]}},
            "may": {"move": {"consumer_types": ["INSTANCE"]}},
        }
        answer = self.caller.send(
            "POST", "/-/plans", body | ({"hold_s": HOLD_S} if is_held else {})
        )
        if answer.lost or (self._has_lost_a_plan and answer.status == 409):
            # What it holds is in the way of the next plan.
            self._has_lost_a_plan = True
            self._end_unknown_holds()
            return
        if answer.status != 200:
            raise Violation(f"a plan was answered {answer}")
        for step in answer.json["steps"]:
            self._take(step)
        self.book.count("plans carried out")
        if source in {host for uuid in self.servers for host in self.read(uuid)[1]}:
            raise Violation(f"{source} is not empty after {answer.text}")

    def _take(self, step: dict[str, Any]) -> None:
        """Carry out a step: send it until it is known that it took place.

        :raises Violation: the consumer is neither as it was nor as it shall be, or the step is refused.
        """
        uuid = step["consumer_uuid"]
        before = step["consumer_generation"], _amounts(step["from"])
        after = before[0] + 1, _amounts(step["allocations"])
        while (now := self.read(uuid)) != after:
            if now != before:
                raise Violation(f"{uuid} is {now}, and not {before} or {after}")
            answer = self._send(step)
            # What was not answered may take place between two requests.
            if answer.status != 204 and not answer.lost and self.read(uuid) != after:
                raise Violation(f"{step} was answered {answer}")

    def _send(self, step: dict[str, Any]) -> Answer:
        owner = {"project_id": step["project_id"], "user_id": step["user_id"]}
        body = {
            step["consumer_uuid"]: {
                **owner,
                "consumer_generation": step["consumer_generation"],
                "allocations": step["allocations"],
            }
        }
        if "held_by" in step:
            body[step["held_by"]["consumer_uuid"]] = {
                **owner,
                "consumer_generation": step["held_by"]["consumer_generation"],
                "allocations": {},
            }
        return self.caller.send("POST", "/allocations", body, "1.37")

    def _end_unknown_holds(self) -> None:
        """Give back what a plan holds that was not answered; it may still come."""
        for hold in self.caller.sure("/-/holds")["holds"]:
            uuid = hold["consumer_uuid"]
            if SHELF in str(self.caller.sure(f"/allocations/{uuid}")["allocations"]):
                self.caller.send("DELETE", f"/allocations/{uuid}")

    def read(self, uuid: str) -> State:
        """Return what a server has."""
        body = self.caller.sure(f"/allocations/{uuid}")
        return body.get("consumer_generation", 0), _amounts(body["allocations"])

    def settle(self) -> None:
        for uuid in self.servers:
            generation, held = self.read(uuid)
            if [*held.values()] != [{SHELF: 2}]:
                raise Violation(f"{uuid} is {held} at generation {generation}")


def _amounts(allocations: Any) -> dict[str, Any]:
    """Return the amounts by provider that a step or a body shows."""
    return {uuid: held["resources"] for uuid, held in allocations.items()}
