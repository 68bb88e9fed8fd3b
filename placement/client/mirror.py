"""A mirror of all trees of a service, kept up to date by reading only changes (specification 07 section 10).

The service must have ``[insight]/enabled``. ::

    mirror = Mirror(adapter)
    while True:
        try:
            update = mirror.update(wait_s=20)
        except MirrorFailed as error:
            print(error)
            time.sleep(1)
            continue
        for root in update.roots:
            show(mirror.trees.get(root))
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from placement.client import exceptions as exc
from placement.client.api import PlacementAPI, parts, problem_of, read_document

TOO_OLD = "token_too_old"

TREES_AT_ONCE = 50
"""The number of changed trees per request: their uuids fit into any server's longest line."""

PAGE_SIZE = 500
PAUSE_S = 1.0
"""The pause between two questions if the service answers at once because enough others wait."""

Tree = Mapping[str, Any]


class MirrorFailed(exc.PlacementClientError):
    """The update did not complete. The mirror is unchanged: update it again."""

    summary = "Trees could not be followed"


class MirrorUpdate(NamedTuple):
    """The changes of one update.

    ``roots``: uuids of the roots of the trees that may have changed; the mirror no longer has the deleted
    ones. ``whole``: everything was read again. ``complete``: no further changes are known.
    """

    roots: set[str]
    whole: bool = False
    complete: bool = True


class Mirror:
    """All trees of a service behind a keystoneauth1 adapter, or behind an object that acts like one.

    ``trees``: each tree as ``GET /-/trees`` shows it, by the uuid of its root.

    :param allocations: keep allocations too.
    :param wait: a function that sleeps for a number of seconds.
    """

    def __init__(
        self,
        adapter: Any,
        *,
        allocations: bool = True,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self.trees: dict[str, Tree] = {}
        self._api = PlacementAPI(adapter, unanswered=MirrorFailed)
        self._query = [("allocations", "true")] if allocations else []
        self._wait = wait
        self._token: str | None = None
        # The time of the last whole read, on the monotonic clock.
        self._read_s = -math.inf

    def update(self, wait_s: int = 20, context: Any = None) -> MirrorUpdate:
        """Read the changes since the last update; the first update reads everything.

        :param wait_s: how long to wait for a change if there is none yet, at most 60.
        :raises MirrorFailed:
        """
        if self._token is None:
            return self._read_everything(wait_s, context)
        asked_s = time.monotonic()
        query = urlencode({"since": self._token, "wait_s": wait_s})
        response = self._api.send("get", f"/-/changes?{query}", context)
        if response.status_code == 410 and problem_of(response).reason == TOO_OLD:
            return self._read_everything(wait_s, context)
        answer = _read_document(response, "trees", "next", "complete")
        roots = {each["root"] for each in answer["trees"]}
        existing = {each["root"] for each in answer["trees"] if not each["gone"]}
        fresh: dict[str, Tree] = {}
        for some in parts(existing, TREES_AT_ONCE):
            page = self._read_page([("uuid", root) for root in some], context)
            # If a root has moved below another root, the tree of that root shows it.
            fresh |= {tree["root"]: tree for tree in page["trees"] if tree["root"] in existing}
        for root in roots - fresh.keys():
            self.trees.pop(root, None)
        self.trees |= fresh
        # The token is stored last, so that the next update names the trees again whose reading failed.
        self._token = answer["next"]
        left_s = wait_s - (time.monotonic() - asked_s)
        if not roots and left_s > 0:
            self._wait(min(left_s, PAUSE_S))
        return MirrorUpdate(roots, complete=answer["complete"])

    def _read_everything(self, wait_s: float, context: Any) -> MirrorUpdate:
        """Read all trees, and the token from which the next update continues."""
        # During a coexistence every answer can say that the log was cut. A whole read each time would be too
        # expensive, so whole reads are spaced.
        pause_s = self._read_s + wait_s - time.monotonic()
        if pause_s > 0:
            self._wait(pause_s)
        # The token is read before the trees, so that the next update names what changes during the reading.
        token = _read_document(self._api.send("get", "/-/changes", context), "next")["next"]
        trees: dict[str, Tree] = {}
        after: str | None = None
        while True:
            asked = {"limit": str(PAGE_SIZE)} | ({"after": after} if after else {})
            page = self._read_page(list(asked.items()), context)
            trees |= {tree["root"]: tree for tree in page["trees"]}
            after = page["next"]
            if after is None:
                break
        roots = self.trees.keys() | trees.keys()
        self.trees, self._token, self._read_s = trees, token, time.monotonic()
        return MirrorUpdate(set(roots), whole=True)

    def _read_page(self, asked: Sequence[tuple[str, str]], context: Any) -> dict[str, Any]:
        query = urlencode([*asked, *self._query])
        return _read_document(self._api.send("get", f"/-/trees?{query}", context), "trees", "next")


def _read_document(response: Any, *members: str) -> dict[str, Any]:
    """Return the document of an answer, or raise what it says."""
    if response.status_code != 200:
        raise problem_of(response).as_failure(MirrorFailed)
    return read_document(response, MirrorFailed, *members)
