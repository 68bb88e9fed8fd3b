"""Every error the service answers with, declared once.

``placement.web.error_responses`` alone turns them into responses. Errors that belong to one noun live
beside that noun in ``placement.objects``; only what several rooms share is here.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

UNDEFINED_CODE = "placement.undefined_code"
CONCURRENT_UPDATE = "placement.concurrent_update"


class Retry(enum.StrEnum):
    """The step that a client takes before the same request may succeed (specification 01 section 9.6)."""

    NEVER = "never"
    AFTER_READING = "after_reading"
    AS_IT_IS = "as_it_is"


@dataclass_transform(kw_only_default=True)
class PlacementError(Exception):
    """An expected failure with a status, a code and a message for the client.

    ``text`` is a template. Its fields are annotated in the class body: the type checker asks for each
    of them, by name, where the error is raised; afterwards they are attributes.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = UNDEFINED_CODE
    reason: ClassVar[str] = "internal_error"
    retry: ClassVar[Retry] = Retry.NEVER
    text: ClassVar[str] = ""
    of_consumers: ClassVar[bool] = False
    """The reason may be the allocations of consumers."""
    is_amid_expired: ClassVar[bool] = False
    """Expired allocations may be the reason: the service removes them and tries the request again."""
    about: ClassVar[str] = ""
    """The field of the error that names the refused part of the request."""
    near: ClassVar[Sequence[str]] = ()
    """Names that exist and resemble the one that does not (specification 01 section 9.2)."""

    if TYPE_CHECKING:
        # The type checker makes an __init__ for classes with fields; the others take this one.
        def __init__(self) -> None: ...

    else:

        def __init__(self, **fields: Any) -> None:
            vars(self).update(fields)
            super().__init__(self.text.format(**fields))

    @property
    def details(self) -> Mapping[str, Any]:
        """Return the refused part of the request, ``field``, and the ``rule`` that refuses it, if known."""
        return {"field": getattr(self, self.about)} if self.about else {}

    def more(self) -> Mapping[str, Any]:
        """Return what its document has beside the members that every error has."""
        return {}


class BadRequest(PlacementError):
    """The request cannot be understood, or names something that does not exist."""

    status = 400
    reason = "bad_request"


class Malformed(BadRequest):
    """A request that breaks one of the rules in ``texts``, of which each has its frozen wording."""

    broken: ClassVar[Mapping[str, Any]] = {}
    texts: ClassVar[Mapping[str, str]] = {}
    codes: ClassVar[Mapping[str, str]] = {}
    reasons: ClassVar[Mapping[str, str]] = {}

    text = "{wording}"
    rule: str
    wording: str

    @classmethod
    def of(cls, rule: str, **fields: object) -> Self:
        """Return the error of one rule, given the fields of its text.

        ``field`` and ``keyword``, if given, say what of the request breaks which word of its schema.
        """
        error = cls(rule=rule, wording=cls.texts[rule].format(**fields))
        vars(error)["code"] = cls.codes.get(rule, cls.code)
        vars(error)["reason"] = cls.reasons.get(rule, cls.reason)
        field = fields.get("field", fields.get("name"))
        broken = {"field": field, "rule": fields.get("keyword", rule)}
        vars(error)["broken"] = {name: value for name, value in broken.items() if value is not None}
        return error

    @classmethod
    def told_by(cls, refused: BadRequest, rule: str, **fields: object) -> Self:
        """Return the error of one rule whose ``detail`` is another error, with what that one says besides."""
        error = cls.of(rule, detail=refused, **fields)
        told = {"code": refused.code, "reason": refused.reason, "broken": refused.details}
        vars(error).update(told)
        return error

    @property
    def details(self) -> Mapping[str, Any]:
        """Return what the rule is about, and the rule."""
        return self.broken


