"""The service on a port of its own, behind a door that can refuse, with a small cloud inside."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import waitress.server
from waitress import wasyncore

from tests.support.service import Service, running
from tests.support.world import World

NAMESPACE = uuid.UUID("0d3a3f3e-8a55-4f0a-8d5e-6f2f0a1b7c11")
RACK = str(uuid.uuid5(NAMESPACE, "rack"))
PULSE_MS = 10_500
"""After it the page has looked for what is new."""
MARKUP = "<img src=x onerror=\"document.title='injected'\">"
MESSAGES = {
    200: b"Sign in first",
    401: b"Unauthorized",
    500: b"Internal Server Error",
    503: b"Service Unavailable",
}


def key(name: str) -> str:
    """Return the uuid that everything of this name has."""
    return str(uuid.uuid5(NAMESPACE, name))


class Stage:
    """The service and its door.

    ``refuse``: the status that every request but those for the page's own files gets, or None.
    """

    def __init__(self, service: Service, prefix: str = "") -> None:
        self.service = service
        self.world = World(service)
        self._prefix = prefix
        self.refuse: int | None = None
        self.asked: list[tuple[str, str, int]] = []
        self._sockets: dict[int, Any] = {}
        self._server = waitress.server.create_server(
            self._door, map=self._sockets, host="127.0.0.1", port=0, threads=4
        )
        self._closing = False
        self.url = f"http://127.0.0.1:{self._server.effective_port}{prefix}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        self._thread.join(20)
        self._server.task_dispatcher.shutdown()

    def _serve(self) -> None:
        """Serve until the stage closes; the thread that waits on the sockets is the one to close them."""
        while not self._closing:
            wasyncore.loop(timeout=0.2, map=self._sockets, count=1)
        wasyncore.close_all(map=self._sockets, ignore_all=True)

    def _door(self, environ: dict[str, Any], start_response: Any) -> Any:
        assert environ["PATH_INFO"].startswith(self._prefix)
        environ["SCRIPT_NAME"] = self._prefix
        path = environ["PATH_INFO"] = environ["PATH_INFO"].removeprefix(self._prefix)
        if self.refuse is not None and not path.startswith("/-/explorer"):
            status = f"{self.refuse} {MESSAGES[self.refuse].decode()}"
            start_response(status, [("Content-Type", "text/plain")])
            return [MESSAGES[self.refuse]]

        def noted(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            # The page asks all the time whether something has changed.
            if path != "/-/changes":
                self.asked.append((environ["REQUEST_METHOD"], path, int(status[:3])))
            return start_response(status, headers, *rest)

        return self.service.application(environ, noted)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the service itself; return the JSON of the answer, if any."""
        return self.world.call(method, path, body).json

    def provider(self, name: str, parent: str | None = None) -> None:
        self.world.provider(name, parent and key(parent), key=key(name))

    def replace(self, name: str, part: str, value: Any) -> None:
        """Replace inventories, traits or aggregates of a provider."""
        self.world.replace(key(name), part, value)

    def claim(self, consumer: str, project: str, **amounts: dict[str, int]) -> None:
        """Give a consumer ``amounts`` by class of each provider named (dashes are underscores)."""
        sets = {key(name.replace("_", "-")): held for name, held in amounts.items()}
        self.world.claim(sets, key(consumer), project_id=project)


def fill(stage: Stage) -> None:
    """Make four trees and a pool: full, over capacity, quiet, with GPUs, with markup for a name."""
    cores = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 65536, "reserved": 4096}}
    for name in ("full", "over", "quiet", MARKUP):
        stage.provider(name)
        stage.replace(name, "inventories", cores)
    stage.provider("gpus")
    stage.replace("gpus", "inventories", {"MEMORY_MB": {"total": 65536}})
    for node, cards in (("numa0", 6), ("numa1", 4)):
        stage.provider(node, "gpus")
        stage.replace(node, "inventories", {"VCPU": {"total": 16}})
        stage.replace(node, "traits", ["HW_NUMA_ROOT"])
        stage.provider(f"{node}-card", node)
        stage.replace(f"{node}-card", "inventories", {"VGPU": {"total": cards}})
    stage.replace("gpus", "aggregates", [RACK])
    stage.provider("pool")
    stage.replace("pool", "inventories", {"DISK_GB": {"total": 2048}})
    stage.replace("pool", "traits", ["MISC_SHARES_VIA_AGGREGATE"])
    stage.replace("pool", "aggregates", [RACK])
    stage.replace("quiet", "traits", ["HW_CPU_X86_AVX2"])
    stage.claim("web", "shop", full={"VCPU": 8, "MEMORY_MB": 8192})
    stage.claim("big", MARKUP, over={"VCPU": 6})
    stage.claim(
        "render", "film", gpus={"MEMORY_MB": 2048}, numa0={"VCPU": 4}, numa0_card={"VGPU": 2},
        pool={"DISK_GB": 100},
    )  # fmt: skip
    stage.replace("over", "inventories", cores | {"VCPU": {"total": 4}})


@contextmanager
def open_stage(prefix: str = "", **overrides: Any) -> Iterator[Stage]:
    """Yield the service, empty, with its page, mounted where a front end would mount it."""
    settings = {"insight__enabled": True, "insight__public": ["explorer"]} | overrides
    with running("sqlite", **settings) as service:
        stage = Stage(service, prefix)
        try:
            yield stage
        finally:
            stage.close()
