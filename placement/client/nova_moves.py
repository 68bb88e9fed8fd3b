"""Moves of servers through Nova: which ones can move, and by which requests (specification 10 section 7)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from placement.client import exceptions as exc
from placement.client.moving import MoveRefused, RunAbandoned
from placement.client.nova import OVER, Nova, NovaConsumer, RefusedOrder
from placement.client.plans import Step, consumer_of
from placement.client.provider_names import ProviderNames

STEP_S = 3600.0
"""The longest time of a step."""

SHELVE_S = 300.0
"""The longest time for shelving an unshelved server again after its step has taken too long."""

POLL_S = 2.0
"""The pause between two questions about the progress of a step."""

UNANSWERED_MOST = 5
"""The most successive questions that Nova may leave unanswered."""

ABOUT_DESTINATION = frozenset({400, 409})
"""The statuses with which Nova refuses a migration to the named host; others concern the request."""

SAMPLE = 20
"""One of this many servers must have allocations here; otherwise this may be the Nova of another cloud."""


class MoveKind(Enum):
    """The ways in which Nova moves a server to a named host, depending on the server's state."""

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
"""The way in which a server moves, by its state in Nova."""

CONFIRM = "openstack server resize confirm {server}, or openstack server resize revert {server}"
"""The commands that end an open resize or cold migration of a server; each works for both."""

OBSTACLES = {
    "ERROR": "it is in the state ERROR: repair it, then openstack server set --state active {server}, or "
    "openstack server delete {server}",
    "RESCUE": "it is rescued: openstack server unrescue {server}",
    "SOFT_DELETED": "it is deleted, and can still be restored: openstack server restore {server}, or "
    "openstack server delete --force {server}",
    "SUSPENDED": "it is suspended: openstack server resume {server}",
    "UNKNOWN": "its cell does not answer: openstack compute service list",
    "VERIFY_RESIZE": f"its resize or migration is not confirmed: {CONFIRM}",
}
"""The reason why a server cannot move, by its state."""


class WrongNova(exc.PlacementClientError):
    """Nova does not know the consumers here: it may be the Nova of another cloud or region."""

    summary = "Not the Nova of this cloud?"