class MalformedRequest(Malformed):
    """The request cannot be understood, or does not hold what the operation takes."""

    reasons = {
        "incomplete": "incomplete_body",
        "json": "malformed_json",
        "body": "invalid_body",
        "parameter": "unknown_parameter",
        "query": "invalid_query",
        "consumer": "invalid_uuid",
        "name": "invalid_query",
        "associated": "invalid_query",
    }
    texts = {
        "line": "The request line cannot be understood.",
        "content-type": "content-type header required when content-length > 0",
        "content-length": "content-length header must be an integer",
        "version": "invalid version string: {given}",
        "incomplete": "The request body did not arrive whole: {detail}",
        "json": "Malformed JSON: {detail}",
        "body": "JSON does not validate: {detail}",
        "parameter": "Invalid query string parameters: {detail}",
        "query": "Invalid query string parameters: {detail}",
        "consumer": "Malformed consumer_uuid: {given}",
        "name": "Badly formatted name parameter. Expected name query string parameter in form: "
        '?name=[in|startswith]:[name1,name2|prefix]. Got: "{given}"',
        "associated": 'The query parameter "associated" only accepts "true" or "false", '
        'got "{given}" instead.',
    }


class NotStorable(BadRequest):
    """The character set of the database cannot hold what the client names (specification 06 section 7.1)."""

    reason = "name_not_storable"
    about = "name"
    text = "The database cannot store the name {name}: its character set lacks the room for it."
    name: str


class StandardName(Malformed):
    """Standard traits and resource classes stay, and keep their names."""

    reason = "standard_name"

    texts = {
        "trait": "Cannot delete standard trait {name}.",
        "class": "Error in delete resource class: Cannot delete standard resource class {name}.",
        "new name": "Cannot update standard resource class {name}",
    }


class Forbidden(PlacementError):
    """The policy does not let the caller do this."""

    status = 403
    reason = "forbidden"


class NotFound(PlacementError):
    """The addressed object does not exist."""

    status = 404
    reason = "not_found"


class Conflict(PlacementError):
    """The request is sound but does not fit the present state."""

    status = 409
    reason = "conflict"


class ConcurrentUpdate(Conflict):
    """Another request changed what this request was about to change."""

    code = CONCURRENT_UPDATE
    reason = "concurrent_update"
    retry = Retry.AS_IT_IS


class ObjectsChanged(ConcurrentUpdate):
    """Others kept changing what a write was about."""

    text = "update conflict: the objects changed while they were being written"


class Unavailable(PlacementError):
    """The database cannot be used right now; the client may come back."""

    status = 503
    reason = "unavailable"
    retry = Retry.AS_IT_IS
    retry_after_s: ClassVar[int | None] = 1


class DatabaseUnavailable(Unavailable):
    """The service could not connect to the database within the deadline."""

    reason = "database_unavailable"
    text = "The database cannot be reached at the moment. Nothing was changed; please try again."


class DatabaseBusy(Unavailable):
    """Other transactions kept the rows locked, or the file that the request wanted to write to."""

    reason = "database_busy"
    text = "The database is kept busy by others at the moment; please try again."


class OutcomeUnknown(Unavailable):
    """The connection broke during COMMIT: the write happened as a whole or not at all."""

    reason = "outcome_unknown"
    retry = Retry.AFTER_READING
    retry_after_s = None

    text = (
        "The connection to the database was lost while the change was being committed. "
        "Read the object again to see whether the change was made."
    )


class SequenceBehind(PlacementError):
    """A sequence of PostgreSQL gave a new row an id that another row has."""

    reason = "sequence_behind"
    text = (
        "The database gave a new row of the table {table} an id that another row has: the sequence of the"
        " table stands behind it, as after a restore of rows alone. Nothing was changed. An operator must run"
        ' "placement-manage db check", which names the sequence and the statement that sets it.'
    )
    table: str


class NumberAtBound(PlacementError):
    """A number in the database, which no write of this service brings there, cannot grow any more."""

    reason = "number_at_bound"
    text = (
        "A number in the database is at the bound of its column, where only a change by hand can have brought"
        ' it. Nothing was changed. An operator must run "placement-manage db scrub", which counts usage anew.'
        " A generation or a revision must be set to a smaller number by hand."
    )


class DatabaseReadOnly(Unavailable):
    """The database takes no writes (read-only file or server, full disk)."""

    reason = "database_read_only"
    text = "The database takes no writes at the moment. Nothing was changed."
