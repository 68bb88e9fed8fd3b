"""Moves servers through Nova: which can move, how, and by which requests (specification 10 section 7)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from placement.client import exceptions as exc
from placement.client.moving import MoveRefused
from placement.client.nova import OVER, Nova, NovaConsumer
from placement.client.plans import Step, consumer_of
from placement.client.provider_names import ProviderNames

STEP_S = 3600.0
"""How long a step may take."""

POLL_S = 2.0
"""Between two questions how far a step is."""

UNANSWERED_MOST = 5
"""So many questions in a row may stay without an answer."""

SAMPLE = 20
"""Of so many of Nova's servers at least one must hold something here. Else it may be another cloud's Nova."""


class MoveKind(Enum):
    """How a server moves to a host that is named, by what Nova lets it do in its state."""

    LIVE = "live migration"
    COLD = "cold migration, confirmed"
    SHELVED = "unshelved, live migration, shelved"
    DELETE = "deleted"


WAYS = {
    "ACTIVE": MoveKind.LIVE,
    "PAUSED": MoveKind.LIVE,
    "SHUTOFF": MoveKind.COLD,
    "SHELVED": MoveKind.SHELVED,
}
"""By the state of a server."""

CONFIRM = "openstack server resize confirm {server}, or openstack server resize revert {server}"
"""What an operator does about a server that was resized or migrated cold. Both commands take both."""

OBSTACLES = {
    "ERROR": "it is in the state ERROR: reset or delete it",
    "RESCUE": "it is rescued: unrescue it first",
    "SOFT_DELETED": "it is deleted, and can still be restored",
    "SUSPENDED": "it is suspended: resume it first",
    "UNKNOWN": "its cell does not answer",
    "VERIFY_RESIZE": f"its resize or migration is not confirmed: {CONFIRM}",
}
"""Why a server cannot move, by its state."""


class WrongNova(exc.PlacementClientError):
    """Nova does not know what holds something here: it may be the Nova of another cloud or region."""

    summary = "Not the Nova of this cloud?"


class NovaMover:
    """Moves servers.

    :param placement: the adapter of this service.
    :param step_s: how long a step may take.
    """

    def __init__(self, nova: Nova, placement: Any, step_s: float = STEP_S) -> None:
        self._nova, self._step_s = nova, step_s
        self.names = ProviderNames(placement)
        self._known: dict[str, NovaConsumer] = {}
        self._hosts: dict[str, str | None] = {}
        self._is_same_cloud = False

    def look(self) -> None:
        """Read all servers and migrations.

        :raises PlaceHidden: the account may not see where servers are
        :raises WrongNova: none of the servers holds anything here
        """
        self._known = {consumer.uuid: consumer for consumer in self._nova.consumers()}
        holding = [consumer.uuid for consumer in self._known.values() if consumer.must_hold]
        self._is_same_cloud = any(map(self.names.holds_something, holding[:SAMPLE]))
        if holding and not self._is_same_cloud:
            raise WrongNova(
                f"none of {len(holding[:SAMPLE])} servers of Nova holds anything here (OS_REGION_NAME, "
                "OS_AUTH_URL)"
            )

    def list_unmovable(self) -> Mapping[str, str]:
        """Return migrations, and servers whose state does not let them move."""
        return {uuid: why for uuid, each in self._known.items() if (why := _find_obstacle(each))}

    def find_obstacle(self, step: Step) -> str | None:
        """Return why Nova cannot carry out this step.

        :raises WrongNova: Nova has no servers at all
        """
        if not self._is_same_cloud:
            raise WrongNova(
                "it has no server that must hold something, and here is something to be moved"
            )
        consumer = self._known.get(consumer_of(step))
        if consumer is None:
            if self._nova.knows(consumer_of(step)):
                return "it came or went while Nova was asked"
            return "it is no server and no migration of Nova"
        if "remove" in step:
            return _explain_migration(consumer) or (
                OBSTACLES["SOFT_DELETED"] if consumer.state == "SOFT_DELETED" else None
            )
        return _find_obstacle(consumer) or self._find_obstacle_of_place(step, consumer)

    def find_way(self, step: Step) -> MoveKind:
        """Return how this step is carried out; it must have no obstacle."""
        return MoveKind.DELETE if "remove" in step else WAYS[self._known[consumer_of(step)].state]

    def is_paused(self, step: Step) -> bool:
        """Tell whether the server stays paused when it moves."""
        return self._known[consumer_of(step)].state == "PAUSED"

    def name_host(self, step: Step) -> str:
        """Return the name of the host to which a move goes, as Nova's commands take it."""
        host = self._find_host(step["root_provider_uuid"])
        assert host is not None
        return host

    def carry_out(self, step: Step, pause: Callable[[float], None]) -> None:
        """Ask Nova for a step, and wait until it is done and its source is free.

        :raises MoveRefused: Nova refuses it, or the server is not where it should be
        """
        course = _Course(self._nova, consumer_of(step), pause, self._step_s)
        try:
            way = self.find_way(step)
            if way is MoveKind.DELETE:
                course.delete()
                return
            host = self.name_host(step)
            if way is MoveKind.COLD:
                course.migrate(host)
            else:
                course.migrate_live(host, shelved=way is MoveKind.SHELVED)
        except exc.NotAnswered as error:
            raise MoveRefused(
                f"Nova does not answer, and may go on with it: {error.error}",
                consumer_uuid=consumer_of(step),
            ) from error

    def _find_obstacle_of_place(self, step: Step, consumer: NovaConsumer) -> str | None:
        """Return why Nova cannot move this away, or not to there: it moves servers between hypervisors."""
        sources = {self.names.of(self.names.root_of(uuid)) for uuid in step["from"]}
        if sources != {consumer.node}:
            where = ", ".join(sorted(sources))
            return f"it holds something of {where}, and runs on {consumer.node}: see placement-manage audit"
        if self._find_host(step["root_provider_uuid"]) is None:
            return f"{self.names.of(step['root_provider_uuid'])}, where it would go, is no hypervisor of Nova"
        return None

    def _find_host(self, root_uuid: str) -> str | None:
        if root_uuid not in self._hosts:
            self._hosts[root_uuid] = self._nova.service_host(root_uuid)
        return self._hosts[root_uuid]


