"""Names and trees of providers; the service is asked once for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from placement.client import exceptions as exc
from placement.client.api import PlacementAPI, problem_of, read_document


class ProviderNames:
    """Providers of a service behind a keystoneauth1 adapter, or behind an object that acts like one."""

    def __init__(self, adapter: Any) -> None:
        self._api = PlacementAPI(adapter, unanswered=exc.NotAnswered)
        self._shown: dict[str, Mapping[str, Any]] = {}

    def name_of(self, uuid: str) -> str:
        """Return the name of a provider."""
        return str(self._ask(uuid)["name"])

    def root_of(self, uuid: str) -> str:
        """Return the uuid of the root of a provider's tree."""
        return str(self._ask(uuid)["root_provider_uuid"])

    def holds_something(self, consumer_uuid: str) -> bool:
        """Return whether a consumer has allocations now."""
        return bool(self._get(f"/allocations/{quote(consumer_uuid)}", "allocations")["allocations"])

    def _ask(self, uuid: str) -> Mapping[str, Any]:
        if uuid not in self._shown:
            url = f"/resource_providers/{quote(uuid)}"
            self._shown[uuid] = self._get(url, "name", "root_provider_uuid")
        return self._shown[uuid]

    def _get(self, url: str, *members: str) -> Mapping[str, Any]:
        answer = self._api.send("get", url, None)
        if answer.status_code != 200:
            raise problem_of(answer).as_failure(exc.NotAnswered, url=url)
        return read_document(answer, exc.NotAnswered, *members)
