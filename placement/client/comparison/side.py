"""One of the two compared services."""

from __future__ import annotations

import time
from typing import Any

from placement.client.comparison.meaning import SideAnswer
from placement.client.comparison.question import ComparedQuestion
from placement.client.connection import without_password
from placement.client.exceptions import NotAnswered
from placement.client.sending import send_request
from placement.printable import quote_word


class Side:
    """A service behind a keystoneauth1 adapter.

    :param name: ``OLD`` or ``NEW``.
    """

    def __init__(self, name: str, adapter: Any) -> None:
        self.name = name
        self._adapter = adapter

    def ask(self, question: ComparedQuestion) -> SideAnswer:
        """Send one GET request, the only kind of request that the comparison sends."""
        begun = time.perf_counter()
        try:
            response = send_request(
                self._adapter,
                "get",
                question.path,
                headers={"Accept": "application/json"},
                microversion=question.microversion,
            )
            status, body = response.status_code, _read_body(response)
        except NotAnswered as error:
            return SideAnswer(0, None, time.perf_counter() - begun, error.error)
        return SideAnswer(status, body, time.perf_counter() - begun)

    def curl(self, question: ComparedQuestion) -> str:
        """Return the request as a command; the token is a variable of the shell."""
        url = f"{self._adapter.get_endpoint() or ''}".rstrip("/") + question.path
        shown = quote_word(without_password(url))
        return (
            f'curl -s -H "X-Auth-Token: ${self.name}_TOKEN"'
            f" -H 'OpenStack-API-Version: placement {question.microversion}' {shown}"
        )


def _read_body(response: Any) -> Any:
    try:
        return response.json()
    except ValueError:
        return response.text