def _explain_migration(consumer: NovaConsumer) -> str | None:
    if consumer.server is None:
        return None
    known = f"it is a migration of server {consumer.server}, {consumer.state}"
    # A run that was killed may have left it, but Nova shows the same of a migration of an operator, who may
    # want to revert it, which ends with the confirmation.
    if consumer.state == "finished":
        return f"{known} and not confirmed: {CONFIRM.format(server=consumer.server)}"
    return f"{known}: it ends when that is over"


def _find_obstacle(consumer: NovaConsumer) -> str | None:
    """Return why Nova does not move this in its state."""
    if consumer.server is not None:
        return _explain_migration(consumer)
    if consumer.state in OBSTACLES:
        return OBSTACLES[consumer.state].format(server=consumer.uuid)
    if consumer.nodes is None:
        return f"something is under way: {consumer.task or consumer.state}"
    return None if consumer.state in WAYS else f"it is in the state {consumer.state}"


class _Course:
    """What is asked of Nova for one server, one after the other."""

    def __init__(
        self, nova: Nova, server: str, pause: Callable[[float], None], step_s: float
    ) -> None:
        self._nova, self._server, self._pause = nova, server, pause
        self._until_s = time.monotonic() + step_s

    def delete(self) -> None:
        self._require(self._nova.delete(self._server))
        self._wait_until(
            lambda shown: shown is None or shown["status"] in ("DELETED", "SOFT_DELETED")
        )
        if self._nova.server(self._server) is not None:
            raise self._make_refusal(
                "it can still be restored, and holds what it held until it is reclaimed"
            )

    def migrate(self, host: str) -> None:
        """Migrate a stopped server, and confirm it."""
        self._require(self._nova.act(self._server, "migrate", {"host": host}))
        shown = self._wait_until(_is_settled)
        # Nova may be configured to confirm by itself.
        if shown["status"] == "VERIFY_RESIZE":
            self._require(self._nova.act(self._server, "confirmResize"))
            self._wait_until(lambda now: _is_settled(now) and now["status"] != "VERIFY_RESIZE")
        self._require_there(host)

    def migrate_live(self, host: str, *, shelved: bool) -> None:
        """Migrate a server that runs; one that is shelved runs meanwhile."""
        if shelved:
            self._require(self._nova.act(self._server, "unshelve"))
            self._wait_until(lambda now: _is_settled(now) and now["status"] == "ACTIVE")
        self._require(
            self._nova.act(
                self._server, "os-migrateLive", {"host": host, "block_migration": "auto"}
            )
        )
        self._wait_until(_is_settled)
        try:
            self._require_there(host)
        finally:
            if shelved:
                self._require(self._nova.act(self._server, "shelve"))
                self._wait_until(
                    lambda now: _is_settled(now) and now["status"].startswith("SHELVED")
                )

    def _require(self, refusal: str | None) -> None:
        if refusal is not None:
            raise self._make_refusal(f"Nova refuses it: {refusal}")

    def _require_there(self, host: str) -> None:
        """Wait until the migration is over, which frees the source, and look where the server is."""
        self._wait_until(lambda _: self._has_no_migration())
        shown = self._nova.server(self._server) or {}
        where = shown.get("OS-EXT-SRV-ATTR:host")
        if where != host or shown.get("status") == "ERROR":
            raise self._make_refusal(
                f"it is {shown.get('status', 'gone')} on {where}, not on {host}: openstack server event "
                f"list {self._server}"
            )

    def _has_no_migration(self) -> bool:
        found = self._nova.migrations_of(self._server)
        return all(each["status"] in OVER or each["status"] == "error" for each in found)

    def _wait_until(self, is_so: Callable[[Any], bool]) -> dict[str, Any]:
        """Ask for the server until something is so; return what is shown of it then."""
        unanswered = 0
        while True:
            try:
                shown = self._nova.server(self._server)
                if is_so(shown):
                    return shown or {}
                unanswered = 0
            except exc.NotAnswered:
                unanswered += 1
                if unanswered == UNANSWERED_MOST:
                    raise
                shown = {}
            if shown is None or shown.get("status") == "ERROR":
                fault = (shown or {}).get("fault", {}).get("message", "")
                raise self._make_refusal(
                    f"it is {'in ERROR' if shown else 'gone'}. {fault}".strip()
                )
            if time.monotonic() > self._until_s:
                raise self._make_refusal("it took too long, and may go on")
            self._pause(POLL_S)

    def _make_refusal(self, why: str) -> MoveRefused:
        return MoveRefused(why, consumer_uuid=self._server)


def _is_settled(shown: Mapping[str, Any] | None) -> bool:
    return (
        shown is not None
        and shown.get("OS-EXT-STS:task_state") is None
        and shown["status"] not in ("MIGRATING", "RESIZE", "ERROR")
    )
