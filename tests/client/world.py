"""Others who use the service: a second writer, and a recorder of requests."""

from collections.abc import Callable
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


class Recorder:
    """An adapter that notes requests, and lets somebody else act before one of them.

    URLs that start with ``hides`` are not found, as on a service that lacks them.
    """

    def __init__(self, adapter: adapter.Adapter) -> None:
        self.adapter = adapter
        self.requests: list[tuple[str, str]] = []
        self.statuses: list[int] = []
        self.hides: str | None = None
        self.interruptions: list[list[Any]] = []

    def before(self, method: str, part: str, act: Callable[[], object], times: int = 1) -> None:
        """Call ``act`` before the next request of this method whose URL holds ``part``."""
        self.interruptions.append([method, part, act, times])

    def writes(self) -> list[tuple[str, str]]:
        """Return method and URL of the requests that were no reads."""
        return [(method, url) for method, url in self.requests if method != "get"]

    def clear(self) -> None:
        """Forget the requests noted; interruptions stay."""
        self.requests.clear()
        self.statuses.clear()

    def _send(self, method: str, url: str, **arguments: Any) -> Response:
        for interruption in self.interruptions:
            if interruption[3] and interruption[0] == method and interruption[1] in url:
                interruption[3] -= 1
                interruption[2]()
        self.requests.append((method, url))
        if self.hides and url.startswith(self.hides):
            url = "/not/there"
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