class NovaMover:
    """A mover of servers.

    :param placement: the adapter of this service. ``unshelved``: the servers that were unshelved for their
        move and are not shelved again yet.

    :param step_s: the longest time that one step can take.
    """

    def __init__(self, nova: Nova, placement: Any, step_s: float = STEP_S) -> None:
        self._nova, self._step_s = nova, step_s
        self.names = ProviderNames(placement)
        self.unshelved: set[str] = set()
        self._known: dict[str, NovaConsumer] = {}
        self._moves: dict[str, NovaConsumer] = {}
        self._hosts: dict[str, str | None] = {}
        self._is_same_cloud = False

    def read_states(self) -> None:
        """Read all servers and migrations.

        :raises PlaceHidden: the account cannot see the hosts of servers
        :raises WrongNova: none of the servers has allocations here
        """
        self._known = {consumer.uuid: consumer for consumer in self._nova.consumers()}
        self._moves = {
            each.server: each
            for each in self._known.values()
            if each.server is not None and each.state != "error"
        }
        holding = [consumer.uuid for consumer in self._known.values() if consumer.must_hold]
        self._is_same_cloud = any(map(self.names.holds_something, holding[:SAMPLE]))
        if holding and not self._is_same_cloud:
            raise WrongNova(
                f"none of {len(holding[:SAMPLE])} servers of Nova holds anything here (OS_REGION_NAME, "
                "OS_AUTH_URL)"
            )

    def list_unmovable(self) -> Mapping[str, str]:
        """Return migrations, and servers whose state does not let them move."""
        return {
            uuid: why for uuid, each in self._known.items() if (why := self._find_obstacle_of(each))
        }

    def find_obstacle(self, step: Step) -> str | None:
        """Return why Nova cannot carry out this step; None if it can.

        :raises WrongNova: Nova has no servers at all
        """
        if not self._is_same_cloud:
            raise WrongNova("it has no server with resources, but there are resources to move here")
        consumer = self._known.get(consumer_of(step))
        if consumer is None:
            if self._nova.knows(consumer_of(step)):
                return "it was created or deleted while Nova was asked"
            return (
                "it is no server and no migration of Nova: placement-manage audit --from-nova tells whether "
                "it is a leak"
            )
        # The host names are read here, because printing a step must not wait for the service.
        sources = {self.names.name_of(self.names.root_of(uuid)) for uuid in step["from"]}
        if "remove" in step:
            return _explain_migration(consumer) or (
                OBSTACLES["SOFT_DELETED"].format(server=consumer.uuid)
                if consumer.state == "SOFT_DELETED"
                else None
            )
        return self._find_obstacle_of(consumer) or _find_obstacle_of_source(sources, consumer)

    def find_obstacle_of_place(self, step: Step) -> str | None:
        """Return why Nova cannot move servers to this place, such as one that is not a hypervisor."""
        name = self.names.name_of(step["root_provider_uuid"])
        if self._find_host(step["root_provider_uuid"]) is None:
            return f"{name} is not a hypervisor of Nova"
        return None

    def find_way(self, step: Step) -> MoveKind:
        """Return how Nova carries out this step, which must not have an obstacle."""
        if "remove" in step:
            return MoveKind.DELETE
        way = WAYS[self._known[consumer_of(step)].state]
        if way is MoveKind.LIVE and consumer_of(step) in self.unshelved:
            return MoveKind.SHELVED
        return way

    def is_paused(self, step: Step) -> bool:
        """Return whether the server stays paused when it moves."""
        return self._known[consumer_of(step)].state == "PAUSED"

    def name_host(self, step: Step) -> str:
        """Return the name of the host to which a move goes, in the form that Nova's commands accept."""
        host = self._find_host(step["root_provider_uuid"])
        assert host is not None
        return host

    def carry_out(self, step: Step, pause: Callable[[float], None]) -> None:
        """Ask Nova for a step, and wait until it is done and its source is free.

        :raises MoveRefused: Nova refuses it, or the server is not where it should be
        """
        destination = step.get("root_provider_uuid")
        course = _Course(self._nova, consumer_of(step), pause, self._step_s, destination)
        try:
            way = self.find_way(step)
            if way is MoveKind.DELETE:
                course.delete()
            elif way is MoveKind.COLD:
                course.migrate(self.name_host(step))
            elif way is MoveKind.LIVE:
                course.migrate_live(self.name_host(step))
            else:
                self._migrate_shelved(course, step)
        except exc.NotAnswered as error:
            raise MoveRefused(
                f"Nova does not answer, and may go on with it: {error.error}",
                consumer_uuid=consumer_of(step),
            ) from error

    def _migrate_shelved(self, course: _Course, step: Step) -> None:
        server, host = consumer_of(step), self.name_host(step)
        # The server is listed from here on, since it may run; a run that is abandoned reports it too.
        self.unshelved.add(server)
        try:
            course.migrate_shelved(host, is_shelved=self._known[server].state == "SHELVED")
        finally:
            if not course.is_unshelved:
                self.unshelved.discard(server)

    def _find_obstacle_of(self, consumer: NovaConsumer) -> str | None:
        """Return why Nova does not move this consumer in its state."""
        if consumer.server is not None:
            return _explain_migration(consumer)
        if consumer.state in OBSTACLES:
            return OBSTACLES[consumer.state].format(server=consumer.uuid)
        if consumer.nodes is None:
            return _explain_what_is_under_way(consumer, self._moves.get(consumer.uuid))
        return None if consumer.state in WAYS else f"it is in the state {consumer.state}"

    def _find_host(self, root_uuid: str) -> str | None:
        if root_uuid not in self._hosts:
            self._hosts[root_uuid] = self._nova.service_host(root_uuid)
        return self._hosts[root_uuid]


def _explain_migration(consumer: NovaConsumer) -> str | None:
    if consumer.server is None:
        return None
    known = f"it is a migration of server {consumer.server}, {consumer.state}"
    if consumer.state == "error":
        return (
            f"{known}: it has failed, and keeps what it holds. See where the server is: openstack server "
            f"show {consumer.server}; then openstack resource provider allocation delete {consumer.uuid}"
        )
    # A killed run may have left this state. An operator's own resize looks the same, and the operator may
    # want to revert it, which a confirmation would make impossible.
    if consumer.state == "finished":
        return f"{known} and not confirmed: {CONFIRM.format(server=consumer.server)}"
    return f"{known}: it ends when that is over"


def _explain_what_is_under_way(server: NovaConsumer, migration: NovaConsumer | None) -> str:
    if server.task is not None or migration is None:
        return f"something is under way: {server.task or server.state}"
    known = f"its migration {migration.uuid} is {migration.state}"
    if migration.state == "finished":
        return f"{known} and not confirmed: {CONFIRM.format(server=server.uuid)}"
    return f"{known}: openstack server migration list --server {server.uuid}"


def _find_obstacle_of_source(sources: set[str], consumer: NovaConsumer) -> str | None:
    """Return why the server cannot move away from these trees: it is not on them."""
    if sources == {consumer.node}:
        return None
    where = ", ".join(sorted(sources - {consumer.node}))
    # Only the source of an evacuation is another node of a healthy server (07 section 8.1).
    if sources <= (consumer.nodes or frozenset()):
        return f"it was evacuated from {where}, which keeps its part until nova-compute has started there"
    audit = "see placement-manage audit --from-nova"
    return f"it holds something of {where}, and runs on {consumer.node}: {audit}"


