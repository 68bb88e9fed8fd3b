"""The history: who wrote what, and the previous state (specification 07 section 11).

The service must have ``[insight]/enabled`` and ``[insight]/history_days``. ::

    for write in HistoryClient(adapter).writes(consumer=server):
        print(write["at"], write["by"]["user_id"], write["method"], write["before"], write["after"])
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from placement.client import exceptions as exc
from placement.client.api import PlacementAPI, problem_of, read_document

PAGE_SIZE = 1000


class HistoryNotRead(exc.PlacementClientError):
    """The service does not record a history, or could not be asked."""

    summary = "History not read"


class HistoryClient:
    """Reads the history of writes.

    :param adapter: the keystoneauth1 adapter of the service.
    """

    def __init__(self, adapter: Any) -> None:
        self._api = PlacementAPI(adapter, unanswered=HistoryNotRead)

    def writes(
        self,
        *,
        consumer: str | None = None,
        provider: str | None = None,
        project_id: str | None = None,
        request_id: str | None = None,
        since: str | None = None,
        until: str | None = None,
        page_size: int = PAGE_SIZE,
        context: Any = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield the writes that match all given arguments, newest first, page by page.

        :param project_id: the project of the consumer.
        :param request_id: the id of the request, or the global id that its client sent, such as the id of an
            action in Nova.
        :param since: such as ``2026-11-26T15:04:05Z``, inclusive; ``until`` is exclusive.
        :raises HistoryNotRead:
        """
        wanted = {
            **{"consumer": consumer, "provider": provider, "project_id": project_id},
            **{"request_id": request_id, "since": since, "until": until},
            "limit": str(page_size),
        }
        query = {name: value for name, value in wanted.items() if value is not None}
        while True:
            response = self._api.send("get", f"/-/history?{urlencode(query)}", context)
            if response.status_code != 200:
                raise problem_of(response).as_failure(HistoryNotRead)
            page = read_document(response, HistoryNotRead, "writes", "next")
            yield from page["writes"]
            if page["next"] is None:
                return
            query["marker"] = page["next"]
