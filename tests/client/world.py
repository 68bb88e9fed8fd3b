"""Others who use the service: a second writer, and a recorder of requests."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keystoneauth1 import adapter
from requests import Response

from tests.support import world
from tests.support.client import Answer


class World(world.World):
    """The second writer, through an adapter."""

    def __init__(self, adapter: adapter.Adapter) -> None:
        super().__init__(self, "1.30")
        self.adapter = adapter

    def send(self, method: str, path: str, body: Any = None, version: str = "1.30") -> Answer:
        """Send a request through the adapter."""
        arguments = {} if body is None else {"json": body}
        response = getattr(self.adapter, method.lower())(path, microversion=version, **arguments)
        return Answer(response.status_code, response.text, response.headers)

    def node(self, **totals: int) -> tuple[str, str]:
        """Make a root with these totals by class; return its name and UUID."""
        root = self.host(**totals)
        return f"provider-{root}", root

    def below(self, root: str) -> dict[str, str]:
        """Return who is in the tree below the root: name to UUID."""
        shown = self.get(f"/resource_providers?in_tree={root}")["resource_providers"]
        return {one["name"]: one["uuid"] for one in shown if one["uuid"] != root}


EACH = math.inf
"""Before each such request."""


@dataclass
class Interruption:
    """What somebody else does before requests of a method whose URL holds ``part``."""

    method: str
    part: str
    act: Callable[[], object]
    times: float
    done: int = 0


class Recorder:
    """An adapter that notes requests, and lets somebody else act before one of them.

    URLs that start with ``hides`` are not found, as on a service that lacks them; the header ``drops`` is not
    passed on, as to a service that does not know it.
    """

    def __init__(self, adapter: adapter.Adapter) -> None:
        self.adapter = adapter
        self.requests: list[tuple[str, str]] = []
        self.statuses: list[int] = []
        self.hides: str | None = None
        self.drops: str | None = None
        self.interruptions: list[Interruption] = []

    def before(self, method: str, part: str, act: Callable[[], object], times: float = 1) -> None:
        """Call ``act`` before the next requests of this method whose URL holds ``part``.

        :param times: how many of them there will be; ``EACH`` for one or more.
        """
        self.interruptions.append(Interruption(method, part, act, times))

    def require_interruptions(self) -> None:
        """Fail if something that was to happen before a request has not happened."""
        for each in self.interruptions:
            wanted = each.times if each.times != EACH else max(each.done, 1)
            assert each.done == wanted, (each.method, each.part, each.done)

    def writes(self) -> list[tuple[str, str]]:
        """Return method and URL of the requests that were no reads."""
        return [(method, url) for method, url in self.requests if method != "get"]

    def clear(self) -> None:
        """Forget the requests noted; interruptions stay."""
        self.requests.clear()
        self.statuses.clear()

    def _send(self, method: str, url: str, **arguments: Any) -> Response:
        for each in self.interruptions:
            if each.done < each.times and each.method == method and each.part in url:
                each.done += 1
                each.act()
        self.requests.append((method, url))
        if self.hides and url.startswith(self.hides):
            url = "/not/there"
        if self.drops and "headers" in arguments:
            arguments["headers"] = {
                k: v for k, v in arguments["headers"].items() if k != self.drops
            }
        response = getattr(self.adapter, method)(url, **arguments)
        self.statuses.append(response.status_code)
        return response

    def get(self, url: str, **arguments: Any) -> Any:
        return self._send("get", url, **arguments)

    def put(self, url: str, **arguments: Any) -> Response:
        return self._send("put", url, **arguments)

    def post(self, url: str, **arguments: Any) -> Response:
        return self._send("post", url, **arguments)

    def delete(self, url: str, **arguments: Any) -> Response:
        return self._send("delete", url, **arguments)
