"""One request through an adapter, with one kind of error for whatever keeps an answer away."""

from __future__ import annotations

from typing import Any

from keystoneauth1 import exceptions as keystone_exceptions

from placement.client.connection import without_password
from placement.client.exceptions import NotAnswered, PlacementClientError


def send_request(
    adapter: Any,
    method: str,
    url: str,
    failed: type[PlacementClientError] = NotAnswered,
    **more: Any,
) -> Any:
    """Send a request and return the response, whatever its status.

    :param failed: raised, with a ``status`` of None, if there is no answer, or not the whole of it: no
        connection, a timeout, no token, no endpoint, no file with certificates. The request may have been
        carried out.
    """
    try:
        return getattr(adapter, method)(url, raise_exc=False, **more)
    except (keystone_exceptions.ClientException, OSError) as error:
        raise failed(without_password(str(error) or repr(error)), url=url) from error
