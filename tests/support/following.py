"""Mirrors of the trees that live on ``/-/changes`` alone, held against a whole read (07 section 10)."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from placement.client.mirror import Mirror, MirrorFailed, MirrorUpdate
from tests.support.book import Violation
from tests.support.client import Answer, Sender
from tests.support.load import Actor

PAGE = "/-/trees?allocations=true&limit=500"


@dataclass(frozen=True)
class AdapterResponse:
    """An answer as the client's adapters return it."""

    answer: Answer

    @property
    def status_code(self) -> int:
        return self.answer.status

    @property
    def text(self) -> str:
        return self.answer.text

    @property
    def headers(self) -> Mapping[str, str]:
        return self.answer.headers

    def json(self) -> Any:
        return json.loads(self.answer.text)


class SenderAdapter:
    """What sends the requests of tests, as an adapter of the client."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self, url: str, **_given: Any) -> AdapterResponse:
        return AdapterResponse(self._sender.send("GET", url))


def mirror_of(sender: Sender) -> Mirror:
    """Return a mirror, nothing of it read yet, that does not wait between its questions."""
    return Mirror(SenderAdapter(sender), wait=lambda _seconds: None)


def read_whole(sender: Sender) -> dict[str, Any]:
    """Return all trees by the uuid of their root, as they are now."""
    trees: dict[str, Any] = {}
    after: str | None = ""
    while after is not None:
        answer = sender.send("GET", PAGE + (f"&after={after}" if after else ""))
        if answer.lost:
            continue
        assert answer.status == 200, answer
        trees |= {tree["root"]: tree for tree in answer.json["trees"]}
        after = answer.json["next"]
    return trees


def update(mirror: Mirror) -> MirrorUpdate:
    """Bring a mirror up to date, without waiting, and return what that took, together."""
    updates = [mirror.update(0)]
    while not updates[-1].complete:
        updates.append(mirror.update(0))
    roots = set().union(*(each.roots for each in updates))
    return MirrorUpdate(roots, any(each.whole for each in updates))


def require_equal(mirror: Mirror, sender: Sender) -> None:
    """Fail unless a mirror that is up to date shows what a whole read does.

    :raises Violation: it has missed a change
    """
    _compare(mirror, read_whole(sender))


def _compare(mirror: Mirror, now: Mapping[str, Any]) -> None:
    roots = mirror.trees.keys() | now.keys()
    if wrong := sorted(root for root in roots if mirror.trees.get(root) != now.get(root)):
        raise Violation(f"a mirror has missed a change of {wrong}")


class Follower(Actor):
    """Lives on the changes alone, and at the end shows what is there."""

    WAIT_S = 1
    PAUSE_S = 0.05

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        # Without its pauses: the more it asks, the more it may miss.
        self.mirror = mirror_of(self.caller)
        self.whole = self.parts = 0

    def act(self) -> None:
        try:
            update = self.mirror.update(self.WAIT_S)
        except MirrorFailed:
            # What serves it is down; the next one makes up for it.
            time.sleep(self.PAUSE_S)
            return
        self.whole += update.whole
        self.parts += bool(update.roots) and not update.whole
        if update.whole:
            time.sleep(self.PAUSE_S)

    def settle(self) -> None:
        """Go on until nothing has changed any more, and compare."""
        while True:
            # Before the question: holds end meanwhile, and if it names nothing, nothing has changed since.
            now = read_whole(self.caller)
            try:
                if not self.mirror.update(0).roots:
                    break
            except MirrorFailed:
                continue
        _compare(self.mirror, now)
