"""One request through an adapter, with one kind of error for every reason that prevents an answer."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from keystoneauth1 import exceptions as keystone_exceptions

from placement.client.connection import without_password
from placement.client.exceptions import EmptyName, NotAnswered, PlacementClientError

GROUPS = "/-/groups/"
"""The path before the name of a group; a name may contain slashes."""

EMPTY_FOR_NONE = "avoid"
"""The only parameter of a query that may be empty: it replaces the service's traits by no trait."""


def send_request(
    adapter: Any,
    method: str,
    url: str,
    failed: type[PlacementClientError] = NotAnswered,
    **more: Any,
) -> Any:
    """Send a request and return the response, whatever its status.

    :param failed: the error to raise, with a ``status`` of None, if there is no complete answer: no
        connection, a timeout, no token, no endpoint, no file with certificates. The request may have been
        carried out.
    """
    try:
        return getattr(adapter, method)(url, raise_exc=False, **more)
    except (keystone_exceptions.ClientException, OSError) as error:
        raise failed(without_password(str(error) or repr(error)), url=url) from error


def require_names(url: str) -> None:
    """Refuse a URL in which a name or uuid is empty: such a URL would select everything, or the first object.

    :raises EmptyName:
    """
    path, _, query = url.partition("?")
    names = [path.removeprefix(GROUPS)] if path.startswith(GROUPS) else path.split("/")[1:]
    asked = parse_qsl(query, keep_blank_values=True)
    names += [value for name, value in asked if name != EMPTY_FOR_NONE]
    if path != "/" and not all(names):
        raise EmptyName(f"not sent: {url}", url=url)
