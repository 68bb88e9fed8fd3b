"""Requests that only wait for a change do not hold up a stop (specification 07 section 10)."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.operations.deploy.test_servers import Daemons, mod_wsgi_site
from tests.support import deployment
from tests.support.client import Answer, Client
from tests.support.deployment import Site
from tests.support.processes import wait_until

pytestmark = pytest.mark.deploy

WAIT_S = 60
"""The longest wait that a client may ask for."""

Serve = Callable[[Path, dict[str, str]], AbstractContextManager[Site]]


@contextmanager
def apache(folder: Path, environment: dict[str, str]) -> Iterator[Site]:
    """Serve with Apache and mod_wsgi."""
    with deployment.apache(
        folder, environment, mod_wsgi_site(folder, 1), "wsgi", "alias"
    ) as site:
        yield Daemons(site.url, site.master, site.reload)


SERVERS: dict[str, Serve] = {
    "uwsgi": partial(deployment.uwsgi, http=True, processes=1),
    "gunicorn": partial(deployment.gunicorn, http=True, workers=1),
    "apache": apache,
    "placement-api": deployment.builtin,
}


WAITING = {"uwsgi": 4}
"""How many can wait in a process, if not 2: a quarter of its threads."""


class Follower(threading.Thread):
    """Waits for changes on one connection, again and again, until no server is there."""

    def __init__(self, site: Site, token: str) -> None:
        super().__init__()
        self.answers: list[Answer] = []
        self._site, self._token = site, token
        self.start()

    def run(self) -> None:
        """Ask again as soon as there is an answer."""
        client = Client(self._site.url)
        with suppress(OSError, HTTPException):
            while True:
                path = f"/-/changes?since={self._token}&wait_s={WAIT_S}"
                self.answers.append(client.send("GET", path))


def follow(site: Site, waiting: int) -> list[Follower]:
    """Let as many wait as may, and return when they do."""
    token = str(site.send("GET", "/-/changes").json["next"])
    followers = [Follower(site, token) for _ in range(waiting)]

    def no_other_waits() -> bool:
        site.send("GET", f"/-/changes?since={token}&wait_s=1")
        shown = site.send("GET", "/-/metrics").text
        return "placement_changes_unwaited_total 0" not in shown

    wait_until("all of them wait", no_other_waits)
    return followers


@pytest.mark.parametrize("server", SERVERS)
def test_who_waits_is_answered_when_the_process_is_told_to_stop(
    folder: Path, environment: dict[str, str], server: str
) -> None:
    """Else they have no answer, and the process ends when it is killed or they have waited for a minute."""
    with SERVERS[server](folder, environment) as site:
        followers = follow(site, WAITING.get(server, 2))

        # Apache lets requests end at this one, as it does for systemd.
        site.master.send(signal.SIGWINCH if server == "apache" else signal.SIGTERM)
        site.master.popen.wait(WAIT_S - 10)

        for follower in followers:
            follower.join()
            assert follower.answers
            for answer in follower.answers:
                assert (answer.status, answer.json["trees"]) == (200, [])
