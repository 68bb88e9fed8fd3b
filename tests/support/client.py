"""One way to ask the service, and what the answers are: each layer of tests sends through this.

``Service`` (tests/support/service.py) has the same ``send`` in process; ``Arena`` (racing.py) and ``Site``
(deployment.py) have it for servers that run.
"""

import http.client
import json
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.support.processes import ENDS_S

VERSION = "1.39"
"""The newest microversion."""
HANGS_S = ENDS_S
NOTHING = 0
"""The status of an answer that never came."""
UNKNOWN = frozenset({NOTHING, 503})
"""Statuses after which a write may have taken place or not."""


def headers(version: str = VERSION, **more: str | None) -> dict[str, str]:
    """Return the headers of an admin with the service role.

    :param more: further headers, or others in the place of these, or None to leave one out; names have
        underscores for dashes.
    """
    given = {
        "x-auth-token": "admin",
        "x-roles": "admin,service",
        "openstack-api-version": f"placement {version}",
        **{name.replace("_", "-").lower(): value for name, value in more.items()},
    }
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Answer:
    """What came back. ``headers`` are found in any spelling."""

    status: int
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def json(self) -> Any:
        """The body as Python values; None if there is no body."""
        return json.loads(self.text) if self.text else None

    @property
    def lost(self) -> bool:
        """It does not say whether a write took place."""
        return self.status in UNKNOWN

    @property
    def is_given_up(self) -> bool:
        """A search took longer than it may: nothing was written, and nothing is wrong."""
        return self.status == 503 and "search_given_up" in self.text

    @property
    def code(self) -> str:
        """The code of the error; empty if there is none."""
        return self.json["errors"][0]["code"] if self.status >= 400 else ""

    @property
    def detail(self) -> str:
        """The message of the error."""
        return self.json["errors"][0]["detail"]


class Sender(Protocol):
    """What sends a request as an admin with the service role."""

    def send(self, method: str, path: str, body: Any = None, version: str = VERSION) -> Answer:
        """Send a request and return the answer."""


class Client:
    """A caller over HTTP. Not for use by two threads at once, unless each request has its own connection.

    :param where: a port of this machine, or a URL, whose path comes before that of each request.
    :param kept: the connection is used again.
    """

    def __init__(self, where: int | str, *, kept: bool = True, timeout_s: float = HANGS_S) -> None:
        url = urllib.parse.urlsplit(
            f"http://127.0.0.1:{where}" if isinstance(where, int) else where
        )
        self._address = url.hostname or "", url.port
        self._prefix = url.path
        self._timeout_s = timeout_s
        self._kept = self._connect() if kept else None

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self._address, timeout=self._timeout_s)

    def send(
        self, method: str, path: str, body: Any = None, version: str = VERSION, **more: str | None
    ) -> Answer:
        """Send a request as an admin with the service role and return the answer.

        :param more: further headers, as of :func:`headers`.
        :raises OSError, http.client.HTTPException: there was no answer.
        """
        sent = headers(version, **more)
        if body is not None:
            sent["content-type"] = "application/json"
            body = json.dumps(body)
        connection = self._kept or self._connect()
        try:
            connection.request(method, self._prefix + path, body, sent)
            response = connection.getresponse()
            return Answer(response.status, response.read().decode(), response.headers)
        finally:
            if connection is not self._kept:
                connection.close()

    def close(self) -> None:
        """Close the connection that is kept."""
        if self._kept is not None:
            self._kept.close()
