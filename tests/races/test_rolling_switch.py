"""An operator follows docs/howto/switch-over.rst while clients write (specification 06 section 13)."""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from docs import live_pages
from tests.support import bodies, machines
from tests.support.client import Client
from tests.support.old_service import new_uuid
from tests.support.racing import race_database

PAGE = live_pages.DOCS / "howto" / "switch-over.rst"
BEGIN, END = "The rolling switch", "Back out"
CLIENTS = 3
PAUSE_S = 0.02


class Load:
    """Clients that claim and free through whatever machine the balancer has."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stop = threading.Event()
        self.failures: list[str] = []
        self.statuses: Counter[int] = Counter()
        self.waits_s: list[float] = []

    def _send(self, draw: random.Random, method: str, path: str, body: object) -> int:
        """Send to a machine; to another one if nobody listens there, as a balancer does."""
        while True:
            name = draw.choice([each.name for each in (self._folder / "up").iterdir()])
            client = Client(int((self._folder / f"{name}.port").read_text()))
            try:
                return client.send(method, path, body, "1.28").status
            except ConnectionRefusedError:
                continue
            finally:
                client.close()

    def _write(self, seed: int) -> None:
        draw, held = random.Random(seed), []
        while not self._stop.wait(draw.uniform(0, 2 * PAUSE_S)):
            if held and draw.random() < 0.5:
                request = ("DELETE", f"/allocations/{held.pop()}", None)
            else:
                consumer, amount = new_uuid(), draw.randint(1, 2)
                body = bodies.entry({draw.choice(machines.HOSTS): {"VCPU": amount}})
                # The other service has 1.28 at most here.
                del body["consumer_type"]
                request = ("PUT", f"/allocations/{consumer}", body)
            begun_s = time.monotonic()
            try:
                status = self._send(draw, *request)
            except Exception as failure:
                self.failures.append(repr(failure))
                continue
            self.waits_s.append(time.monotonic() - begun_s)
            self.statuses[status] += 1
            if request[0] == "PUT" and status == 204:
                held.append(consumer)
            # 404: the old service answered 409 to the claim, or none was there.
            if status not in (204, 409):
                self.failures.append(f"{request[0]} {status}")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write until the end of the block."""
        threads = [threading.Thread(target=self._write, args=(n,)) for n in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()


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
            load = Load(folder)
            with load.running():
                printed = [shell.run(command) for command in commands()]
            checked = shell.run("placement-manage db check")
    print(f"{dict(load.statuses)}, the longest wait {max(load.waits_s):.2f} s")

    assert len(printed) == 4
    assert load.failures == []
    assert load.statuses[204] > 0
    wrong = [line for line in checked.split("\n") if "WRONG" in line]
    # Two processes of the old service may leave a consumer behind.
    assert [line for line in wrong if "consumers have allocations" not in line] == []
