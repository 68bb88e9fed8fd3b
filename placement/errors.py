"""Every error the service answers with, declared once.

A subclass of :class:`PlacementError` says its HTTP status, its ``code`` (contract 01 section 9.4) and
its wording. The domain raises it; ``placement.web.faults`` alone turns it into a response. Errors that
belong to one noun live beside that noun in ``placement.objects``; only what several rooms share is here.
"""

from typing import Any, ClassVar

UNDEFINED_CODE = "placement.undefined_code"
CONCURRENT_UPDATE = "placement.concurrent_update"


class PlacementError(Exception):
    """An expected failure with a status, a code and a message for the client.

    ``text`` is a template filled from the keyword arguments, which stay readable in ``values``.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = UNDEFINED_CODE
    text: ClassVar[str] = "{detail}"

    def __init__(self, **values: Any) -> None:
        self.values = values
        super().__init__(self.text.format(**values))


class BadRequest(PlacementError):
    """What the client sent cannot be understood or names something that is not there."""

    status = 400


class Forbidden(PlacementError):
    """The policy does not let the caller do this."""

    status = 403


class NotFound(PlacementError):
    """The addressed object does not exist."""

    status = 404


class Conflict(PlacementError):
    """The request is sound but does not fit the present state."""

    status = 409


class ConcurrentUpdate(Conflict):
    """Somebody else changed what this request was about to change."""

    code = CONCURRENT_UPDATE
    text = "update conflict: {detail}"


class Unavailable(PlacementError):
    """The database cannot be used right now; the client may come back."""

    status = 503


class DatabaseUnavailable(Unavailable):
    """No connection to the database could be had within the deadline."""

    text = "The database cannot be reached at the moment. Nothing was changed; please try again."


class DatabaseBusy(Unavailable):
    """What a request only wanted to read stayed locked by others until the deadline."""

    text = "The database is kept busy by others at the moment; please try again."


class OutcomeUnknown(Unavailable):
    """The connection broke while the transaction was being committed.

    The write happened as a whole or not at all; only reading again tells which.
    """

    text = (
        "The connection to the database was lost while the change was being committed. "
        "Read the object again to see whether the change was made."
    )


class DatabaseReadOnly(Unavailable):
    """The database takes no writes (read-only file or server, full disk)."""

    text = "The database takes no writes at the moment. Nothing was changed."
