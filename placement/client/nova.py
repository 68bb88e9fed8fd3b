"""The consumers that Nova knows: servers and migrations of all cells, with the hosts of the servers.

This module speaks HTTP only, through a keystoneauth1 adapter, as an administrator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from placement.client.sending import NotAnswered, require_names, send_request

MICROVERSION = "2.80"
"""The version since Train: migrations have uuids and pages, and lists include servers of a cell that is
down.
"""

HOLDS_NOTHING = frozenset({"BUILD", "DELETED", "ERROR", "SHELVED_OFFLOADED", "UNKNOWN"})
"""States of a server in which it may have no allocations; UNKNOWN is in a cell that is down."""

UNSETTLED = frozenset({"BUILD", "DELETED", "UNKNOWN", "VERIFY_RESIZE"})
"""States of a server that do not show its present or future host."""

OVER = frozenset({"cancelled", "completed", "confirmed", "done", "failed", "reverted"})
"""States of a migration that has released its allocations."""

TYPES = frozenset({"INSTANCE", "MIGRATION", None})
"""The types of consumers that Nova makes; None is from before microversion 1.38."""


_EXTENDED = "OS-EXT-SRV-ATTR"


class NovaNotAnswered(NotAnswered):
    """Nova refused to show something, or its answer cannot be read."""

    summary = "Nova did not answer as expected"


class PlaceHidden(Exception):
    """Nova hides the hosts of the servers from this account."""


class RefusedOrder(NamedTuple):
    """Nova's answer to a request that it does not carry out: the text and the HTTP status."""

    status: int
    text: str

    def __str__(self) -> str:
        return self.text


class NovaConsumer(NamedTuple):
    """A consumer that exists: a server, or a migration that has not ended.

    A node is named like its provider: by the hypervisor's name, or by its uuid for ironic.

    :param must_hold: whether a consumer in this state needs resources.
    :param state: the state of the server or migration, as Nova spells it.
    :param node: the node of the server; None without a node, and for a migration.
    :param nodes: the nodes where it may hold resources; None (anywhere) while an operation is under way.
    :param task: what Nova is doing with the server.
    :param server: the server that a migration moves; None for a server.
    """

    uuid: str
    must_hold: bool
    state: str
    node: str | None = None
    nodes: frozenset[str] | None = None
    task: str | None = None
    server: str | None = None


class _Server(NamedTuple):
    """The needed fields of a server; all fields of all servers would take much memory."""

    status: str
    task: str | None
    node: str | None


class _Migration(NamedTuple):
    status: str
    source_node: str | None
    dest_node: str | None


