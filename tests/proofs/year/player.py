"""A client of a year: draws requests, sends them with a token of its own, and writes the book."""

import http.client
import json
import random
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.proofs.year.book import Book, Broken
from tests.support.client import NOTHING, VERSION, Answer, Client
from tests.support.processes import PATIENCE
from tests.support.service import Service

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
SLOW_S = 30.0 * PATIENCE
"""Three deadlines of a request: no answer takes longer."""

CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_FPGA")
TRAITS = ("HW_CPU_X86_AVX", "HW_CPU_X86_VMX", "STORAGE_DISK_SSD", "CUSTOM_FAST")


@dataclass(frozen=True)
class Asked:
    """One request. ``token``: of whom, if not of the client that sends it."""

    method: str
    path: str
    body: Any = None
    version: str = VERSION
    token: str | None = None

    def __str__(self) -> str:
        text = "" if self.body is None else " " + json.dumps(self.body, ensure_ascii=True)
        return f"{self.method} {self.path}{text}"

    @property
    def uuids(self) -> set[str]:
        """The uuids that it names."""
        return set(UUID.findall(str(self)))


@dataclass
class Names:
    """What clients may name: of one owner, or of all if there is one client at a time.

    ``epoch``: of the consumers; after a restored backup new consumers have new uuids. ``built``: the same of
    the providers, where nobody knows what came of a write.
    """

    owner: int = 0
    epoch: int = 0
    built: int = 0
    common: Sequence[str] = ()

    def _uuids(self, kind: int, count: int, first: int = 0) -> list[str]:
        numbers = range(first, first + count)
        return [f"{kind}{self.owner:07x}-0000-4000-8000-{n:012x}" for n in numbers]

    @property
    def hosts(self) -> list[str]:
        """The roots."""
        return self._uuids(1, 5, 10 * self.built)

    @property
    def roots(self) -> list[str]:
        """Its own, and those on which it claims."""
        return [*self.hosts, *self.common]

    @property
    def children(self) -> list[str]:
        """Providers below the roots, in most cases."""
        return self._uuids(2, 3, 10 * self.built)

    @property
    def providers(self) -> list[str]:
        """All that are written."""
        return self.hosts + self.children

    @property
    def aggregates(self) -> list[str]:
        """Uuids of aggregates."""
        return self._uuids(3, 3)

    @property
    def consumers(self) -> list[str]:
        """Those of this epoch, and two of the one before."""
        before = 2 if self.epoch else 0
        return self._uuids(5, 10 + before, 10 * self.epoch - before)

    @property
    def groups(self) -> list[str]:
        """Names of groups."""
        return [f"group-{self.owner}-{n}" for n in range(3)]


class Way(Protocol):
    """A way to the service."""

    def deliver(self, asked: Asked, token: str) -> Answer:
        """Send a request as the user of this token and return the answer."""


class InProcess:
    """The service in this process. ``service`` is another one after a restart."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def deliver(self, asked: Asked, token: str) -> Answer:
        """Send a request."""
        answer = self.service.request(
            asked.method,
            asked.path,
            version=asked.version,
            json=asked.body,
            x_roles="admin,service",
            x_auth_token=asked.token or token,
        )
        return Answer(answer.status_int, answer.text if answer.body else "", answer.headers)

    def send(self, method: str, path: str, body: Any = None, version: str = VERSION) -> Answer:
        """Send a request as an admin."""
        return self.deliver(Asked(method, path, body, version), "admin")


class OverHTTP:
    """Servers at some ports or URLs, each request to any of them; one without an answer has status 0."""

    def __init__(self, ports: Sequence[int | str], dice: random.Random) -> None:
        self._clients = [Client(port, kept=False, timeout_s=SLOW_S) for port in ports]
        self._dice = dice

    def deliver(self, asked: Asked, token: str) -> Answer:
        """Send a request."""
        client = self._dice.choice(self._clients)
        given = {"x_auth_token": asked.token or token}
        try:
            return client.send(asked.method, asked.path, asked.body, asked.version, **given)
        except (OSError, http.client.HTTPException) as failure:
            return Answer(NOTHING, repr(failure))

    def send(self, method: str, path: str, body: Any = None, version: str = VERSION) -> Answer:
        """Send a request as an admin."""
        return self.deliver(Asked(method, path, body, version), "admin")


def _change_nothing(player: "Player", asked: Asked, answer: Answer) -> None:
    """Leave the book as it is."""


@dataclass(frozen=True)
class Kind:
    """A line of the table of requests.

    :param name: empty for a question that a report does not show.
    :param routes: method and template of the URL page.
    :param clients: which kinds of client send it.
    :param may: the statuses that it may have in this state of the book; None: any but those of errors.
    :param apply: writes into the book what the answer acknowledges.
    :param undo: the line that takes it back; empty for what changes nothing.
    """

    name: str
    routes: str
    clients: str
    draw: Callable[["Player"], Asked | None]
    may: Callable[["Player", Asked], Collection[int] | None] = lambda player, asked: None
    apply: Callable[["Player", Asked, Answer], None] = _change_nothing
    undo: str = ""


@dataclass
class Player:
    """One client.

    :param exact: nobody else writes meanwhile, so that each answer must be what the book says.
    :param user: the id of its user, if it is not the one of its kind.
    """

    name: str
    way: Way
    book: Book
    names: Names
    dice: random.Random = field(default_factory=random.Random)
    exact: bool = True
    excused: bool = False
    log: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    user: str = ""

    @property
    def token(self) -> str:
        """Say who it is."""
        return f"{self.user or f'{self.name}-user'}:{self.name}-project"

    def ask(self, path: str) -> Any:
        """Read something that a draw needs; None if it is not there."""
        answer = self.way.deliver(Asked("GET", path), self.token)
        self._look(Asked("GET", path), answer)
        return answer.json if answer.status == 200 else None

    def _look(self, asked: Asked, answer: Answer) -> None:
        """Note who asked; no answer may be an error that no event explains."""
        if request_id := answer.headers.get("x-openstack-request-id"):
            token = asked.token or self.token
            self.book.authors[request_id] = (token.partition(":")[0], str(asked))
        if answer.status >= 500 and not answer.is_given_up and not (self.excused and answer.lost):
            raise Broken("no error of the service", f"{asked}: {answer.status} {answer.text[:600]}")

    def play(self, kind: Kind) -> Answer | None:
        """Draw a request of this kind and send it; None if there is nothing to ask."""
        asked = kind.draw(self)
        return asked and self.send(kind, asked)

    def send(self, kind: Kind, asked: Asked) -> Answer:
        """Send a request, judge the answer and write the book."""
        may = kind.may(self, asked) if self.exact else None
        began = time.monotonic()
        answer = self.way.deliver(asked, self.token)
        took = time.monotonic() - began
        short = " ".join(answer.text.split())
        if kind.name:
            self.log.append(f"{self.name}: {asked} -> {answer.status} {short[:200]}")
        what = f"{kind.name or 'other'} {answer.status or 'no answer'}"
        self.counts[what] = self.counts.get(what, 0) + 1
        self._look(asked, answer)
        if took > SLOW_S:
            raise Broken("every answer within three deadlines", f"{asked} took {took:.1f} s")
        if may is not None and answer.status not in may and not answer.lost:
            text = f"{asked} was answered {answer.status}, not {sorted(may)}: {answer.text[:600]}"
            raise Broken("answers that the book explains", text)
        if 200 <= answer.status < 300:
            kind.apply(self, asked, answer)
        return answer
