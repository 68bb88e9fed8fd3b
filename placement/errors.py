"""Every error the service answers with, declared once.

``placement.web.error_responses`` alone turns them into responses. Errors of one noun are declared with that
noun in ``placement.objects``; this module has only shared errors.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

UNDEFINED_CODE = "placement.undefined_code"
CONCURRENT_UPDATE = "placement.concurrent_update"


class Retry(enum.StrEnum):
    """The step that a client takes before the same request can succeed (specification 01 section 9.6)."""

    NEVER = "never"
    AFTER_READING = "after_reading"
    AS_IT_IS = "as_it_is"


@dataclass_transform(kw_only_default=True)
class PlacementError(Exception):
    """An expected failure with a status, a code and a message for the client.

    ``text`` is a template. Its fields are annotated in the class body: the type checker requires each of
    them, by name, where the error is raised; afterwards they are attributes.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = UNDEFINED_CODE
    reason: ClassVar[str] = "internal_error"
    retry: ClassVar[Retry] = Retry.NEVER
    text: ClassVar[str] = ""
    of_consumers: ClassVar[bool] = False
    """Whether allocations of consumers can be the reason."""
    is_amid_expired: ClassVar[bool] = False
    """Whether expired allocations can be the reason: the service removes them and tries the request again."""
    about: ClassVar[str] = ""
    """The field of the error that names the refused part of the request."""
    near: ClassVar[Sequence[str]] = ()
    """Existing names that resemble the unknown one (specification 01 section 9.2)."""

    if TYPE_CHECKING:
        # The type checker makes an __init__ for classes with fields; other classes use this one.
        def __init__(self) -> None: ...

    else:

        def __init__(self, **fields: Any) -> None:
            vars(self).update(fields)
            super().__init__(self.text.format(**fields))

    @property
    def details(self) -> Mapping[str, Any]:
        """Return the refused part of the request as ``field``, and the violated ``rule``, as far as known."""
        return {"field": getattr(self, self.about)} if self.about else {}

    def more(self) -> Mapping[str, Any]:
        """Return the additional members of its document."""
        return {}


class BadRequest(PlacementError):
    """The request cannot be understood, or names something that does not exist."""

    status = 400
    reason = "bad_request"


class Malformed(BadRequest):
    """A request that breaks one of the rules in ``texts``; the wording of each is frozen."""

    broken: ClassVar[Mapping[str, Any]] = {}
    texts: ClassVar[Mapping[str, str]] = {}
    codes: ClassVar[Mapping[str, str]] = {}
    reasons: ClassVar[Mapping[str, str]] = {}

    text = "{wording}"
    rule: str
    wording: str

    @classmethod
    def for_rule(cls, rule: str, **fields: object) -> Self:
        """Return the error of one rule, given the fields of its text.

        ``field`` and ``keyword``, if given, name the part of the request and the keyword of the schema that
        it violates.
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
        """Return the error of one rule with another error as its ``detail``, and that error's members."""
        error = cls.for_rule(rule, detail=refused, **fields)
        told = {"code": refused.code, "reason": refused.reason, "broken": refused.details}
        vars(error).update(told)
        return error

    @property
    def details(self) -> Mapping[str, Any]:
        """Return the subject of the rule, and the rule."""
        return self.broken


class MalformedRequest(Malformed):
    """The request cannot be understood, or lacks what the operation needs."""

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
    """The character set of the database cannot hold a name in the request (specification 06 section 7.1)."""

    reason = "name_not_storable"
    about = "name"
    text = "The database cannot store the name {name}: its character set lacks the room for it."
    name: str


class StandardName(Malformed):
    """Standard traits and resource classes cannot be deleted or renamed."""

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
    """Another request changed the objects that this request was about to change."""

    code = CONCURRENT_UPDATE
    reason = "concurrent_update"
    retry = Retry.AS_IT_IS


class ObjectsChanged(ConcurrentUpdate):
    """Other requests kept changing the objects of a write."""

    text = "update conflict: the objects changed while they were being written"


class Unavailable(PlacementError):
    """The database cannot be used right now; the client can try again."""

    status = 503
    reason = "unavailable"
    retry = Retry.AS_IT_IS
    retry_after_s: ClassVar[int | None] = 1


class DatabaseUnavailable(Unavailable):
    """The service could not connect to the database within the deadline."""

    reason = "database_unavailable"
    text = "The database cannot be reached at the moment. Nothing was changed; please try again."


class DatabaseBusy(Unavailable):
    """Other transactions kept the rows, or the file that the request wanted to write, locked."""

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
    """A number in the database has reached its bound; no write of this service does that."""

    reason = "number_at_bound"
    text = (
        "A number in the database is at the bound of its column, where only a change by hand can have brought"
        ' it. Nothing was changed. An operator must run "placement-manage db scrub", which counts usage anew.'
        " A generation or a revision must be set to a smaller number by hand."
    )


class DatabaseReadOnly(Unavailable):
    """The database does not accept writes (read-only file or server, full disk)."""

    reason = "database_read_only"
    text = "The database takes no writes at the moment. Nothing was changed."