class Nova:
    """The compute service of one cloud.

    :param adapter: a keystoneauth1 adapter or openstacksdk proxy of the compute service.
    """

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def consumers(self, server: str | None = None) -> Iterator[NovaConsumer]:
        """Yield each consumer that exists.

        :param server: yield only this server, if it exists, and its migrations.
        :raises PlaceHidden: the account may not see where servers are
        :raises NotAnswered: a list was refused or unreadable, or there was no answer
        """
        servers = dict(self._list_servers({} if server is None else {"uuid": server}))
        migrations: dict[str, list[_Migration]] = defaultdict(list)
        # The servers are read first: a move that ends meanwhile shows as under way, or its end shows in the
        # ledger.
        wanted = {} if server is None else {"instance_uuid": server}
        for migration in self._list("/os-migrations", "migrations", wanted):
            status, kind = migration["status"], migration["migration_type"]
            is_over = status in OVER
            if not is_over and migration["uuid"]:
                yield NovaConsumer(
                    migration["uuid"], False, status, server=migration["instance_uuid"]
                )
            # The host from which a server was evacuated keeps its allocation until the host is back.
            if not is_over or (kind == "evacuation" and status == "done"):
                migrations[migration["instance_uuid"]].append(
                    _Migration(status, migration["source_node"], migration["dest_node"])
                )
        for uuid, found in servers.items():
            nodes = _find_nodes(found, migrations.get(uuid, ()))
            must_hold = found.status not in HOLDS_NOTHING
            yield NovaConsumer(uuid, must_hold, found.status, found.node, nodes, found.task)

    def knows(self, uuid: str) -> bool:
        """Return whether a server with this uuid exists; asks for this one server."""
        return self._send(f"/servers/{uuid}").status_code != 404

    def migrations_of(self, server: str) -> list[dict[str, Any]]:
        """Return all migrations of a server, including ended ones, as Nova shows them.

        :raises NotAnswered: the list was refused or unreadable, or there was no answer
        """
        return list(self._list("/os-migrations", "migrations", {"instance_uuid": server}))

    def server(self, uuid: str) -> dict[str, Any] | None:
        """Return a server as Nova shows it; None if it does not exist.

        :raises NotAnswered:
        """
        shown = self._show(f"/servers/{uuid}", "server")
        return shown and dict(shown)

    def service_host(self, node_uuid: str) -> str | None:
        """Return the name that Nova's commands take for a hypervisor; None if no hypervisor has this uuid.

        :param node_uuid: the uuid of the provider, which equals the hypervisor's.
        :raises NotAnswered:
        """
        shown = self._show(f"/os-hypervisors/{node_uuid}", "hypervisor")
        return shown and str(shown["service"]["host"])

    def act(
        self, server: str, action: str, argument: Any = None, microversion: str = MICROVERSION
    ) -> RefusedOrder | None:
        """Ask for an action on a server; return the reason if Nova refuses it, otherwise None.

        :raises NotAnswered: no answer; the action may have begun
        """
        return self._order(
            "post", f"/servers/{server}/action", microversion, json={action: argument}
        )

    def delete(self, server: str) -> RefusedOrder | None:
        """Delete a server; return the reason if Nova refuses, otherwise None."""
        return self._order("delete", f"/servers/{server}", MICROVERSION)

    def _order(self, method: str, url: str, microversion: str, **more: Any) -> RefusedOrder | None:
        require_names(url)
        headers = {"Accept": "application/json"}
        answer = send_request(
            self._adapter, method, url, headers=headers, microversion=microversion, **more
        )
        if answer.status_code < 300:
            return None
        return RefusedOrder(answer.status_code, _word_refusal(answer))

    def _show(self, path: str, key: str) -> Any:
        answer = self._send(path)
        if answer.status_code == 404:
            return None
        if answer.status_code != 200:
            raise NovaNotAnswered(f"GET {path}: {_word_refusal(answer)}")
        try:
            return answer.json()[key]
        except (ValueError, KeyError, TypeError) as error:
            raise NovaNotAnswered(f"GET {path}: unreadable answer: {error!r}") from error

    def _list_servers(self, only: dict[str, str]) -> Iterator[tuple[str, _Server]]:
        # The list of all servers lacks deleted ones that can still be restored.
        for more in ({}, {"status": "SOFT_DELETED"}):
            wanted = {"all_tenants": "True", **only, **more}
            for server in self._list("/servers/detail", "servers", wanted):
                status = server["status"]
                # Nova shows this field together with the host, and never as null: without the field, a null
                # host means nothing.
                if server.get(f"{_EXTENDED}:instance_name") is None and status not in UNSETTLED:
                    raise PlaceHidden(f"Nova does not show on which host {server['id']} is")
                node = server.get(f"{_EXTENDED}:hypervisor_hostname") or server.get(
                    f"{_EXTENDED}:host"
                )
                yield server["id"], _Server(status, server.get("OS-EXT-STS:task_state"), node)

    def _list(self, path: str, key: str, query: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Yield the entries of all pages of a list."""
        passed = set()
        while True:
            asked = urlencode(query)
            if asked in passed:
                raise NovaNotAnswered(f"the pages of {path} have no end")
            passed.add(asked)
            response = self._send(f"{path}?{asked}")
            if response.status_code != 200:
                raise NovaNotAnswered(f"GET {path}: {_word_refusal(response)}")
            try:
                page = response.json()
                found, links = page[key], page.get(f"{key}_links", ())
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise NovaNotAnswered(f"GET {path}: unreadable answer: {error!r}") from error
            yield from found
            more = [link["href"] for link in links if link["rel"] == "next"]
            if not more:
                return
            query = dict(parse_qsl(urlsplit(more[0]).query))

    def _send(self, url: str) -> Any:
        require_names(url)
        return send_request(
            self._adapter,
            "get",
            url,
            headers={"Accept": "application/json"},
            microversion=MICROVERSION,
        )


def _word_refusal(response: Any) -> str:
    said = " ".join(str(response.text).split())[:300]
    return f"HTTP {response.status_code} {said}"


def _find_nodes(server: _Server, migrations: Iterable[_Migration]) -> frozenset[str] | None:
    if server.task or server.status in UNSETTLED:
        return None
    nodes = {server.node}
    for migration in migrations:
        if migration.status == "done":
            nodes.add(migration.source_node)
        elif migration.status != "error":
            return None
        elif server.status == "ERROR":
            # The migration failed half-way: an operator must find out which host has the server.
            nodes |= {migration.source_node, migration.dest_node}
    return frozenset(node for node in nodes if node)