class _Course:
    """The requests to Nova that move one server, one after the other."""

    def __init__(
        self,
        nova: Nova,
        server: str,
        pause: Callable[[float], None],
        step_s: float,
        destination: str | None,
    ) -> None:
        self._nova, self._server, self._pause = nova, server, pause
        self._until_s = time.monotonic() + step_s
        self._destination = destination
        self._tried: str | None = None
        self.is_unshelved = False

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
        self._migrate("migrate", {"host": host})
        shown = self._wait_until(_is_settled)
        # Nova may be configured to confirm the migration by itself.
        if shown["status"] == "VERIFY_RESIZE":
            self._require(self._nova.act(self._server, "confirmResize"))
            self._wait_until(lambda now: _is_settled(now) and now["status"] != "VERIFY_RESIZE")
        self._require_there(host)

    def migrate_live(self, host: str) -> None:
        """Migrate a running server."""
        self._migrate("os-migrateLive", {"host": host, "block_migration": "auto"})
        self._wait_until(_is_settled)
        self._require_there(host)

    def migrate_shelved(self, host: str, *, is_shelved: bool) -> None:
        """Unshelve and migrate a server, then shelve it again even if the migration fails.

        :param is_shelved: False if an earlier move has unshelved the server and could not shelve it again.
        """
        self.is_unshelved = True
        try:
            if is_shelved:
                self._require(self._nova.act(self._server, "unshelve"))
                self._wait_until(lambda now: _is_settled(now) and now["status"] == "ACTIVE")
            self.migrate_live(host)
        except RunAbandoned:
            raise
        except Exception as error:
            self._shelve_after(error)
            raise
        self._shelve()

    def _shelve_after(self, error: Exception) -> None:
        try:
            self._shelve()
        except exc.PlacementClientError as failure:
            why = error.error if isinstance(error, exc.PlacementClientError) else repr(error)
            refusal = self._make_refusal(
                f"{why}. It was unshelved, and could not be shelved again: {failure.error}"
            )
            refusal.destination = getattr(error, "destination", None)
            raise refusal from error

    def _shelve(self) -> None:
        """Shelve an unshelved server as soon as no other operation is under way."""
        self._until_s = max(self._until_s, time.monotonic() + SHELVE_S)
        shown = self._wait_until(_is_settled)
        if not shown["status"].startswith("SHELVED"):
            self._require(self._nova.act(self._server, "shelve"))
            self._wait_until(lambda now: _is_settled(now) and now["status"].startswith("SHELVED"))
        self.is_unshelved = False

    def _migrate(self, action: str, argument: Mapping[str, Any]) -> None:
        self._tried = self._destination
        refusal = self._nova.act(self._server, action, argument)
        if refusal is not None:
            raise self._make_refusal(
                f"Nova refuses to move it to {argument['host']}: {refusal}",
                self._tried if refusal.status in ABOUT_DESTINATION else None,
            )

    def _require(self, refusal: RefusedOrder | None) -> None:
        if refusal is not None:
            raise self._make_refusal(f"Nova refuses it: {refusal}")

    def _require_there(self, host: str) -> None:
        """Wait until the migration has ended, which frees the source, and check the server's host."""
        self._wait_until(
            lambda _: all(
                migration["status"] in OVER or migration["status"] == "error"
                for migration in self._nova.migrations_of(self._server)
            )
        )
        shown = self._nova.server(self._server) or {}
        where = shown.get("OS-EXT-SRV-ATTR:host")
        if where != host or shown.get("status") == "ERROR":
            raise self._make_refusal(
                f"it is {shown.get('status', 'gone')} on {where}, not on {host}: openstack server event "
                f"list {self._server}",
                self._tried,
            )

    def _wait_until(self, is_so: Callable[[Any], bool]) -> dict[str, Any]:
        """Poll the server until a condition holds; return what Nova shows of the server then."""
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
                    f"it is {'in ERROR' if shown else 'gone'}. {fault}".strip(),
                    self._tried if shown else None,
                )
            if time.monotonic() > self._until_s:
                raise self._make_refusal("it took too long, and may go on")
            self._pause(POLL_S)

    def _make_refusal(self, why: str, destination: str | None = None) -> MoveRefused:
        return MoveRefused(why, consumer_uuid=self._server, destination=destination)


def _is_settled(shown: Mapping[str, Any] | None) -> bool:
    return (
        shown is not None
        and shown.get("OS-EXT-STS:task_state") is None
        and shown["status"] not in ("MIGRATING", "RESIZE", "ERROR")
    )
