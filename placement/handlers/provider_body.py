"""Reading the body of a write to a provider."""

from typing import Any

from placement import errors
from placement.objects import resource_provider
from placement.web.request import Request
from placement.web.validation import Schema


def read_body(request: Request, schema: Schema) -> Any:
    """Return the valid body; a provider that is not there is reported before a bad body.

    A good body costs no statement: the write itself finds out whether the provider is there.

    :raises resource_provider.ProviderNotFound: 404
    :raises placement.errors.BadRequest: 400
    """
    try:
        return request.read_json(schema)
    except errors.BadRequest:
        resource_provider.show(request.db, request.path_args["uuid"])
        raise
