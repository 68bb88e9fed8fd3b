"""An operator follows docs/howto/switch-over.rst while clients write (specification 06 section 13)."""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from docs._tools import live_pages
from tests.support import bodies, machines
from tests.support.book import Book
from tests.support.client import Answer, Client
from tests.support.load import Actor, Caller, acting
from tests.support.racing import race_database

PAGE = live_pages.DOCS / "howto" / "switch-over.rst"
BEGIN, END = "The rolling switch", "Back out"
CLIENTS = 3
PAUSE_S = 0.02


class Balancer:
    """Sends to a machine; to another one if nothing listens there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def send(self, method: str, path: str, body: Any = None, version: str = "1.28") -> Answer:
        """Send a request to whatever machine is up."""
        while True:
            name = random.choice([each.name for each in (self._folder / "up").iterdir()])
            port = int((self._folder / f"{name}.port").read_text())
            try:
                return Client(port, kept=False).send(method, path, body, version)
            except ConnectionRefusedError:
                continue


class Writer(Actor):
    """Claims and frees through whatever machine the balancer has."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.held: list[str] = []
        self.waits_s: list[float] = []

    def act(self) -> None:
        self.stopping.wait(self.random.uniform(0, 2 * PAUSE_S))
        if self.held and self.random.random() < 0.5:
            self._write("DELETE", self.held.pop(), None)
            return
        consumer, amount = self.new_uuid(), self.random.randint(1, 2)
        body = bodies.entry({self.random.choice(machines.HOSTS): {"VCPU": amount}})
        # Not before 1.38.
        del body["consumer_type"]
        if self._write("PUT", consumer, body) == 204:
            self.held.append(consumer)

    def _write(self, method: str, consumer: str, body: Any) -> int:
        begun_s = time.monotonic()
        answer = self.caller.send(method, f"/allocations/{consumer}", body, "1.28")
        self.waits_s.append(time.monotonic() - begun_s)
        # 404: the old service answered 409 to the claim, or none was there.
        if answer.status not in (204, 409):
            self.book.blame(f"{method} {answer}")
        return answer.status


def commands() -> list[str]:
    """Return the commands of the rolling switch, in order."""
    lines = PAGE.read_text().split("\n")
    part = lines[lines.index(BEGIN) : lines.index(END)]
    return [block.command for block in live_pages.blocks(part)]


# The page's test runs the same commands, without a load.
@pytest.mark.long
@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_no_request_fails_while_two_processes_are_replaced(kind: str) -> None:
    with race_database(kind) as url:
        old_url = url.replace("mysql://", "mysql+pymysql://")
        with machines.running(url, old_url) as (shell, folder):
            book = Book()
            caller = Caller([Balancer(folder)], book)
            writers = [Writer(f"writer {n}", caller, book, "rolling") for n in range(CLIENTS)]
            with acting(writers):
                printed = [shell.run(command) for command in commands()]
            checked = shell.run("placement-manage db check")
    longest_s = max(wait_s for writer in writers for wait_s in writer.waits_s)
    print(f"{dict(book.counts)}, the longest wait {longest_s:.2f} s")

    assert len(printed) == 4
    assert book.violations == []
    assert book.counts["PUT 204"] > 0
    wrong = [line for line in checked.split("\n") if "WRONG" in line]
    # Two processes of the old service may leave a consumer behind.
    assert [line for line in wrong if "consumers have allocations" not in line] == []
