"""Clients of a campaign that let the service choose: gangs, groups, holds and their confirmation."""

from dataclasses import dataclass, field
from typing import Any

from tests.support.book import Violation
from tests.support.client import Answer
from tests.support.load import Actor
from tests.support.processes import PATIENCE, wait_until

LONG_S, SHORT_S = 3600, 1
"""Holds that outlast a campaign, and holds that end in it."""

ENDS_S = 30.0 * PATIENCE
LIVING = 4
"""Gangs that a client has at once."""

Held = dict[str, tuple[int | None, Any]]
"""Generation and amounts by provider, by consumer; None and nothing where there is none."""


@dataclass
class Gang:
    """Consumers that were claimed together.

    ``held``: what they got. ``confirmed``: None while that is unknown.
    """

    consumers: list[str]
    hold_s: int | None
    held: Held = field(default_factory=dict)
    confirmed: bool | None = False

    @property
    def may_be_over(self) -> bool:
        """It was not known to be confirmed before its hold was over."""
        return self.hold_s == SHORT_S and not self.confirmed

    def may_be(self, found: Held) -> bool:
        """Say whether its consumers may hold this at one moment."""
        kept = {uuid: (generation + 1, got) for uuid, (generation, got) in self.held.items() if generation}
        states = [kept] if self.confirmed else [self.held] if self.confirmed is False else [self.held, kept]
        if self.may_be_over:
            # One after the other may be removed.
            nothing = None, {}
            return any(all(found[uuid] in (nothing, was) for uuid, was in state.items()) for state in states)
        return found in states


