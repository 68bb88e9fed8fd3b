"""Followers that hang or vanish: neither keeps anything from others, and the first miss nothing."""

import http.client
import select
import socket
import threading
import time
from contextlib import ExitStack
from typing import Any

from tests.proofs.year.player import SLOW_S
from tests.support.client import NOTHING, VERSION, Answer, Client, headers
from tests.support.following import Follower, mirror_of
from tests.support.processes import wait_until

MANY = 8
"""More than a worker has threads."""
WAITS_S = 2
"""For a change; placement-api does not see that a client has hung up."""
FREE_S = 10.0


class HangingFollower(Follower):
    """Asks one worker for changes, and reads no answer until it is awake or the round ends.

    ``hangs``: it has asked.
    """

    def __init__(self, port: int, *given: Any) -> None:
        super().__init__(*given)
        self._port, self.hangs, self.awake = port, threading.Event(), threading.Event()
        self.mirror, self.WAIT_S = mirror_of(self), 60

    def send(self, method: str, path: str, body: Any = None, version: str = VERSION) -> Answer:
        """Send a question; the first for changes to the one worker."""
        if self.awake.is_set() or "since=" not in path:
            return self.caller.send(method, path, body, version)
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=SLOW_S)
        try:
            connection.request(method, path, headers=headers())
            self.hangs.set()
            while not self.awake.wait(0.1) and not self.stopping.is_set():
                pass
            response = connection.getresponse()
            return Answer(response.status, response.read().decode(), response.headers)
        except (OSError, http.client.HTTPException) as failure:
            return Answer(NOTHING, repr(failure))
        finally:
            self.awake.set()
            self.hangs.set()
            self.WAIT_S = Follower.WAIT_S
            connection.close()


def vanish(port: int, token: str) -> None:
    """Open many waits of a worker, and hang up when all have an answer that do not wait."""
    path = f"/-/changes?since={token}&wait_s={WAITS_S}"
    lines = [f"GET {path} HTTP/1.1", "host: here", *(f"{name}: {value}" for name, value in headers().items())]
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(MANY)
        ]
        for each in sockets:
            each.sendall("\r\n".join([*lines, "", ""]).encode())
        wait_until(
            "only one of many waits",
            lambda: len(select.select(sockets, [], [], 0)[0]) >= MANY - 1,
        )


def require_wait(port: int) -> None:
    """Fail if a follower of a worker cannot wait, although those that could have vanished."""
    wait_until("a follower waits after others have vanished", lambda: _waits(Client(port)), FREE_S)


def _waits(client: Client) -> bool:
    """Return whether a follower waits for a change, or there is one."""
    token = client.send("GET", "/-/changes").json["next"]
    began = time.monotonic()
    answer = client.send("GET", f"/-/changes?since={token}&wait_s=1")
    client.close()
    return time.monotonic() - began >= 1 or answer.json.get("next") != token
