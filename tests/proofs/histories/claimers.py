"""Clients that let the service decide too: gangs, a group, holds, confirmations (specification 09).

A granted gang is one operation on all its consumers; a refused one says that there was no assignment at all.
"""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from tests.proofs.histories.clients import CLASSES, HOLD_S, Caller, reason
from tests.support import bodies, registers, whole
from tests.support.client import NOTHING, Answer
from tests.support.registers import Hold
from tests.support.whole import Ask, Effects, Told

CLOCKS_S = 0.02
"""By how much the clock of the database may seem to be off."""


Options = Sequence[Ask]
"""What one consumer asks for, that which it likes best first."""


class Claimer(Caller):
    """A client that claims in both ways. ``_holds``: its own, which may be over; ``_fresh``: the last."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._holds: list[str] = []
        self._fresh: list[str] = []

    def _choices(self) -> Sequence[tuple[Callable[[], None], int]]:
        return (
            *super()._choices(),
            (self.claim, 14),
            (self.carry_out_a_plan, 2),
            (self.confirm, 3),
            (self.confirm_one, 2),
            (self.look_at_users, 5),
            (self.look_at_holds, 2),
            (self.look_at_group, 1),
        )

    def look(self) -> None:
        """Read everything: what nobody has seen until now is seen."""
        for name in self._history.providers:
            self.look_at_provider(name)
            self.look_at_users(name)
        for name in self._history.consumers:
            self.look_at_consumer(name)
        self.look_at_holds()
        self.look_at_group()

    # Claims

    def claim(self) -> None:
        """Claim for one to three consumers; at times held, at times apart from one another."""
        chance = self._chance
        names = chance.sample(self._history.consumers, chance.choice((1, 1, 2, 2, 3)))
        sent = {name: self._generation(name) for name in names}
        new = dict.fromkeys(name for name in names if sent[name] is None)
        is_held, grouped = bool(new) and chance.random() < 0.6, chance.random() < 0.25
        if is_held:
            # Only new consumers can be held.
            sent = new
        asked = [self._options(name, grouped) for name in sent]
        body = {
            "claims": [self._claim(options, sent[options[0].consumer]) for options in asked],
            "strategy": chance.choice(("any", "any", "spread", "pack")),
            **({"hold_s": HOLD_S} if is_held else {}),
            **({"groups": {self._history.group: {"rule": "apart"}}} if grouped else {}),
        }

        def read(answer: Answer) -> Effects | Told:
            if answer.status == 200:
                return self._granted(answer, asked, sent)
            if answer.status == NOTHING or reason(answer) == "outcome_unknown":
                return self._unknown(asked, sent, is_held)
            self._count_reason(answer)
            if answer.code == "placement.no_candidate" and answer.json["errors"][0]["exact"]:
                # Of several queries none fits, in whichever way they are taken together.
                ways = itertools.product(*asked)
                return Told([{}], [whole.no_place(way, self._called) for way in ways])
            return self._refused_consumer(answer, sent)

        self._fresh = []
        self._do(f"claim of {len(asked)}", "POST", "/-/claims", body, read)
        if self._fresh and chance.random() < 0.5:
            # Others overwrite it soon.
            self.confirm(len(self._fresh))

    def _options(self, consumer: str, grouped: bool) -> Options:
        """Return what a consumer asks for: at times it likes most of a provider best, and less will do."""
        will_do = Ask(consumer, self._amounts(), grouped)
        if self._chance.random() < 0.7:
            return [will_do]
        return [Ask(consumer, {CLASSES[0]: self._chance.randint(4, 12)}, grouped), will_do]

    def _amounts(self) -> dict[str, int]:
        return {
            name: self._chance.randint(1, 3) for name in self._chance.choice((CLASSES, CLASSES[:1]))
        }

    def _claim(self, options: Options, sent: int | None) -> dict[str, Any]:
        queries = [
            "resources=" + ",".join(f"{name}:{n}" for name, n in ask.amounts.items())
            for ask in options
        ]
        return {
            "consumer_uuid": options[0].consumer,
            "consumer_generation": sent,
            "project_id": "red",
            "user_id": "ann",
            "consumer_type": "INSTANCE",
            **({"queries": queries} if len(queries) > 1 else {"query": queries[0]}),
            "groups": [self._history.group] if options[0].grouped else [],
        }

    def _granted(self, answer: Answer, asked: Sequence[Options], sent: Mapping[str, Any]) -> Told:
        claims = answer.json["claims"]
        assert [each["consumer_uuid"] for each in claims] == [
            options[0].consumer for options in asked
        ], claims
        placed = []
        for options, each in zip(asked, claims, strict=True):
            assert ("chosen" in each) == (len(options) > 1), each
            ask = options[each.get("chosen", 0)]
            held = {name: has["resources"] for name, has in each["allocations"].items()}
            self._seen[ask.consumer] = (each["consumer_generation"], registers.triples(held))
            assert list(held.values()) == [ask.amounts], (ask, held)
            assert each["consumer_generation"] == (sent[ask.consumer] or 0) + 1, each
            placed += [(ask, name) for name in held]
        hold = self._ends(answer.json["hold"]["expires_at"]) if "hold" in answer.json else None
        better = self._passed_over(answer, asked)
        return self._placed([placed], sent, hold, [whole.no_place([ask]) for ask in better])

    def _passed_over(self, answer: Answer, asked: Sequence[Options]) -> Options:
        """Return what had no place anywhere in the state that was committed (specification 09, 3.1.1)."""
        if len(asked) > 1 or not answer.json.get("exact"):
            return []
        passed_over = asked[0][: answer.json["claims"][0]["chosen"]]
        self._history.counts["refused: an earlier query"] += bool(passed_over)
        return passed_over

    def _unknown(self, asked: Sequence[Options], sent: Mapping[str, Any], is_held: bool) -> Told:
        """It may be anywhere, and is held for as long as it was asked, or longer if it came late."""
        anywhere = [itertools.product(options, self._history.providers) for options in asked]
        hold = (self._called + HOLD_S - CLOCKS_S, float("inf")) if is_held else None
        return self._placed(list(itertools.product(*anywhere)), sent, hold)

    def _placed(
        self,
        ways: Sequence[Sequence[tuple[Ask, str]]],
        sent: Mapping[str, Any],
        hold: Hold | None,
        rules: Sequence[whole.Rule] = (),
    ) -> Told:
        """Return that the claims were granted in one of these ways, each to hold what it asks somewhere."""
        asked = [ask for ask, _ in ways[0]]
        if hold is not None:
            self._fresh = [ask.consumer for ask in asked]
            self._holds = [name for name in self._holds if name not in self._fresh] + self._fresh
            for ask in asked:
                self._history.note_end(ask.consumer, hold)
        grouped = any(ask.grouped for ask in asked)
        # What others claim at the same moment may be written with it, as one step (specification 09, 2.2.6).
        shares = len(asked) == 1 and not (grouped or hold or sent[asked[0].consumer])
        step = registers.stepped(0, 1) if shares else registers.stepped(1)
        effects = [
            {
                ask.consumer: registers.claimed(
                    sent[ask.consumer], ask.on(place), hold, ask.grouped
                )
                for ask, place in way
            }
            | {place: step for _, place in way}
            for way in ways
        ]
        return Told(effects, [*rules, *([whole.keeps_apart] if grouped else [])])

    def _ends(self, shown: str) -> Hold:
        moment = datetime.fromisoformat(shown).timestamp() - self._history.epoch
        return moment - CLOCKS_S, moment + CLOCKS_S

    # Plans

    def carry_out_a_plan(self) -> None:
        """Ask how a provider becomes empty, and take the steps beside everybody else's writes."""
        steps: list[dict[str, Any]] = []

        def read(answer: Answer) -> Effects:
            steps.extend(answer.json["steps"] if answer.status == 200 else [])
            return {}

        asked = {"goal": {"empty": {"trees": [self._provider()]}}}
        self._do("plan", "POST", "/-/plans", asked, read)
        for step in steps:
            name, held = step["consumer_uuid"], _amounts(step["allocations"])
            entries = {name: (step["consumer_generation"], held)}
            body = {name: bodies.entry(held, step["consumer_generation"])}
            wrote = partial(self._wrote, entries=entries)
            self._do("step of a plan", "POST", "/allocations", body, wrote)

    # Confirmation

    def confirm(self, count: int = 1) -> None:
        """Confirm the holds of so many consumers, by the generation that was seen."""
        names = self._to_confirm(count)
        sent = {name: (self._seen.get(name) or (1,))[0] for name in names}
        body = {
            "consumers": [
                {"consumer_uuid": name, "consumer_generation": generation}
                for name, generation in sent.items()
            ]
        }
        self._confirm("confirm", "/-/claims/confirm", body, sent)

    def confirm_one(self) -> None:
        """Confirm the hold of a consumer, whatever its generation is."""
        name = self._to_confirm(1)[0]
        self._confirm("confirm one", f"/-/claims/{name}/confirm", None, {name: registers.ANY})

    def _to_confirm(self, count: int) -> list[str]:
        """Return the last consumers that it held itself; at times, or if there are none, any one."""
        if count > 1 or (self._holds and self._chance.random() < 0.8):
            return [self._holds.pop() for _ in range(count)]
        return [self._consumer()]

    def _confirm(self, what: str, path: str, body: Any, sent: Mapping[str, Any]) -> None:
        def read(answer: Answer) -> Effects | Told:
            if answer.status == 200 or answer.lost:
                after = dict.fromkeys(sent)
                if answer.status == 200:
                    after |= {
                        each["consumer_uuid"]: each["consumer_generation"]
                        for each in answer.json["consumers"]
                    }
                for name in sent:
                    self._look_again(name)
                effects = {name: registers.confirmed(sent[name], after[name]) for name in sent}
                return Told([effects], [whole.in_time(sent, self._called)])
            self._count_reason(answer)
            for name in sent:
                self._look_again(name)
            other = reason(answer) == "consumer_generation"
            return Told([{}], [whole.not_confirmable(sent, time.monotonic(), generation=other)])

        self._do(what, "POST", path, body, read)

    # Reading

    def look_at_users(self, name: str | None = None) -> None:
        """Read at one moment what all consumers have of a provider."""
        name = name or self._provider()

        def read(answer: Answer) -> Effects:
            if answer.status != 200:
                return {name: registers.absent()} if answer.status == 404 else {}
            shown = answer.json["allocations"]
            effects = {name: registers.seen_at(answer.json["resource_provider_generation"])}
            for consumer in self._history.consumers:
                each = shown.get(consumer, {"consumer_generation": None, "resources": {}})
                effects[consumer] = registers.shown_on(
                    name, each["consumer_generation"], each["resources"]
                )
            return effects

        self._do("GET users", "GET", f"/resource_providers/{name}/allocations", None, read)

    def look_at_holds(self) -> None:
        """Read who is held."""

        def read(answer: Answer) -> Effects:
            return self._listed(answer, "holds", registers.shown_held)

        self._do("GET holds", "GET", "/-/holds", None, read)

    def look_at_group(self) -> None:
        """Read who is in the group."""

        def read(answer: Answer) -> Effects:
            return self._listed(answer, "members", registers.shown_grouped)

        self._do("GET group", "GET", f"/-/groups/{self._history.group}", None, read)

    def _listed(self, answer: Answer, members: str, effect: Callable[[int | None], Any]) -> Effects:
        """Return what a list says of every consumer; 404 is a list of nobody."""
        shown = answer.json[members] if answer.status == 200 else []
        generations = {each["consumer_uuid"]: each["consumer_generation"] for each in shown}
        return {name: effect(generations.get(name)) for name in self._history.consumers}


def _amounts(allocations: Mapping[str, Any]) -> dict[str, Any]:
    return {provider: each["resources"] for provider, each in allocations.items()}
