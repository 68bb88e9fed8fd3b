"""Claims for which the service chooses the places: gangs, groups and holds (specification 09).

The service must have ``[insight]/enabled``. ::

    claims = ClaimsClient(adapter)
    placed = claims.claim(
        [NewClaim(uuid, "resources=VCPU:2", project, user, groups=["web"]) for uuid in servers],
        groups={"web": {"rule": "apart"}},
        hold_s=300,
    )
    claims.confirm(placed.generations)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from placement.client import exceptions as exc
from placement.client.api import CONCURRENT_UPDATE, PlacementAPI, problem_of, read_document

ATTEMPTS = 3
"""How often a claim is sent if the service is not available, and says that nothing was written."""

PAUSE_S = 1.0
"""The pause between two attempts if the answer does not name one."""

PAGE_SIZE = 1000
"""The number of holds per request."""

OUTCOME_UNKNOWN = "outcome_unknown"
"""The reason of the only 503 of the service after which the claim may have been written."""


class ClaimFailed(exc.PlacementClientError):
    """The request failed: nothing was claimed, confirmed, released or read.

    Without a complete answer (``status`` is None or 200) the outcome is unknown: read the consumers.
    """

    summary = "Claim failed"


class NoCandidate(ClaimFailed):
    """The claims do not fit, and nothing was written.

    ``number``: the claim that could not be placed, counted from 0; ``exact``: it is certain that no
    assignment exists; ``groups``: the groups whose rules excluded trees; ``explanation``: the document of
    ``/-/explain``; ``alternatives``: the documents of its other queries.
    """

    summary = "No place for consumer"

    def __init__(self, error: object = "", **subject: Any) -> None:
        self.number: int = subject.pop("number")
        self.exact: bool = subject.pop("exact")
        self.groups: list[str] = subject.pop("groups")
        self.explanation: dict[str, Any] = subject.pop("explanation")
        self.alternatives: list[dict[str, Any]] = subject.pop("alternatives")
        super().__init__(error, **subject)


class GroupRuleDiffers(ClaimFailed):
    """The rule of an existing group differs from the one given."""

    summary = "Group has another rule"


class HoldExpired(ClaimFailed):
    """The hold of a consumer has expired."""

    summary = "Consumer is not held"


class ConsumerConflict(exc.PlacementAPIConflict):
    """The generation of a consumer differs from the one sent."""

    summary = "Another client changed the consumer"
    hint = "Read the consumer again and repeat the claim."


FAILURES: Mapping[str, type[exc.PlacementClientError]] = {
    "placement.group_rule": GroupRuleDiffers,
    "placement.hold_expired": HoldExpired,
    CONCURRENT_UPDATE: ConsumerConflict,
}
"""The exceptions by code of the error."""


@dataclass(frozen=True)
class NewClaim:
    """One consumer with the request for it.

    :param query: a query string of ``GET /allocation_candidates``, without ``limit``; or several, best first:
        the first that can be granted decides.
    :param consumer_generation: the generation that was read; None for a new consumer.
    :param groups: the groups that the consumer joins.
    """

    consumer_uuid: str
    query: str | Sequence[str]
    project_id: str
    user_id: str
    consumer_type: str = "INSTANCE"
    consumer_generation: int | None = None
    groups: Sequence[str] = field(default=())


@dataclass(frozen=True)
class Placed:
    """The granted claims in the order of the request, and the time until which they are held.

    A claim that named several queries has ``chosen``, the number of its query from 0. ``expires_at`` is
    ISO 8601 in UTC; None if they are not held. ``exact``: it is certain that no earlier queries could be
    granted.
    """

    claims: Sequence[Mapping[str, Any]]
    expires_at: str | None
    exact: bool = True

    @property
    def generations(self) -> dict[str, int]:
        """The consumers with the generations to send next."""
        return {each["consumer_uuid"]: each["consumer_generation"] for each in self.claims}


class ClaimsClient:
    """Claims of a service behind a keystoneauth1 adapter, or behind an object that acts like one.

    :param wait: a function that sleeps for a number of seconds.
    """

    def __init__(self, adapter: Any, wait: Callable[[float], object] = time.sleep) -> None:
        self._api = PlacementAPI(adapter, unanswered=ClaimFailed)
        self._wait = wait

    def claim(
        self,
        claims: Sequence[NewClaim],
        *,
        strategy: str = "any",
        groups: Mapping[str, Mapping[str, Any]] | None = None,
        hold_s: int | None = None,
        context: Any = None,
    ) -> Placed:
        """Let the service choose places for all consumers and claim them, or none.

        :param strategy: ``any``, ``spread`` or ``pack``.
        :param groups: the rule of each group that does not have members yet, by name.
        :param hold_s: the duration of the holds; None claims for good.
        :raises NoCandidate: the claims do not fit
        :raises GroupRuleDiffers: a group has another rule
        :raises ConsumerConflict: a consumer is of another generation
        """
        entries = [vars(each) | {"groups": list(each.groups)} for each in claims]
        for entry in entries:
            if not entry["groups"]:
                del entry["groups"]
            if not isinstance(entry["query"], str):
                entry["queries"] = list(entry.pop("query"))
        body: dict[str, Any] = {"strategy": strategy, "claims": entries}
        if groups:
            body["groups"] = {name: dict(rule) for name, rule in groups.items()}
        if hold_s is not None:
            body["hold_s"] = hold_s
        for _ in range(ATTEMPTS - 1):
            response = self._api.send("post", "/-/claims", context, body)
            if not wrote_nothing(response):
                break
            self._wait(choose_pause(response))
        else:
            response = self._api.send("post", "/-/claims", context, body)
        answer = _read_document(response)
        expires_at = answer.get("hold", {}).get("expires_at")
        return Placed(answer["claims"], expires_at, answer.get("exact", True))

    def confirm(self, generations: Mapping[str, int], context: Any = None) -> dict[str, int]:
        """Turn the holds of all consumers into lasting claims; return the next generations.

        :param generations: the generations that :meth:`claim` returned.
        :raises HoldExpired: one hold has expired; the other holds stay
        :raises ConsumerConflict: a consumer has another generation
        """
        consumers = [
            {"consumer_uuid": uuid, "consumer_generation": generation}
            for uuid, generation in generations.items()
        ]
        body = {"consumers": consumers}
        answer = _read_document(self._api.send("post", "/-/claims/confirm", context, body))
        return Placed(answer["consumers"], None).generations

    def release(self, consumer_uuid: str, context: Any = None) -> bool:
        """Remove what a consumer holds; return False if it held nothing."""
        response = self._api.send("delete", f"/allocations/{quote(consumer_uuid)}", context)
        if response.status_code == 404:
            return False
        _read_document(response)
        return True

    def group(self, name: str, context: Any = None) -> dict[str, Any] | None:
        """Return a group with its members; None if it has no members."""
        # Slashes stay unencoded: some proxies refuse encoded ones.
        response = self._api.send("get", f"/-/groups/{quote(name)}", context)
        return None if response.status_code == 404 else _read_document(response)

    def holds(
        self,
        project_id: str | None = None,
        group: str | None = None,
        context: Any = None,
        page_size: int = PAGE_SIZE,
    ) -> Iterator[dict[str, Any]]:
        """Yield each held consumer with the end of its hold, page by page.

        :param project_id: only its consumers.
        :param group: only its members.
        """
        wanted = {"project_id": project_id, "group": group, "limit": str(page_size)}
        query = {name: value for name, value in wanted.items() if value is not None}
        while True:
            answer = _read_document(self._api.send("get", f"/-/holds?{urlencode(query)}", context))
            yield from answer["holds"]
            if answer["next"] is None:
                return
            query["marker"] = answer["next"]


def wrote_nothing(response: Any) -> bool:
    """Return whether the service itself answered 503, so that the claim can be sent again."""
    reason = problem_of(response).reason if response.status_code == 503 else ""
    return bool(reason) and reason != OUTCOME_UNKNOWN


def choose_pause(response: Any) -> float:
    """Return for how many seconds to wait before a request is sent again."""
    try:
        return float(response.headers["retry-after"])
    except (KeyError, ValueError):
        return PAUSE_S


def _read_document(response: Any) -> dict[str, Any]:
    """Return the document of an answer, or raise what it says."""
    if response.status_code < 300:
        return {} if response.status_code == 204 else read_document(response, ClaimFailed)
    problem = problem_of(response)
    if problem.code == "placement.no_candidate":
        error = response.json()["errors"][0]
        raise problem.as_failure(
            NoCandidate,
            consumer_uuid=error["claim"]["consumer_uuid"],
            number=error["claim"]["number"],
            exact=error["exact"],
            groups=error["groups"],
            explanation=error["explanation"],
            alternatives=error.get("alternatives", []),
        )
    raise problem.as_failure(FAILURES.get(problem.code, ClaimFailed))