class Ganger(Actor):
    """Claims gangs, some of them apart and some held, confirms holds or lets them end, and releases.

    ``unknown``: gangs whose claim was not answered and that were not seen yet. ``ended``: consumers that
    have given everything back.

    :param among: the aggregate of the hosts that the gangs go to.
    """

    def __init__(self, *given: Any, among: str) -> None:
        super().__init__(*given)
        self.query = f"resources=VCPU:2&member_of={among}"
        self.group = self.name.replace(" ", "-")
        self.living: list[Gang] = []
        self.unknown: list[Gang] = []
        self.ended: set[str] = set()

    def act(self) -> None:
        if len(self.living) < LIVING and self.random.random() < 0.6:
            self.claim()
        elif self.living:
            gang = self.random.choice(self.living)
            self.compare(gang)
            if gang.hold_s and not gang.confirmed and self.random.random() < 0.6:
                self.confirm(gang)
            else:
                self.release(gang)
        if self.unknown:
            self.look_for(self.random.choice(self.unknown))
        answer = self.caller.send("GET", f"/-/groups/{self.group}")
        if answer.status == 200 and not answer.json["kept"]:
            raise Violation(f"the rule of a group is broken: {answer.text}")

    def claim(self) -> None:
        """Claim for two or three new consumers: all are stored, or none is."""
        consumers = [self.new_uuid() for _ in range(self.random.randint(2, 3))]
        gang = Gang(consumers, self.random.choice((None, LONG_S, SHORT_S)))
        groups = [self.group] if self.random.random() < 0.3 else []
        rules = {name: {"rule": "apart", "at_most": 2} for name in groups}
        body = {"claims": [self._asked(uuid, groups) for uuid in consumers], "groups": rules}
        answer = self.caller.send(
            "POST", "/-/claims", body | ({"hold_s": gang.hold_s} if gang.hold_s else {})
        )
        if answer.status == 200:
            gang.held = {
                told["consumer_uuid"]: (told["consumer_generation"], _amounts(told))
                for told in answer.json["claims"]
            }
            self.living.append(gang)
            self.book.count("gangs granted")
            self.compare(gang)
        elif answer.lost:
            self.unknown.append(gang)
        elif answer.code != "placement.no_candidate":
            raise Violation(f"a gang was answered {answer}")
        else:
            self.book.count("gangs refused")
            self.ended.update(consumers)

    def _asked(self, uuid: str, groups: list[str]) -> dict[str, Any]:
        owner = {"project_id": "red", "user_id": "ann", "consumer_type": "INSTANCE"}
        asked = {"consumer_uuid": uuid, "consumer_generation": None, "query": self.query}
        return {**asked, **owner, "groups": groups}

    def look_for(self, gang: Gang) -> None:
        """Read a gang whose claim was not answered; it may still happen.

        :raises Violation: a part of it is there.
        """
        found = self.read(gang)
        there = [uuid for uuid, (generation, _) in found.items() if generation]
        if len(there) == len(found):
            gang.held = found
            self.unknown.remove(gang)
            self.living.append(gang)
            self.book.count("settled: had happened")
        elif there and not gang.may_be_over and not self._is_there(gang):
            raise Violation(f"a gang is half there: {found}")

    def _is_there(self, gang: Gang) -> bool:
        """Say whether all is there that may have come between two reads."""
        return all(generation for generation, _ in self.read(gang).values())

    def compare(self, gang: Gang) -> None:
        """Compare what is there with what is known.

        :raises Violation: it can be neither.
        """
        # What is not known may happen between two reads.
        found = self.read(gang)
        if not gang.may_be(found) and not gang.may_be(again := self.read(gang)):
            raise Violation(f"{gang} is {found}, and then {again}")

    def confirm(self, gang: Gang) -> None:
        """End the holds of a gang: all of them, or none."""
        consumers = [
            {"consumer_uuid": uuid, "consumer_generation": generation}
            for uuid, (generation, _) in gang.held.items()
        ]
        answer = self.caller.send("POST", "/-/claims/confirm", {"consumers": consumers})
        if answer.status == 200 or self._has_happened(gang, answer):
            gang.confirmed = True
            self.book.count("gangs confirmed")
        elif answer.lost:
            gang.confirmed = None
        elif answer.code != "placement.hold_expired" or gang.hold_s == LONG_S:
            raise Violation(f"a confirmation of {gang} was answered {answer}")
        else:
            gang.confirmed = False
            self.book.count("gangs confirmed too late")
        self.compare(gang)

    def _has_happened(self, gang: Gang, answer: Answer) -> bool:
        return gang.confirmed is None and answer.code == "placement.concurrent_update"

    def release(self, gang: Gang) -> None:
        """Give back what a gang holds, if its hold is not over; repeat what was not answered."""
        for uuid in gang.consumers:
            answer, tries = self.caller.send("DELETE", f"/allocations/{uuid}"), 1
            while answer.lost:
                answer, tries = self.caller.send("DELETE", f"/allocations/{uuid}"), tries + 1
            is_gone = answer.status == 404 and (tries > 1 or gang.may_be_over)
            if answer.status != 204 and not is_gone:
                raise Violation(f"a release of {gang} was answered {answer}")
        self.living.remove(gang)
        self.ended.update(gang.consumers)

    def read(self, gang: Gang) -> Held:
        """Return what the consumers of a gang hold."""
        bodies = {uuid: self.caller.sure(f"/allocations/{uuid}") for uuid in gang.consumers}
        return {uuid: (body.get("consumer_generation"), _amounts(body)) for uuid, body in bodies.items()}

    def settle(self) -> None:
        for gang in [*self.unknown]:
            self.look_for(gang)
        wait_until("no hold that is over is there", self._has_no_hold_that_is_over, ENDS_S)
        for gang in self.living:
            self.compare(gang)

    def _has_no_hold_that_is_over(self) -> bool:
        """Say whether all short holds have ended or been confirmed; whoever looks for room removes them."""
        self.caller.sure(f"/allocation_candidates?{self.query}")
        return all(
            self._has_ended(gang) for gang in (*self.living, *self.unknown) if gang.may_be_over
        )

    def _has_ended(self, gang: Gang) -> bool:
        generations = {generation for generation, _ in self.read(gang).values()}
        return generations == {None} or (gang.confirmed is None and generations == {2})


def _amounts(body: Any) -> dict[str, Any]:
    """Return the amounts by provider that a body shows."""
    return {uuid: held["resources"] for uuid, held in body["allocations"].items()}
